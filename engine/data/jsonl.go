package data

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// readJSONL turns objects, one a line, into examples, their keys being columns.
// Texts, numbers, true and false stand for themselves, null for nothing, and a
// list of whole numbers for indices. Where there are labels every key must be known to
// the schema, if only to be ignored. Errors name lines, and keys that the schema has: of
// others, which may say anything, their number in the line.
func readJSONL(r io.Reader, s Schema) (Set, []string, error) {
	names := s.columns()
	l, err := newLayout(names, s)
	if err != nil {
		return nil, nil, err
	}
	at := indexOf(names)
	rows, row := exampleReader{rowLayout: l, known: map[string]int32{}}, make([]string, len(names))
	err = eachLine(r, func(number int, line []byte) error {
		clear(row)
		if err := readObject(row, line, at, s.unlabelled); err != nil {
			return fmt.Errorf("line %d %w", number, err)
		}
		for k, name := range names {
			if l.roles[k].ignore {
				continue
			}
			if row[k] == "" {
				return fmt.Errorf("line %d has no key %q", number, name)
			}
			var ok bool
			if row[k], ok = cell(row[k]); !ok {
				return fmt.Errorf("line %d, key %q: neither a text, a number nor a list of whole numbers", number, name)
			}
		}
		if k, err := rows.add(row); err != nil {
			return fmt.Errorf("line %d, key %q: %w", number, names[k], err)
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	set, err := rows.set(s)
	return set, l.inputs, err
}

// cell writes a JSON value as a table would have it.
func cell(value string) (text string, ok bool) {
	switch value[0] {
	case 'n':
		return "", true
	case '"':
		return unquoted(value), true
	case '[':
		var list []int
		if strings.Contains(value, "null") || json.Unmarshal([]byte(value), &list) != nil { // which takes null for 0
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
