package data

import (
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
	rows := exampleReader{rowLayout: l, policy: policy, userNumbers: map[userDigest]int32{}}
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
	if err != nil {
		return nil, nil, err
	}
	in.lines.limit = l.maxRowBytes()
	return in, l, nil
}

// readCSVHeader returns a reader of the rows after the header, and the header.
func readCSVHeader(r io.Reader, separator rune) (*csvReader, []string, error) {
	lines := newLineReader(r, maxLineLength)
	if bom, _ := lines.file.Peek(3); string(bom) == "\ufeff" {
		lines.file.Discard(3)
	}
	in := newCSVReader(lines, separator)
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
//
// The memory is limited: a row has at most maxRowLines lines, which together have at most twice the
// limit of the lines.
type csvReader struct {
	lines  lineReader
	comma  rune      // the separator
	again  []csvLine // to read before the file
	first  csvLine   // of the row
	rest   []csvLine // the lines of the row after its first one
	text   []byte    // of the row, where it has several lines
	line   int       // lines of the file before the row
	count  int       // lines of the row
	source bytes.Reader
	parser *csv.Reader // of source
	parsed int         // lines before the first one that the parser read
	fields int         // of the first row
}

// csvLine is a line with its end, or the beginning of a long line.
type csvLine struct {
	text []byte
	long bool
}

// quotes counts the quotation marks of a line.
func (l csvLine) quotes() int { return bytes.Count(l.text, []byte{'"'}) }

// isEmpty reports whether the line has no byte before its end.
func (l csvLine) isEmpty() bool { return len(bytes.TrimRight(l.text, "\r\n")) == 0 }

// separators counts the separators that are not in quotation marks. If the line follows the rules
// for quotation marks, they separate its fields.
func (l csvLine) separators(comma rune) (n int) {
	inside := false
	for _, b := range l.text {
		switch {
		case b == '"':
			inside = !inside
		case rune(b) == comma && !inside:
			n++
		}
	}
	return n
}

func newCSVReader(lines lineReader, separator rune) *csvReader {
	c := &csvReader{lines: lines, comma: separator}
	c.reset()
	return c
}

// reset makes a parser for the lines from the current row on.
func (c *csvReader) reset() {
	c.source.Reset(nil)
	c.parser, c.parsed = csv.NewReader(&c.source), c.line+c.count
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
		if err := c.readLines(); err != nil {
			return nil, err
		}
		row, err := c.parse()
		if errors.Is(err, io.EOF) {
			continue // a line without a byte before its end
		}
		if err == nil {
			return row, nil
		}
		c.again = append(c.rest[c.count-1:], c.again...)
		c.rest = nil
		c.reset()
		return nil, &badCSVRow{err}
	}
}

// readLines reads the lines of the next row: further lines follow while a quotation mark is open.
func (c *csvReader) readLines() (err error) {
	c.line, c.count = c.line+c.count, 0
	c.rest = c.rest[:0]
	if c.first, err = c.nextLine(c.first.text[:0]); err != nil {
		return err
	}
	last, size, quotes := c.first, len(c.first.text), c.first.quotes()
	for !last.long && quotes%2 != 0 && len(c.rest)+1 < maxRowLines && size < c.lines.limit {
		if last, err = c.nextLine(nil); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		c.rest = append(c.rest, last)
		size, quotes = size+len(last.text), quotes+last.quotes()
	}
	c.count = 1 + len(c.rest)
	return nil
}

// parse splits the row into fields. The error is io.EOF for a line without a byte before its end.
// After another error, count is the number of lines that are lost.
func (c *csvReader) parse() (row []string, err error) {
	text := c.first.text
	switch {
	case c.first.long:
		c.count = 1
		return nil, errLongLine(c.line+1, c.lines.limit)
	case c.count > 1:
		c.text = append(c.text[:0], text...)
		for _, line := range c.rest {
			c.text = append(c.text, line.text...)
		}
		text = c.text
	case c.fields > 0 && c.first.quotes()%2 == 0:
		// A field takes the parser many times the memory of a comma.
		if n := 1 + c.first.separators(c.comma); n != c.fields && !c.first.isEmpty() {
			return nil, c.errFields(c.line+1, n)
		}
	}
	c.source.Reset(text)
	offset := c.parser.InputOffset()
	row, err = c.parser.Read()
	isWhole := c.parser.InputOffset()-offset == int64(len(text))
	if c.fields == 0 && err == nil {
		c.fields = len(row)
	}
	switch {
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	case err != nil:
	case len(c.rest) > 0 && c.rest[len(c.rest)-1].long:
		err = errLongLine(c.line+c.count, c.lines.limit)
	case len(row) != c.fields:
		line, _ := c.parser.FieldPos(0)
		err = c.errFields(c.parsed+line, len(row))
		if isWhole {
			return nil, err // the quotation marks are valid: the whole row is lost
		}
	case !isWhole:
		err = fmt.Errorf("line %d: a quotation mark is not closed", c.line+1)
	default:
		return row, nil
	}
	c.count = 1
	return nil, err
}

func (c *csvReader) errFields(line, fields int) error {
	return fmt.Errorf("line %d: %d fields, but the first line names %d columns", line, fields, c.fields)
}

// nextLine returns the next line. It may use the memory of a buffer.
func (c *csvReader) nextLine(buffer []byte) (line csvLine, err error) {
	if len(c.again) > 0 {
		line, c.again = c.again[0], c.again[1:]
		return line, nil
	}
	line.text, line.long, err = c.lines.next(buffer)
	return line, err
}

// fieldLine returns the line of a field of the last row.
func (c *csvReader) fieldLine(field int) int {
	line, _ := c.parser.FieldPos(field)
	return c.parsed + line
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
