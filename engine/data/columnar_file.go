package data

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dptrain/dptrain/internal/setting"
)

// ColumnarFormat is a file format that stores tables by column.
type ColumnarFormat string

// The formats. Package columnar reads them.
const (
	Parquet ColumnarFormat = ".parquet"
	Arrow   ColumnarFormat = ".arrow" // also Feather version 2
)

// columnarExtensions maps extensions of names to formats.
var columnarExtensions = map[string]ColumnarFormat{".parquet": Parquet, ".pq": Parquet, ".arrow": Arrow, ".feather": Arrow, ".ipc": Arrow}

// ColumnarFile is an open file that stores a table by column.
type ColumnarFile interface {
	// Columns returns the name of each column, and the reason why it cannot be read or "".
	Columns() (names, refused []string)
	// EachRow calls f with the cells of some columns of each row. A word of more than limit bytes
	// is a LongCell. Its errors and memory do not depend on the cells, beyond the sizes of the
	// file's pages and batches.
	EachRow(columns []int, limit int, f func(row []Cell) error) error
}

// Cell is a value of a columnar file. The zero value is a cell without a value.
type Cell struct {
	Kind CellKind
	Text string    // of a WordCell; of a NumberCell as in Go, with a point
	True bool      // of a TruthCell
	Time time.Time // of a DateCell or a TimeCell, in UTC
}

// CellKind is the type of a cell.
type CellKind uint8

// The kinds of cells.
const (
	EmptyCell  CellKind = iota
	WordCell            // a text
	NumberCell          // a number
	TruthCell           // true or false
	DateCell            // a day
	TimeCell            // a day and a time
	LongCell            // a text that is too long
)

// ColumnarSource is what a columnar file is read from: a file of the host, or memory.
type ColumnarSource interface {
	io.Reader
	io.ReaderAt
	io.Seeker
}

var columnarOpeners = map[ColumnarFormat]func(ColumnarSource) (ColumnarFile, error){}

// RegisterColumnar sets the function that opens files of a format. Package columnar calls it.
func RegisterColumnar(format ColumnarFormat, open func(ColumnarSource) (ColumnarFile, error)) {
	columnarOpeners[format] = open
}

// columnarFormat returns the format of a file by its first bytes or else by its name; "" for another
// format, or if the file cannot be read. The bytes are no text, so no row of a CSV file decides.
func columnarFormat(name string) ColumnarFormat {
	head := make([]byte, 8)
	if f, err := openDataRegular(name); err == nil {
		f.ReadAt(head, 0)
		f.Close()
	}
	return cmp.Or(columnarMagic(head), columnarExtensions[extension(name)])
}

// columnarMagic returns the format of a file by its first bytes; "" for another format.
func columnarMagic(head []byte) ColumnarFormat {
	switch {
	case bytes.HasPrefix(head, []byte("PAR1\x15")):
		return Parquet
	case bytes.HasPrefix(head, []byte("ARROW1\x00\x00")):
		return Arrow
	}
	return ""
}

// openDataRegular opens a regular file of the host.
func openDataRegular(name string) (*os.File, error) {
	f, err := hostTree(filepath.Dir(name)).Open(filepath.Base(name))
	if err != nil {
		return nil, err
	}
	return f.(*os.File), nil
}

// columnarTable is an open columnar file with its columns.
type columnarTable struct {
	file  ColumnarFile
	names []string // the second column with the name x is x.2
	disk  io.Closer
}

// openColumnar opens a columnar file. Errors do not name it.
func openColumnar(name string, format ColumnarFormat) (*columnarTable, error) {
	disk, err := openDataRegular(name)
	if err != nil {
		return nil, withoutPath(err)
	}
	t, err := newColumnarTable(disk, format)
	if err != nil {
		disk.Close()
		return nil, err
	}
	t.disk = disk
	return t, nil
}

// newColumnarTable opens the content of a columnar file.
func newColumnarTable(source ColumnarSource, format ColumnarFormat) (*columnarTable, error) {
	open := columnarOpeners[format]
	if open == nil {
		return nil, errors.New("this program does not read columnar files; import the package engine/data/columnar, or write the table as CSV")
	}
	file, err := open(source)
	if err != nil {
		return nil, err
	}
	t := &columnarTable{file: file, disk: io.NopCloser(nil)}
	t.names, _ = file.Columns()
	t.names = uniqueNames(t.names)
	return t, nil
}

func (t *columnarTable) Close() error { return t.disk.Close() }

