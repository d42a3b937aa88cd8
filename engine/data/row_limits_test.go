package data

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

// endless repeats a text without holding it, between a beginning and an end.
func endless(beginning, text, end string, bytes int) io.Reader {
	block := strings.Repeat(text, 1+1<<16/len(text))
	return io.MultiReader(strings.NewReader(beginning), io.LimitReader(&repeater{block: block}, int64(bytes)), strings.NewReader(end))
}

type repeater struct {
	block string
	at    int // in the block
}

func (r *repeater) Read(p []byte) (int, error) {
	n := copy(p, r.block[r.at:])
	r.at = (r.at + n) % len(r.block)
	return n, nil
}

// peakMemory returns the largest heap during f, beyond that before it, sampled each millisecond.
func peakMemory(f func()) int64 {
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	runtime.GC()
	var before, during runtime.MemStats
	runtime.ReadMemStats(&before)
	stop, peak := make(chan bool), make(chan int64)
	go func() {
		most := int64(0)
		for {
			select {
			case <-stop:
				peak <- most
				return
			case <-time.After(time.Millisecond):
				runtime.ReadMemStats(&during)
				most = max(most, int64(during.HeapAlloc)-int64(before.HeapAlloc))
			}
		}
	}()
	f()
	close(stop)
	return <-peak
}

// rowAttacks are the rows of one record that take much memory in a reader without limits.
var rowAttacks = map[string]struct {
	read   rowReader
	schema Schema
	file   func(bytes int) io.Reader
	rows   int
	blank  []bool
}{
	"a list of numbers": {readJSONL, Schema{PredictNext: true, Text: "t", Tokens: "9", Length: 4}, func(n int) io.Reader {
		return endless(`{"t": "1"}`+"\n"+`{"t": [1`, ",1", "]}\n"+`{"t": "2"}`, n)
	}, 3, []bool{false, true, false}},
	"a text": {readJSONL, Schema{PredictNext: true, Text: "t", Tokens: "bytes", Length: 4}, func(n int) io.Reader {
		return endless(`{"t": "1"}`+"\n"+`{"t": "`, `a\u0061`, "\"}\n"+`{"t": "2"}`, n)
	}, 3, []bool{false, true, false}},
	"a nested value": {readJSONL, Schema{PredictNext: true, Text: "t", Tokens: "bytes", Length: 4}, func(n int) io.Reader {
		return endless(`{"t": "1"}`+"\n"+`{"t": `, `[`, "\n"+`{"t": "2"}`, n)
	}, 3, []bool{false, true, false}},
	"many keys": {readJSONL, Schema{PredictNext: true, Text: "t", Tokens: "bytes", Length: 4}, func(n int) io.Reader {
		return endless(`{"t": "1"}`+"\n"+`{"t": "1"`, `,"key":1`, "}\n"+`{"t": "2"}`, n)
	}, 3, []bool{false, true, false}},
	"a line of text": {readText, Schema{PredictNext: true, Tokens: "words", Words: []string{"a"}, Length: 4}, func(n int) io.Reader {
		return endless("a\n", "b ", "\na", n)
	}, 3, []bool{false, false, false}},
	"a cell": {readCSV, Schema{Label: "y", Classes: Classes{"0", "1"}, Bounds: map[string]Bounds{"x": {0, 1}}}, func(n int) io.Reader {
		return endless("x,y\n1,1\n", "1", ",1\n1,1\n", n)
	}, 3, []bool{false, true, false}},
	"many cells": {readCSV, Schema{Label: "y", Classes: Classes{"0", "1"}, Bounds: map[string]Bounds{"x": {0, 1}}}, func(n int) io.Reader {
		return endless("x,y\n1,1\n", ",", "\n1,1\n", n)
	}, 3, []bool{false, true, false}},
	"many cells in lines": {readCSV, Schema{Label: "y", Classes: Classes{"0", "1"}, Bounds: map[string]Bounds{"x": {0, 1}}}, func(n int) io.Reader {
		return endless("x,y\n1,1\n\"1\n\"", ",", "\n1,1\n", min(n, rowLimit-1000))
	}, 3, []bool{false, true, false}},
	"a quotation mark before lines": {readCSV, Schema{Label: "y", Classes: Classes{"0", "1"}, Bounds: map[string]Bounds{"x": {0, 1}}, Ignore: []string{"n"}}, func(int) io.Reader {
		return endless("x,y,n\n\"1,1,\n", "1,1,"+strings.Repeat("n", 999995)+"\n", "", 20e6)
	}, 21, append([]bool{true}, make([]bool, 20)...)},
}

