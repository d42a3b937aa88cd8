package data

import (
	"bytes"
	"encoding/json"
	"errors"
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
	at := indexed(names)
	rows, row := rows{layout: l, known: map[string]int32{}}, make([]string, len(names))
	err = eachLine(r, func(number int, line []byte) error {
		object, err := readObject(line, at, s.unlabelled)
		if err != nil {
			return fmt.Errorf("line %d %w", number, err)
		}
		for k, name := range names {
			if l.roles[k].ignore {
				continue
			}
			value, ok := object[name]
			if !ok {
				return fmt.Errorf("line %d has no key %q", number, name)
			}
			if row[k], ok = cell(value); !ok {
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

// readObject reads the known keys of a JSON object, which may have others or not. Of a key
// that it has twice, nobody said which value counts.
func readObject(line []byte, known map[string]int, others bool) (map[string]json.RawMessage, error) {
	none := errors.New("is no JSON object")
	in := json.NewDecoder(bytes.NewReader(line))
	if begin, err := in.Token(); err != nil || begin != json.Delim('{') {
		return nil, none
	}
	object := map[string]json.RawMessage{}
	for n := 1; in.More(); n++ {
		var value json.RawMessage
		key, err := in.Token()
		if err == nil {
			err = in.Decode(&value)
		}
		if err != nil {
			return nil, none
		}
		name := key.(string)
		if _, is := known[name]; !is && others {
			continue
		} else if !is {
			return nil, fmt.Errorf("has a key that nothing is known about, number %d of it; write --bounds, --vocabulary, --text or --ignore for that", n)
		}
		if _, twice := object[name]; twice {
			return nil, fmt.Errorf("has key %q twice", name)
		}
		object[name] = value
	}
	if _, err := in.Token(); err != nil {
		return nil, none
	}
	if _, err := in.Token(); err != io.EOF {
		return nil, none
	}
	return object, nil
}

// cell writes a JSON value as a table would have it.
func cell(value json.RawMessage) (text string, ok bool) {
	if len(value) == 0 || string(value) == "null" {
		return "", true
	}
	switch value[0] {
	case '"':
		return text, json.Unmarshal(value, &text) == nil
	case '[':
		var list []int
		if json.Unmarshal(value, &list) != nil {
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
	return string(value), true // a number, true or false
}
