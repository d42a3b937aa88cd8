package data

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// rowReader reads a file with one example in each row. It returns the examples and the
// names of the columns that their features come from.
type rowReader func(r io.Reader, s Schema, policy rowPolicy) (Set, []string, error)

// rowReaders maps the extension of a file's name to its reader.
var rowReaders = map[string]rowReader{".csv": readCSV, ".tsv": readCSV, ".jsonl": readJSONL, ".txt": readText}

// isRowFile reports whether a file has an example in each row.
func isRowFile(name string) bool {
	return rowReaders[extension(name)] != nil || columnarFormat(name) != ""
}

// openRows reads a file as the schema describes. If o.Test names a second file for testing, it
// needs the same columns, in any order and in any format.
func openRows(file string, o Options) (*Task, error) {
	return openRowsFrom(file, o, func(s Schema, policy rowPolicy) (Set, []string, error) { return readRows(file, s, policy) })
}

// openRowsFrom is openRows where read reads the rows for training.
func openRowsFrom(file string, o Options, read func(Schema, rowPolicy) (Set, []string, error)) (*Task, error) {
	var err error
	if o.Schema, err = o.Schema.resolved(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	task := &Task{ClassNames: o.Schema.Classes, Private: true, Schema: o.Schema}
	policy, err := o.privatePolicy()
	if err != nil {
		return nil, err
	}
	schema := o.Schema
	schema.cellStates = o.CellStates
	train, inputs, err := read(schema, policy)
	if err != nil {
		return nil, err
	}
	task.Train, task.Classes, task.Schema.Inputs = train, train.Columns()[1].Classes, inputs
	if o.Test == "" {
		return task, nil
	}
	if task.Test, _, err = readRows(o.Test, task.Schema, rowPolicy{}); err != nil {
		return nil, err
	}
	task.Test, err = FixMasks(task.Test, task.Schema)
	return task, err
}

// forFile returns the schema with the separator of a file.
func (s Schema) forFile(file string) Schema {
	if s.Separator == "" && extension(file) == ".tsv" {
		s.Separator = "tab"
	}
	return s
}

// readRows reads a file with an example in each row.
func readRows(file string, s Schema, policy rowPolicy) (set Set, inputs []string, err error) {
	if format := columnarFormat(file); format != "" {
		set, inputs, err = readColumnar(file, format, s, policy)
	} else {
		set, inputs, err = readLines(file, s, policy)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	return set, inputs, nil
}

func readLines(file string, s Schema, policy rowPolicy) (Set, []string, error) {
	read := rowReaders[extension(file)]
	if read == nil {
		return nil, nil, unsupportedFormat(file, tableFormats)
	}
	f, err := openDataFile(file)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	return read(f, s.forFile(file), policy)
}

// maxLineLength limits the first line of a CSV file and the lines of a public file, so that a file
// without line ends causes an error and does not fill the memory.
const maxLineLength = 32 << 20

// Limits of a row: a constant, and a number for each number of an example and each column.
const (
	rowLimit       = 1 << 20
	textRowLimit   = 4 << 20 // of a row with text
	limitPerNumber = 64
)

// maxRowBytes limits the bytes of a row of a file with the layout. It is a function of public
// settings, so no row decides how much memory the reader takes. A longer row is bad; a line of plain
// text is cut.
func (l *rowLayout) maxRowBytes() int {
	limit := rowLimit
	if l.tokens != nil {
		limit = textRowLimit
	}
	return limit + limitPerNumber*(l.width+len(l.roles))
}

// lineReader reads lines of limited length.
type lineReader struct {
	file  *bufio.Reader
	limit int // bytes of a line
}

func newLineReader(r io.Reader, limit int) lineReader {
	return lineReader{bufio.NewReaderSize(r, 1<<16), limit}
}

// next appends the next line with its end to a buffer. Of a long line it appends the first limit
// bytes and skips the rest. The error is io.EOF if there are no more lines.
func (l lineReader) next(buffer []byte) (line []byte, long bool, err error) {
	from, read := len(buffer), false
	for {
		part, err := l.file.ReadSlice('\n')
		read = read || len(part) > 0
		if rest := l.limit - (len(buffer) - from); len(part) > rest {
			part, long = part[:rest], true
		}
		buffer = append(buffer, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF && read:
			return buffer, long, nil
		default:
			return buffer, long, err
		}
	}
}

// withoutEnd removes the end of a line, LF or CRLF; the last line may lack the LF.
func withoutEnd(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}

// errLongLine reports a line that is longer than a limit.
func errLongLine(number, limit int) error {
	return fmt.Errorf("line %d is longer than %d bytes", number, limit)
}

// eachLine calls f for each line of a file, or with a problem for a line that cannot be read. Lines
// are numbered from 1. A line that has no byte before its end, which is LF or CRLF, is skipped; a
// line of white space is not, because then a private row could change the number of rows.
func eachLine(r io.Reader, limit int, f func(number int, line []byte, long bool, problem error) error) error {
	in := newLineReader(r, limit)
	var line []byte
	for number := 1; ; number++ {
		var long bool
		var err error
		if line, long, err = in.next(line[:0]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		content := withoutEnd(line)
		if len(content) == 0 {
			continue
		}
		var problem error
		if bom := string(line[:min(2, len(line))]); number == 1 && (bom == "\xff\xfe" || bom == "\xfe\xff") {
			problem = errors.New("the file is UTF-16; save the file as UTF-8")
		} else if number == 1 {
			content = bytes.TrimPrefix(content, []byte("\ufeff"))
		}
		if err := f(number, bytes.TrimSpace(content), long, problem); err != nil {
			return err
		}
	}
}

// openText reads plain text, in which each line is an example, and a second file for
// testing if there is one.
func openText(file string, o Options) (*Task, error) {
	if o.Schema.named() || len(o.Schema.Classes) > 0 {
		return nil, fmt.Errorf("%s is plain text and has no columns; leave out label, classes, target, text, bounds, vocabulary, ignore, user and weight, or use a .csv or .jsonl file", file)
	}
	o.Schema.PredictNext = o.Schema.Masked == 0
	return openRows(file, o)
}

// readText makes each line that is not empty an example for a language model. It cuts a long line.
func readText(r io.Reader, s Schema, policy rowPolicy) (Set, []string, error) {
	t, err := s.tokenizer()
	if err != nil {
		return nil, nil, err
	}
	rows := exampleReader{rowLayout: textLayout(t), policy: policy}
	if err := eachLine(r, rows.maxRowBytes(), func(number int, line []byte, _ bool, problem error) error {
		if problem != nil {
			return rows.addBlank("", problem)
		}
		return rows.addOrBlank([]string{string(line)}, func(_ int, err error) error { return fmt.Errorf("line %d: %w", number, err) })
	}); err != nil {
		return nil, nil, err
	}
	if rows.count == 0 {
		return nil, nil, errors.New("the file has no lines")
	}
	set, err := rows.set(s)
	return set, nil, err
}

// textLayout is the layout of plain text: the whole line is the text.
func textLayout(t *tokenizer) *rowLayout {
	return &rowLayout{order: []int{0}, label: -1, user: -1, pair: -1, target: -1, weight: -1, tokens: t, width: t.length}
}
