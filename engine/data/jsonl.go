package data

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// longestLine bounds a line, so that a file without line ends is an error and
// not all of the memory.
const longestLine = 64 << 20

// eachLine calls f with the lines of a file that are not blank, and their
// numbers.
func eachLine(r io.Reader, f func(number int, line []byte) error) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 1<<16), longestLine)
	number := 0
	for in.Scan() {
		number++
		line := in.Bytes()
		if number == 1 {
			if mark := string(line[:min(2, len(line))]); mark == "\xff\xfe" || mark == "\xfe\xff" {
				return errors.New("is UTF-16; write it as UTF-8")
			}
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if err := f(number, line); err != nil {
			return err
		}
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d is longer than %d bytes", number+1, longestLine)
	}
	return in.Err()
}

// readJSONL turns objects, one a line, into examples, their keys being columns.
// Texts, numbers, true and false stand for themselves, null for nothing, and a
// list of whole numbers for indices. Every key must be known to the schema, if only to
// be ignored.
func readJSONL(r io.Reader, s Schema) (Set, []string, error) {
	names := s.columns()
	l, err := newLayout(names, s)
	if err != nil {
		return nil, nil, err
	}
	at := indexed(names)
	rows, row := rows{layout: l, known: map[string]int32{}}, make([]string, len(names))
	err = eachLine(r, func(number int, line []byte) error {
		object, err := readObject(line)
		if err != nil {
			return fmt.Errorf("line %d %w", number, err)
		}
		for key := range object {
			if _, ok := at[key]; !ok {
				return fmt.Errorf("line %d has a key that nothing is known about, %q; write --bounds, --vocabulary, --text or --ignore for it%s", number, key, meant(key, names))
			}
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

// readObject reads a JSON object. Of a key that it has twice, nobody said which value
// counts.
func readObject(line []byte) (map[string]json.RawMessage, error) {
	none := errors.New("is no JSON object")
	in := json.NewDecoder(bytes.NewReader(line))
	if begin, err := in.Token(); err != nil || begin != json.Delim('{') {
		return nil, none
	}
	object := map[string]json.RawMessage{}
	for in.More() {
		var value json.RawMessage
		key, err := in.Token()
		if err == nil {
			err = in.Decode(&value)
		}
		if err != nil {
			return nil, none
		}
		name := key.(string)
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

// lines is the layout of plain text: a row is a text.
func lines(t *tokenizer) *layout {
	return &layout{order: []int{0}, label: -1, user: -1, tokens: t}
}

// readText makes each line that is not blank an example: a language model's.
func readText(r io.Reader, s Schema) (Set, []string, error) {
	t, err := s.tokenizer()
	if err != nil {
		return nil, nil, err
	}
	rows := rows{layout: lines(t)}
	if err := eachLine(r, func(number int, line []byte) error {
		if _, err := rows.add([]string{string(line)}); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		return nil
	}); err != nil {
		return nil, nil, err
	}
	if rows.count == 0 {
		return nil, nil, errors.New("has no line with text")
	}
	set, err := rows.set(s)
	return set, nil, err
}

// openText reads a plain text, or another one to test with: a line is an example.
func openText(file string, o Options) (*Task, error) {
	if o.Schema.named() || len(o.Schema.Classes) > 0 {
		return nil, fmt.Errorf("%s is plain text, whose lines have no columns: leave out label, classes, text, bounds, vocabulary, ignore and user, or write a .csv or .jsonl file", file)
	}
	o.Schema.Next = true
	return openLines(file, o, readText)
}
