package data

import (
	"fmt"
	"io"
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
	rows := exampleReader{rowLayout: l, policy: policy, userNumbers: map[userDigest]int32{}}
	err = eachJSONLRow(r, l, s, func(number int, row []string, problem error) error {
		if problem != nil {
			return rows.addBlank("", problem)
		}
		return rows.addOrBlank(row, func(k int, err error) error { return fmt.Errorf("line %d, key %q: %w", number, names[k], err) })
	})
	if err != nil {
		return nil, nil, err
	}
	set, err := rows.set(s)
	return set, l.inputs, err
}

// eachJSONLRow calls f with the cells of each line in the order of the layout's columns, or with
// the problem of a line that has not these cells. The next line overwrites the cells.
func eachJSONLRow(r io.Reader, l *rowLayout, s Schema, f func(number int, row []string, problem error) error) error {
	index, row := indexOf(s.columns()), make([]string, len(l.roles))
	limit := l.maxRowBytes()
	return eachLine(r, limit, func(number int, line []byte, long bool, problem error) error {
		if long {
			problem = errLongLine(number, limit)
		}
		if problem == nil {
			clear(row)
			problem = l.readObject(row, number, line, index, s.featuresOnly)
		}
		if problem != nil {
			return f(number, nil, problem)
		}
		return f(number, row, nil)
	})
}

// readObject reads the cells of a line.
func (l *rowLayout) readObject(row []string, number int, line []byte, index map[string]int, allowUnknown bool) error {
	if err := readObject(row, line, index, allowUnknown); err != nil {
		return fmt.Errorf("line %d %w", number, err)
	}
	for k, c := range l.roles {
		if c.ignore {
			continue
		}
		if row[k] == "" && l.isInput(k) && !allowUnknown {
			continue // like null
		}
		if row[k] == "" {
			return fmt.Errorf("line %d has no key %q", number, c.Name)
		}
		var ok bool
		if row[k], ok = cellText(row[k]); !ok {
			return fmt.Errorf("line %d, key %q: the value is neither a text, nor a number, nor a list of whole numbers", number, c.Name)
		}
	}
	return nil
}

// cellText converts a JSON value to the text of a table's cell.
func cellText(value string) (text string, ok bool) {
	switch value[0] {
	case 'n':
		return "", true
	case '"':
		return unquoted(value), true
	case '[':
		return listText(value[1 : len(value)-1])
	case '{':
		return "", false
	}
	return value, true // a number, true or false
}

// listText converts the inside of a JSON list of whole numbers to numbers with spaces between them.
// It takes no more memory than the list, however many numbers it has.
func listText(list string) (text string, ok bool) {
	var b strings.Builder
	b.Grow(len(list))
	for i := range len(list) {
		switch c := list[i]; {
		case c == ',':
			b.WriteByte(' ')
		case c == '-' || '0' <= c && c <= '9':
			b.WriteByte(c)
		case !strings.ContainsRune(space, rune(c)):
			return "", false
		}
	}
	return b.String(), true
}