// each calls f with the cells of each row as a CSV file has them, in the order of the layout's
// columns, or with the problem of a row. Rows are numbered from 1. The next row overwrites the
// cells.
func (t *columnarTable) each(l *rowLayout, f func(number int, row []string, problem error) error) error {
	var used []int
	var writers []cellWriter
	_, refused := t.file.Columns()
	for k := range l.roles {
		if l.roles[k].ignore {
			continue
		}
		if refused[k] != "" {
			return setting.Errorf("ignore", "column %q %s; leave it out with %v, or write it as columns of numbers or words", t.names[k], refused[k], setting.Named("ignore"))
		}
		used, writers = append(used, k), append(writers, l.cellWriter(k))
	}
	row, limit, number := make([]string, len(l.roles)), l.maxRowBytes(), 0
	return t.file.EachRow(used, limit, func(cells []Cell) error {
		number++
		size := 0
		for i, c := range cells {
			if c.Kind == LongCell {
				size = limit + 1
				break
			}
			row[used[i]] = writers[i].text(c)
			size += len(row[used[i]])
		}
		if size > limit {
			return f(number, nil, fmt.Errorf("row %d has more than %d bytes", number, limit))
		}
		return f(number, row, nil)
	})
}

// cellWriter writes the cells of a column as a CSV file with the same schema has them.
type cellWriter struct {
	column *InputColumn
	words  map[string]int // of the vocabulary, or the classes; nil for another column
	number bool           // bounds, a target or a weight
}

func (l *rowLayout) cellWriter(k int) cellWriter {
	w := cellWriter{column: &l.roles[k].InputColumn}
	switch {
	case k == l.label:
		w.words = l.classes
	case w.column.isWords():
		w.words = w.column.slots
	default:
		w.number = k == l.weight || w.column.Bounds != (Bounds{})
	}
	return w
}

// truthWords are the words for false and true in files of various programs. A vocabulary decides
// between them; the first are those of pandas.
var truthWords = [][2]string{{"False", "True"}, {"false", "true"}, {"FALSE", "TRUE"}, {"0", "1"}, {"0.0", "1.0"}, {"no", "yes"}}

// dateTimeFormat is that of pandas, and one of isoFormats.
const dateTimeFormat = "2006-01-02 15:04:05.999999999"

func (w cellWriter) text(c Cell) string {
	switch c.Kind {
	case NumberCell:
		return w.numberText(c.Text)
	case TruthCell:
		return w.truthText(c.True)
	case DateCell, TimeCell:
		switch {
		case w.column.isDate() && w.column.dateFormat != "":
			return c.Time.Format(w.column.dateFormat)
		case c.Kind == DateCell:
			return c.Time.Format(time.DateOnly)
		}
		return c.Time.Format(dateTimeFormat)
	}
	return c.Text
}

// numberText writes a number with the column's decimal sign. As a word, a whole number may have a
// point: programs write 1.0 for 1 where a column has cells without a value.
func (w cellWriter) numberText(text string) string {
	if w.number && w.column.decimalComma {
		return strings.Replace(text, ".", ",", 1)
	}
	if w.words == nil {
		return text
	}
	if _, known := w.words[text]; known {
		return text
	}
	other := text + ".0"
	if v, err := strconv.ParseFloat(text, 64); err == nil && strings.ContainsAny(text, ".e") {
		other = strconv.FormatFloat(v, 'f', -1, 64)
	}
	if _, known := w.words[other]; known {
		return other
	}
	return text
}

func (w cellWriter) truthText(v bool) string {
	i := 0
	if v {
		i = 1
	}
	if w.number {
		return strconv.Itoa(i)
	}
	at := slices.IndexFunc(truthWords, func(words [2]string) bool {
		_, no := w.words[words[0]]
		_, yes := w.words[words[1]]
		return no || yes
	})
	return truthWords[max(0, at)][i]
}

// readColumnar converts the rows of a columnar file to examples.
func readColumnar(name string, format ColumnarFormat, s Schema, policy rowPolicy) (Set, []string, error) {
	t, err := openColumnar(name, format)
	if err != nil {
		return nil, nil, err
	}
	defer t.Close()
	return t.examples(s, policy)
}

// examples converts the rows of a table to examples.
func (t *columnarTable) examples(s Schema, policy rowPolicy) (Set, []string, error) {
	l, err := newLayout(t.names, s)
	if err != nil {
		return nil, nil, err
	}
	rows := exampleReader{rowLayout: l, policy: policy, userNumbers: map[userDigest]int32{}}
	err = t.each(l, func(number int, row []string, problem error) error {
		if problem != nil {
			return rows.addBlank("", problem)
		}
		return rows.addOrBlank(row, func(k int, err error) error { return fmt.Errorf("row %d, column %q: %w", number, t.names[k], err) })
	})
	if err != nil {
		return nil, nil, err
	}
	set, err := rows.set(s)
	return set, l.inputs, err
}
