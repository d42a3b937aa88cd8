package data

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
)

// readCSV turns rows into examples: the features, in the order of the file's
// columns, whose names it returns, and the label. Errors name lines and columns,
// never what stands there.
func readCSV(r io.Reader, s Schema) (Set, []string, error) {
	b := bufio.NewReader(r)
	if mark, _ := b.Peek(3); string(mark) == "\ufeff" {
		b.Discard(3)
	}
	in := csv.NewReader(b)
	in.ReuseRecord = true
	in.TrimLeadingSpace = true
	header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, nil, errors.New("is empty; the first line must name the columns")
	}
	if err != nil {
		return nil, nil, err
	}
	if err := checkCommas(header); err != nil {
		return nil, nil, err
	}
	l, err := newLayout(header, s)
	if err != nil {
		return nil, nil, err
	}
	rows := exampleReader{rowLayout: l, known: map[string]int32{}}
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, csv.ErrFieldCount) {
			line, _ := in.FieldPos(0)
			return nil, nil, fmt.Errorf("line %d: %d fields where the first line names %d columns", line, len(row), len(l.roles))
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

// checkCommas refuses a first line that was not written as UTF-8 with commas
// between columns and a line feed at the end.
func checkCommas(header []string) error {
	for _, name := range header {
		switch {
		case strings.ContainsRune(name, '\r'):
			return errors.New("its lines end in carriage returns alone; write them with line feeds")
		case strings.ContainsRune(name, 0):
			return errors.New("its first line has zero bytes, as UTF-16 has; write it as UTF-8")
		}
	}
	if len(header) > 1 {
		return nil
	}
	for between, word := range map[string]string{";": "semicolons", "\t": "tabs"} {
		if strings.Contains(header[0], between) {
			return fmt.Errorf("the first line has no commas but %s; write commas between columns", word)
		}
	}
	return nil
}
