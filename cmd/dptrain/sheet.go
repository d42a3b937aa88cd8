package main

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"
)

var sheetFormats = []string{"csv", "jsonl"}

// sheet writes lines of the same columns: as CSV below a line of their names, or each as
// a JSON object with their names as keys, in their order. Nothing is surely written
// before flush.
type sheet struct {
	out  *bufio.Writer
	csv  *csv.Writer // nil where lines are objects
	row  []string
	keys [][]byte
	line []byte
}

func newSheet(w io.Writer, format string, columns []string) *sheet {
	s := &sheet{out: bufio.NewWriterSize(w, 1<<16), row: make([]string, len(columns))}
	if format == "csv" {
		s.csv = csv.NewWriter(s.out)
		s.csv.Write(columns) // an error stays until flush
		return s
	}
	for _, name := range columns {
		s.keys = append(s.keys, append(quoted(name), ':'))
	}
	return s
}

// quoted is a text as JSON has it.
func quoted(text string) []byte {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // every text can be written
	}
	return b
}

// write adds a line of texts and finite float32s.
func (s *sheet) write(cells []any) error {
	if s.csv == nil {
		return s.object(cells)
	}
	for i, c := range cells {
		if v, number := c.(float32); number {
			s.row[i] = strconv.FormatFloat(float64(v), 'g', -1, 32)
		} else {
			s.row[i] = c.(string)
		}
	}
	return s.csv.Write(s.row)
}

func (s *sheet) object(cells []any) error {
	s.line = s.line[:0]
	for i, c := range cells {
		s.line = append(append(s.line, "{,"[min(i, 1)]), s.keys[i]...)
		if v, number := c.(float32); number {
			s.line = strconv.AppendFloat(s.line, float64(v), 'g', -1, 32)
		} else {
			s.line = append(s.line, quoted(c.(string))...)
		}
	}
	_, err := s.out.Write(append(s.line, "}\n"...))
	return err
}

func (s *sheet) flush() error {
	if s.csv != nil {
		s.csv.Flush()
		if err := s.csv.Error(); err != nil {
			return err
		}
	}
	return s.out.Flush()
}
