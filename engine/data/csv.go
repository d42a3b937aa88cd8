package data

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/dptrain/dptrain/internal/setting"
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
	again  []csvLine // to read before the file
	first  csvLine   // of the row
	rest   []csvLine // the lines of the row after its first one
	text   []byte    // of the row, where it has several lines
	line   int       // lines of the file before the row
	count  int       // lines of the row
	source bytes.Reader
	parser *csv.Reader // of source
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
func (l csvLine) isEmpty() bool { return len(withoutEnd(l.text)) == 0 }

func newCSVReader(lines lineReader, separator rune) *csvReader {
	c := &csvReader{lines: lines}
	c.parser = csv.NewReader(&c.source)
	c.parser.Comma, c.parser.ReuseRecord, c.parser.FieldsPerRecord = separator, true, -1
	c.parser.TrimLeadingSpace = separator != '\t' // otherwise an empty cell before a tab is lost
	return c
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
	if c.first.isEmpty() {
		return nil, io.EOF
	}
	text, last := c.first.text, c.first
	if c.count > 1 {
		c.text = append(c.text[:0], text...)
		for _, last = range c.rest {
			c.text = append(c.text, last.text...)
		}
		text = c.text
	}
	// The parser reads only rows that it accepts: a field takes it many times the memory of a comma.
	fields, valid := countFields(text, byte(c.parser.Comma), c.parser.TrimLeadingSpace)
	switch {
	case last.long:
		err = errLongLine(c.line+c.count, c.lines.limit)
	case !valid && c.count == maxRowLines:
		err = fmt.Errorf("line %d: a quotation mark is not closed, or the row has more than %d lines, the most that are read", c.line+1, maxRowLines)
	case !valid:
		err = fmt.Errorf("line %d: a quotation mark is not closed, or is inside a cell without being written twice", c.line+1)
	case c.fields > 0 && fields != c.fields:
		return nil, fmt.Errorf("line %d: %d fields, but the first line names %d columns", c.line+1, fields, c.fields) // the whole row is lost
	default:
		c.fields = fields
		c.source.Reset(text)
		return c.parser.Read()
	}
	c.count = 1
	return nil, err
}

// countFields returns the number of fields of a row of encoding/csv with this Comma and
// TrimLeadingSpace. It is valid if the row follows the rules for quotation marks and ends where the
// text ends.
func countFields(text []byte, comma byte, trim bool) (fields int, valid bool) {
	if bytes.IndexByte(text, '"') < 0 { // as in most rows
		end := bytes.IndexByte(text, '\n')
		return 1 + bytes.Count(text, []byte{comma}), end < 0 || end == len(text)-1
	}
	rest, special := text, string(rune(comma))+"\"\n"
	for {
		fields++
		if trim {
			rest = trimSpaceInLine(rest)
		}
		if len(rest) == 0 || rest[0] != '"' {
			end := bytes.IndexAny(rest, special)
			if end < 0 {
				return fields, true
			}
			if rest[end] != comma {
				return fields, rest[end] == '\n' && end+1 == len(rest)
			}
			rest = rest[end+1:]
			continue
		}
		rest = rest[1:]
		for {
			end := bytes.IndexByte(rest, '"')
			if end < 0 {
				return fields, false
			}
			if rest = rest[end+1:]; len(rest) == 0 || rest[0] != '"' {
				break
			}
			rest = rest[1:]
		}
		if len(rest) == 0 || rest[0] != comma {
			return fields, len(withoutEnd(rest)) == 0
		}
		rest = rest[1:]
	}
}

// trimSpaceInLine removes white space at the beginning of a text, up to the end of its first line.
func trimSpaceInLine(text []byte) []byte {
	end := bytes.IndexFunc(text, func(r rune) bool { return r == '\n' || !unicode.IsSpace(r) })
	if end < 0 {
		return nil
	}
	return text[end:]
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
	first, _ := c.parser.FieldPos(0)
	line, _ := c.parser.FieldPos(field)
	return c.line + 1 + line - first
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
		return setting.Errorf("separator", "the first line has %ss and no %ss; write separator: %[1]s in the schema, or %[3]v",
			other, nameOfSeparator(separator), setting.With("separator", other))
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