// One row takes memory that follows from the declared columns, however long the row is. Other rows
// are read as without it.
func TestReaders_RowsTakeLimitedMemory(t *testing.T) {
	for name, attack := range rowAttacks {
		const bytes, most = 40e6, 48e6 // the limit of a row with text is 4 MB
		var set Set
		var err error
		peak := peakMemory(func() {
			set, _, err = attack.read(attack.file(bytes), attack.schema, rowPolicy{private: true, blank: true})
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if blank := Blank(set); set.Len() != attack.rows || blank != nil && !slices.Equal(blank, attack.blank) || blank == nil && slices.Contains(attack.blank, true) {
			t.Errorf("%s: %d rows, blank %v", name, set.Len(), blank)
		}
		if peak > most {
			t.Errorf("%s takes %.0f MB", name, float64(peak)/1e6)
		}
	}
}

// A row within the limit takes a small multiple of its length.
func TestReaders_RowsWithinLimit(t *testing.T) {
	for name, attack := range rowAttacks {
		const bytes, most = rowLimit - 1000, 48e6
		if peak := peakMemory(func() { attack.read(attack.file(bytes), attack.schema, rowPolicy{private: true, blank: true}) }); peak > most {
			t.Errorf("%s of %d bytes takes %.0f MB", name, int(bytes), float64(peak)/1e6)
		}
	}
}

// A small compressed file with one line takes little memory.
func TestReadCSV_CompressedLine(t *testing.T) {
	const member, members, most = 20e6, 10, 160e6 // the first line has at most 32 MiB
	schema := Schema{Label: "y", Classes: Classes{"0", "1"}, Bounds: map[string]Bounds{"x": {0, 1}}}
	zeros := gzipped(t, bytes.Repeat([]byte("0"), member))
	for name, beginning := range map[string]string{"the first line": "", "a row": "x,y\n1,1\n"} {
		file := append(gzipped(t, []byte(beginning)), bytes.Repeat(zeros, members)...)
		dir := writeFiles(t, map[string][]byte{"a.csv.gz": file})
		var err error
		peak := peakMemory(func() { _, err = Open(filepath.Join(dir, "a.csv.gz"), Options{Schema: schema}) })
		if (err != nil) != (beginning == "") {
			t.Errorf("%s: %v", name, err)
		}
		if peak > most {
			t.Errorf("%s of %d bytes takes %.0f MB", name, len(file), float64(peak)/1e6)
		}
	}
}

// A user takes the same memory whatever the length of its name.
func TestReaders_UsersTakeEqualMemory(t *testing.T) {
	const users = 100
	var file strings.Builder
	for i := range users {
		fmt.Fprintf(&file, "{\"x\": 1, \"y\": \"1\", \"u\": \"%d%s\"}\n", i, strings.Repeat("u", 500_000))
	}
	schema := Schema{Label: "y", Classes: Classes{"0", "1"}, Bounds: map[string]Bounds{"x": {0, 1}}, User: "u"}
	var set Set
	var err error
	if peak := peakMemory(func() { set, _, err = readJSONL(strings.NewReader(file.String()), schema, rowPolicy{}) }); peak > 25e6 || err != nil {
		t.Errorf("%.0f MB, %v", float64(peak)/1e6, err)
	}
	if all := Users(set); len(all) != users || all[users-1] != users-1 {
		t.Errorf("users %v", all)
	}
}

// A line that is not empty is a record, whatever white space it contains: no row can remove itself.
func TestReaders_WhiteSpaceIsARecord(t *testing.T) {
	text := Schema{PredictNext: true, Tokens: "bytes", Length: 4}
	rows := Schema{PredictNext: true, Text: "t", Tokens: "bytes", Length: 4}
	table := Schema{Label: "y", Classes: Classes{"0", "1"}, Bounds: map[string]Bounds{"x": {0, 1}}}
	for _, c := range []struct {
		read               rowReader
		schema             Schema
		before, row, after string
	}{
		{readText, text, "", "abc", "b"},
		{readJSONL, rows, "", `{"t": "a"}`, `{"t": "b"}`},
		{readCSV, table, "x,y\n", "1,1", "1,1"},
		{readCSV, rows, "t\n", "a", "b"},
	} {
		for _, end := range []string{"\n", "\r\n"} {
			for _, last := range []string{end, ""} {
				for _, row := range []string{c.row, " ", "\t", "\u00a0", "\u2028", "\v", "\f", "\x00", " \r", "\r\r", "\ufeff", "  \t  "} {
					for at := range 3 {
						lines := []string{c.after, c.after, c.after}
						lines[at] = row
						file := c.before + strings.Join(lines, end) + last
						set, _, err := c.read(strings.NewReader(file), c.schema, rowPolicy{private: true, blank: true})
						if err != nil {
							t.Fatalf("%q: %v", file, err)
						}
						if set.Len() != 3 {
							t.Errorf("%q has %d records", file, set.Len())
						}
					}
				}
				// An empty line is none.
				file := c.before + end + c.after + end + end + c.after + end + last
				if set, _, err := c.read(strings.NewReader(file), c.schema, rowPolicy{}); err != nil || set.Len() != 2 {
					t.Errorf("%q: %v, %v", file, set, err)
				}
			}
		}
	}
}

// A hostile line of plain text, or of JSON, changes no other record and not their number.
func TestReaders_LinesDoNotChangeNumberOfRecords(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	schemas := map[*rowReader]Schema{}
	txt, jsonl := rowReader(readText), rowReader(readJSONL)
	schemas[&txt] = Schema{PredictNext: true, Tokens: "bytes", Length: 4}
	schemas[&jsonl] = Schema{PredictNext: true, Text: "t", Tokens: "bytes", Length: 4}
	for read, schema := range schemas {
		for range 500 {
			row := make([]byte, 1+r.IntN(8))
			for i := range row {
				row[i] = " \t\r\v\f\x00\xef\xbb\xbf{}\"[]:,t1\x85\xa0\xff\xfe"[r.IntN(22)]
			}
			if string(row) == "\r" { // its line is CRLF, an empty line
				continue
			}
			file := `{"t": "a"}` + "\n" + string(row) + "\n" + `{"t": "b"}` + "\n"
			set, _, err := (*read)(strings.NewReader(file), schema, rowPolicy{private: true, blank: true})
			if err != nil || set.Len() != 3 {
				t.Fatalf("%q: %v, %v", file, set, err)
			}
			if blank := Blank(set); blank != nil && (blank[0] || blank[2]) {
				t.Fatalf("%q: blank %v", file, blank)
			}
		}
	}
}

// The fields of a row are those of encoding/csv, also where it breaks the rules for quotation marks.
func TestCountFields_AgreesWithParser(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	valid := 0
	for range 100_000 {
		var row strings.Builder
		comma := ",;\t"[r.IntN(3)]
		row.WriteString([]string{"a", " ", "\"", string(comma), "\u00a0", "\t"}[r.IntN(6)]) // an empty line is no row
		for range r.IntN(12) {
			row.WriteString([]string{"\"", "\"", "\n", "\r\n", string(comma), "a", " ", "\r", "\u2003", "\"\"", "\xff"}[r.IntN(11)])
		}
		parser := csv.NewReader(strings.NewReader(row.String()))
		parser.Comma, parser.TrimLeadingSpace, parser.FieldsPerRecord = rune(comma), comma != '\t', -1
		want, err := parser.Read()
		isWhole := err == nil && parser.InputOffset() == int64(row.Len())
		fields, ok := countFields([]byte(row.String()), comma, parser.TrimLeadingSpace)
		if ok != isWhole || ok && fields != len(want) {
			t.Fatalf("%q: %d fields, %v; want %q, %v", row.String(), fields, ok, want, err)
		}
		if ok {
			valid++
		}
	}
	if valid < 10_000 {
		t.Errorf("only %d rows are valid", valid)
	}
}

// The time of a table grows linearly with its columns.
func TestReadCSV_ManyColumns(t *testing.T) {
	const columns = 100_000
	schema := Schema{Label: "y", Classes: Classes{"0", "1"}, Bounds: map[string]Bounds{}}
	names, cells := []string{"y"}, []string{"1"}
	for i := range columns {
		name := fmt.Sprint("column", i)
		names, cells = append(names, name), append(cells, ".5")
		if i%10 == 0 {
			schema.Ignore = append(schema.Ignore, name)
		} else {
			schema.Bounds[name] = Bounds{0, 1}
		}
	}
	row := strings.Join(cells, ",") + "\n"
	file := strings.Join(names, ",") + "\n" + row + row
	begun := time.Now()
	set, inputs, err := readCSV(strings.NewReader(file), schema, rowPolicy{})
	if err != nil || set.Len() != 2 || len(inputs) != columns*9/10 {
		t.Fatalf("%d inputs, %v", len(inputs), err)
	}
	// The same columns in another order, as predict reads them.
	slices.Reverse(names)
	slices.Reverse(cells)
	schema.Inputs, schema.featuresOnly = inputs, true
	again, _, err := readCSV(strings.NewReader(strings.Join(names, ",")+"\n"+strings.Join(cells, ",")+"\n"), schema, rowPolicy{})
	if err != nil || again.Len() != 1 {
		t.Fatal(err)
	}
	// Each step over pairs of columns takes minutes; linear ones take a fraction of a second.
	if elapsed := time.Since(begun); elapsed > time.Minute {
		t.Errorf("%d columns take %v", columns, elapsed)
	}
}
