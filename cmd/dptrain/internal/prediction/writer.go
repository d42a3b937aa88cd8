package prediction

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"
)

// FileFormats are the formats of a Writer. The first is the default.
var FileFormats = []string{"csv", "jsonl"}

// Writer writes rows with the same columns: as CSV with a header line, or as JSON lines with
// the column names as keys, in order. Rows may stay in a buffer until Flush.
type Writer struct {
	out  *bufio.Writer
	csv  *csv.Writer // nil for JSON lines
	row  []string
	keys [][]byte
	line []byte
}

// NewWriter returns a writer to w in one of FileFormats.
func NewWriter(w io.Writer, format string, columns []string) *Writer {
	t := &Writer{out: bufio.NewWriterSize(w, 1<<16), row: make([]string, len(columns))}
	if format == "csv" {
		t.csv = csv.NewWriter(t.out)
		t.csv.Write(columns) // Flush returns the error
		return t
	}
	for _, name := range columns {
		t.keys = append(t.keys, append(jsonString(name), ':'))
	}
	return t
}

func jsonString(text string) []byte {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // every string has a JSON form
	}
	return b
}

// Write writes one row. Each cell is a string, a finite float32 or a json.Number.
func (t *Writer) Write(cells []any) error {
	if t.csv == nil {
		return t.writeObject(cells)
	}
	for i, c := range cells {
		switch v := c.(type) {
		case float32:
			t.row[i] = strconv.FormatFloat(float64(v), 'g', -1, 32)
		case json.Number:
			t.row[i] = string(v)
		default:
			t.row[i] = c.(string)
		}
	}
	return t.csv.Write(t.row)
}

func (t *Writer) writeObject(cells []any) error {
	t.line = t.line[:0]
	for i, c := range cells {
		t.line = append(append(t.line, "{,"[min(i, 1)]), t.keys[i]...)
		switch v := c.(type) {
		case float32:
			t.line = strconv.AppendFloat(t.line, float64(v), 'g', -1, 32)
		case json.Number:
			t.line = append(t.line, v...)
		default:
			t.line = append(t.line, jsonString(c.(string))...)
		}
	}
	_, err := t.out.Write(append(t.line, "}\n"...))
	return err
}

// Flush writes buffered rows.
func (t *Writer) Flush() error {
	if t.csv != nil {
		t.csv.Flush()
		if err := t.csv.Error(); err != nil {
			return err
		}
	}
	return t.out.Flush()
}
