package data

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// readCSV converts rows to examples. It returns them with the names of the columns that
// their features come from, in the order of the file. Errors name lines and columns,
// never values.
func readCSV(r io.Reader, s Schema, policy rowPolicy) (Set, []string, error) {
	in, l, err := openCSVRows(r, s)
	if err != nil {
		return nil, nil, err
	}
	rows := exampleReader{rowLayout: l, policy: policy, userNumbers: map[string]int32{}}
	err = in.each(func(row []string, problem error) error {
		if problem != nil {
			return rows.addBlank("", problem)
		}
		return rows.addOrBlank(row, func(k int, err error) error {
			return fmt.Errorf("line %d, column %q: %w", in.fieldLine(k), l.roles[k].Name, err)
		})
	})
	if err != nil {
		return nil, nil, err
	}
	set, err := rows.set(s)
	return set, l.inputs, err
}

// openCSVRows reads the header and matches it with the schema.
func openCSVRows(r io.Reader, s Schema) (*csvReader, *rowLayout, error) {
	separator, err := s.separator()
	if err != nil {
		return nil, nil, err
	}
	in, header, err := readCSVHeader(r, separator)
	if err != nil {
		return nil, nil, err
	}
	if err := checkHeaderFormat(header, separator); err != nil {
		return nil, nil, err
	}
	l, err := newLayout(header, s)
	return in, l, err
}

// readCSVHeader returns a reader of the rows after the header, and the header.
func readCSVHeader(r io.Reader, separator rune) (*csvReader, []string, error) {
	b := bufio.NewReaderSize(r, 1<<16)
	if bom, _ := b.Peek(3); string(bom) == "\ufeff" {
		b.Discard(3)
	}
	in := newCSVReader(b, separator)
	header, err := in.read()
	if errors.Is(err, io.EOF) {
		err = errors.New("the file is empty; the first line must name the columns")
	}
	return in, slices.Clone(header), err
}

// maxRowLines limits the lines of one row.
const maxRowLines = 1000

// badCSVRow is a line that breaks the rules for quotation marks, or a row with the wrong number of
// fields.
type badCSVRow struct{ error }

// csvReader reads rows. A row ends as RFC 4180 defines: at the first end of a line that is not in
// quotation marks. So if all rows follow its rules for quotation marks, neither the content nor
// the number of cells changes how many rows there are. A line that breaks these rules is a row of
// its own: a quotation mark that is never closed does not change how the lines after it are read.
type csvReader struct {
	file   *bufio.Reader
	comma  rune   // the separator
	again  []byte // lines to read before the file
	text   []byte // of the row
	line   int    // lines of the file before the row
	source bytes.Reader
	parser *csv.Reader // of source
	first  int         // lines before the first one that the parser read
	fields int         // of the first row
}

func newCSVReader(file *bufio.Reader, separator rune) *csvReader {
	c := &csvReader{file: file, comma: separator}
	c.reset()
	return c
}

// reset makes a parser for the lines from the current row on.
func (c *csvReader) reset() {
	c.parser, c.first = csv.NewReader(&c.source), c.line
	c.parser.Comma, c.parser.ReuseRecord, c.parser.FieldsPerRecord = c.comma, true, -1
	c.parser.TrimLeadingSpace = c.comma != '\t' // otherwise an empty cell before a tab is lost
}

// each calls f for each row, or with the problem of a row that cannot be parsed.
func (c *csvReader) each(f func(row []string, problem error) error) error {
	for {
		row, err := c.read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if bad := (*badCSVRow)(nil); errors.As(err, &bad) {
			err = f(nil, bad.error)
		} else if err == nil {
			err = f(row, nil)
		}
		if err != nil {
			return err
		}
	}
}

// read returns the next row. The next call overwrites it. The error is io.EOF at the end of the
// file and a badCSVRow for a row that cannot be parsed.
func (c *csvReader) read() ([]string, error) {
	for {
		c.line += bytes.Count(c.text, []byte{'\n'})
		c.text = c.text[:0]
		end, lines := 0, 0 // of the first line
		for quotes := 0; lines == 0 || quotes%2 != 0 && lines < maxRowLines; lines++ {
			from := len(c.text)
			if err := c.appendLine(); err == io.EOF && lines > 0 {
				break
			} else if err != nil {
				return nil, err
			}
			quotes += bytes.Count(c.text[from:], []byte{'"'})
			if lines == 0 {
				end = len(c.text)
			}
		}
		c.source.Reset(c.text)
		offset := c.parser.InputOffset()
		row, err := c.parser.Read()
		if errors.Is(err, io.EOF) {
			continue // a blank line
		}
		if c.fields == 0 && err == nil {
			c.fields = len(row)
		}
		switch {
		case err != nil:
		case len(row) != c.fields:
			if c.parser.InputOffset()-offset == int64(len(c.text)) {
				end = len(c.text) // the quotation marks are valid: the whole row is lost
			}
			line, _ := c.parser.FieldPos(0)
			err = fmt.Errorf("line %d: %d fields, but the first line names %d columns", c.first+line, len(row), c.fields)
		case c.parser.InputOffset()-offset != int64(len(c.text)):
			err = fmt.Errorf("line %d: a quotation mark is not closed", c.line+1)
		default:
			return row, nil
		}
		c.again = append(slices.Clone(c.text[end:]), c.again...)
		c.text = c.text[:end]
		c.line += bytes.Count(c.text, []byte{'\n'})
		c.text = c.text[:0]
		c.source.Reset(nil)
		c.reset()
		return nil, &badCSVRow{err}
	}
}

// appendLine appends the next line to the text of the row.
func (c *csvReader) appendLine() error {
	if len(c.again) > 0 {
		n := bytes.IndexByte(c.again, '\n') + 1
		if n == 0 {
			n = len(c.again)
		}
		c.text, c.again = append(c.text, c.again[:n]...), c.again[n:]
		return nil
	}
	from := len(c.text)
	for {
		part, err := c.file.ReadSlice('\n')
		c.text = append(c.text, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF && len(c.text) > from:
			return nil
		default:
			return err
		}
	}
}

// fieldLine returns the line of a field of the last row.
func (c *csvReader) fieldLine(field int) int {
	line, _ := c.parser.FieldPos(field)
	return c.first + line
}

// checkHeaderFormat returns an error if the first line is not UTF-8 with the separator between
// columns and a line feed at the end.
func checkHeaderFormat(header []string, separator rune) error {
	for _, name := range header {
		switch {
		case strings.ContainsRune(name, '\r'):
			return errors.New("the lines end in a carriage return only; end them with a line feed")
		case strings.ContainsRune(name, 0):
			return errors.New("the first line has zero bytes, as in UTF-16; save the file as UTF-8")
		}
	}
	if other := otherSeparator(header, separator); separator != 0 && other != "" {
		return fmt.Errorf("the first line has %ss and no %ss; write separator: %[1]s in the schema, or --separator %[1]s", other, nameOfSeparator(separator))
	}
	return nil
}

// otherSeparator returns the name of the separator in a header that another one does not
// separate; "" if there is none.
func otherSeparator(header []string, separator rune) string {
	if len(header) > 1 {
		return ""
	}
	for _, name := range []string{"comma", "semicolon", "tab", "pipe"} {
		if r := separators[name]; r != separator && strings.ContainsRune(header[0], r) {
			return name
		}
	}
	return ""
}

func nameOfSeparator(r rune) string {
	for name, separator := range separators {
		if separator == r {
			return name
		}
	}
	return string(r)
}
