package data

import (
	"bytes"
	"encoding/csv"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
)

// randomCell returns a cell with characters that have a meaning in CSV.
func randomCell(r *rand.Rand) string {
	var cell strings.Builder
	for range r.IntN(6) {
		cell.WriteString([]string{"\"", "\n", ",", "a", " ", "\r\n", "\"\"", "1"}[r.IntN(8)])
	}
	return cell.String()
}

// The attack: one row is replaced by one with other cells, or with more or fewer cells. The number
// of rows, and what is read from the other rows, must stay the same: the sampling rate and the
// ledger state the number of records.
func TestReadCSV_CellsDoNotChangeNumberOfRows(t *testing.T) {
	schema := Schema{Label: "sick", Classes: Classes{"no", "yes"}, Bounds: map[string]Bounds{"age": {0, 100}}, Ignore: []string{"note"}}
	r := rand.New(rand.NewPCG(1, 2))
	const rows, attacked = 5, 2
	open := func(second []string, notes []string) (Set, string) {
		var file bytes.Buffer
		w := csv.NewWriter(&file)
		w.Write([]string{"age", "note", "sick"})
		for i := range rows {
			if i == attacked && second != nil {
				if len(second) == 1 && second[0] == "" { // csv.Writer writes an empty line, which is not a row
					second[0] = "\n"
				}
				w.Write(second)
				continue
			}
			w.Write([]string{"10", notes[i], "no"})
		}
		w.Flush()
		dir := writeFiles(t, map[string][]byte{"a.csv": file.Bytes()})
		task, err := Open(filepath.Join(dir, "a.csv"), Options{Schema: schema})
		if err != nil {
			t.Fatalf("%v in\n%s", err, file.Bytes())
		}
		return task.Train, file.String()
	}
	for range 300 {
		notes := make([]string, rows)
		for i := range notes {
			notes[i] = randomCell(r)
		}
		first, text := open(nil, notes)
		if first.Len() != rows || Blank(first) != nil {
			t.Fatalf("%d rows, %v blank, of\n%s", first.Len(), Blank(first), text)
		}
		cells := make([]string, 1+r.IntN(5))
		for i := range cells {
			cells[i] = randomCell(r)
		}
		second, text := open(cells, notes)
		if second.Len() != rows {
			t.Fatalf("%d rows where another row gives %d, in\n%s", second.Len(), rows, text)
		}
		for i, blank := range Blank(second) {
			if blank && i != attacked {
				t.Fatalf("row %d became blank in\n%s", i, text)
			}
		}
	}
}

// A cell with too many lines is refused with the number of lines that are read, and one with as many is read.
func TestReadCSV_LinesOfRow(t *testing.T) {
	schema := Schema{Label: "label", Classes: []string{"a", "b"}, Text: "text", Tokens: "bytes", Length: 8}
	for lines, want := range map[int]string{maxRowLines: "", maxRowLines + 1: "or the row has more than 1000 lines"} {
		text := "label,text\na,\"x" + strings.Repeat("\n", lines-1) + "\"\n"
		_, _, err := readCSV(strings.NewReader(text), schema, rowPolicy{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d lines: %v", lines, err)
		}
	}
}
