package data

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// readJSONL converts lines with one JSON object each to examples. Keys are columns. A
// value is a text, a number, true, false, null (an empty cell) or a list of whole numbers
// (indices). If the examples have labels, the schema must know every key, if only to
// ignore it. Errors name lines and the schema's keys. They name a key that the schema does
// not know only by its position in the line, because it may contain anything.
func readJSONL(r io.Reader, s Schema, policy rowPolicy) (Set, []string, error) {
	names := s.columns()
	l, err := newLayout(names, s)
	if err != nil {
		return nil, nil, err
	}
	index := indexOf(names)
	rows, row := exampleReader{rowLayout: l, policy: policy, userNumbers: map[string]int32{}}, make([]string, len(names))
	err = eachLine(r, func(number int, line []byte, problem error) error {
		if problem != nil {
			return rows.addBlank("", problem)
		}
		clear(row)
		if err := readObject(row, line, index, s.featuresOnly); err != nil {
			return rows.addBlank("", fmt.Errorf("line %d %w", number, err))
		}
		for k, name := range names {
			if l.roles[k].ignore {
				continue
			}
			if row[k] == "" {
				return rows.addBlank("", fmt.Errorf("line %d has no key %q", number, name))
			}
			var ok bool
			if row[k], ok = cellText(row[k]); !ok {
				return rows.addBlank("", fmt.Errorf("line %d, key %q: the value is neither a text, nor a number, nor a list of whole numbers", number, name))
			}
		}
		return rows.addOrBlank(row, func(k int, err error) error { return fmt.Errorf("line %d, key %q: %w", number, names[k], err) })
	})
	if err != nil {
		return nil, nil, err
	}
	set, err := rows.set(s)
	return set, l.inputs, err
}

// cellText converts a JSON value to the text of a table's cell.
func cellText(value string) (text string, ok bool) {
	switch value[0] {
	case 'n':
		return "", true
	case '"':
		return unquoted(value), true
	case '[':
		var list []int
		if strings.Contains(value, "null") || json.Unmarshal([]byte(value), &list) != nil { // Unmarshal accepts null as 0
			return "", false
		}
		words := make([]string, len(list))
		for i, n := range list {
			words[i] = strconv.Itoa(n)
		}
		return strings.Join(words, " "), true
	case '{':
		return "", false
	}
	return value, true // a number, true or false
}
