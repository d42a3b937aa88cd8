package data

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
)

// readCSV converts rows to examples. It returns them with the names of the columns that
// their features come from, in the order of the file. Errors name lines and columns,
// never values.
func readCSV(r io.Reader, s Schema) (Set, []string, error) {
	b := bufio.NewReader(r)
	if bom, _ := b.Peek(3); string(bom) == "\ufeff" {
		b.Discard(3)
	}
	in := csv.NewReader(b)
	in.ReuseRecord = true
	in.TrimLeadingSpace = true
	header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, nil, errors.New("the file is empty; the first line must name the columns")
	}
	if err != nil {
		return nil, nil, err
	}
	if err := checkHeaderFormat(header); err != nil {
		return nil, nil, err
	}
	l, err := newLayout(header, s)
	if err != nil {
		return nil, nil, err
	}
	rows := exampleReader{rowLayout: l, userNumbers: map[string]int32{}}
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, csv.ErrFieldCount) {
			line, _ := in.FieldPos(0)
			return nil, nil, fmt.Errorf("line %d: %d fields, but the first line names %d columns", line, len(row), len(l.roles))
		}
		if err != nil {
			return nil, nil, err
		}
		if k, err := rows.add(row); err != nil {
			line, _ := in.FieldPos(k)
			return nil, nil, fmt.Errorf("line %d, column %q: %w", line, l.roles[k].name, err)
		}
	}
	set, err := rows.set(s)
	return set, l.inputs, err
}

// checkHeaderFormat returns an error if the first line is not UTF-8 with commas between
// columns and a line feed at the end.
func checkHeaderFormat(header []string) error {
	for _, name := range header {
		switch {
		case strings.ContainsRune(name, '\r'):
			return errors.New("the lines end in a carriage return only; end them with a line feed")
		case strings.ContainsRune(name, 0):
			return errors.New("the first line has zero bytes, as in UTF-16; save the file as UTF-8")
		}
	}
	if len(header) > 1 {
		return nil
	}
	for separator, name := range map[string]string{";": "semicolons", "\t": "tabs"} {
		if strings.Contains(header[0], separator) {
			return fmt.Errorf("the first line has %s and no commas; separate the columns by commas", name)
		}
	}
	return nil
}
