package data

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// The test writes rows with known faults and counts them while it writes. Reports about CSV and
// JSONL have these counts, and the number of blank rows is that of the reader for training.
func TestCheckSchema_CountsFaults(t *testing.T) {
	schema := Schema{Label: "mood", Classes: Classes{"low", "high"}, Bounds: map[string]Bounds{"age": {0, 100}, "same": {0, 9}},
		Vocabulary: map[string][]string{"job": {"baker", "tailor"}}, Ignore: []string{"id"}, User: "who", Weight: "w"}
	names := []string{"id", "age", "same", "job", "who", "w", "mood"}
	r := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		want := map[string]*ColumnReport{}
		for i, by := range []string{"", "bounds", "bounds", "vocabulary", "user", "weight", "label"} {
			want[names[i]] = &ColumnReport{Name: names[i], DescribedBy: by}
		}
		delete(want, "id")
		want["same"].Constant = true
		// pick returns the cell of a column, and counts it if it is a fault.
		var blanks bool
		pick := func(good string, faults ...func() string) string {
			if n := r.IntN(12); n < len(faults) {
				return faults[n]()
			}
			return good
		}
		fault := func(counter *int, cell string, blank bool) func() string {
			return func() string {
				*counter++
				blanks = blanks || blank
				return cell
			}
		}
		age, job, who, w, mood := want["age"], want["job"], want["who"], want["w"], want["mood"]
		var table, objects strings.Builder
		table.WriteString(strings.Join(names, ",") + "\n")
		rows, blank, bad := 200, 0, 0
		for i := range rows {
			blanks = false
			if r.IntN(20) == 0 {
				bad++
				blank++
				table.WriteString([]string{"1,2\n", "1,\"2,3,4,5,6,7\n", "1,2,3,4,5,6,7,8\n"}[r.IntN(3)])
				objects.WriteString([]string{"[]\n", "{\"age\": 1}\n", "{\n"}[r.IntN(3)])
				continue
			}
			row := []string{
				fmt.Sprint(i),
				pick(fmt.Sprint(r.IntN(101)), fault(&age.Outside, "-1", false), fault(&age.Outside, "1e999", false), fault(&age.Empty, "NaN", false), fault(&age.NotNumbers, "old", true), fault(&age.Empty, "", false)),
				"7",
				pick([]string{"baker", "tailor"}[r.IntN(2)], fault(&job.Unknown, "spy", false), fault(&job.Unknown, "Baker", false), fault(&job.Empty, "", false)),
				pick(fmt.Sprint(r.IntN(9)), fault(&who.Empty, "", true)),
				pick("0.5", fault(&w.NotNumbers, "x", false), fault(&w.Empty, "", false)),
				pick([]string{"low", "high"}[r.IntN(2)], fault(&mood.Unknown, "middle", true), fault(&mood.Empty, "", true)),
			}
			if blanks {
				blank++
			}
			table.WriteString(strings.Join(row, ",") + "\n")
			object := map[string]any{}
			for k, cell := range row {
				object[names[k]] = cell
			}
			line, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			objects.Write(append(line, '\n'))
		}
		dir := writeFiles(t, map[string][]byte{"a.csv": []byte(table.String()), "a.csv.gz": gzipped(t, []byte(table.String())), "a.jsonl": []byte(objects.String())})
		for _, name := range []string{"a.csv", "a.csv.gz", "a.jsonl"} {
			file := filepath.Join(dir, name)
			report, err := CheckSchema(file, schema)
			if err != nil {
				t.Fatal(err)
			}
			if report.Rows != rows || report.BadRows != bad || report.BlankRows != blank || (report.BadRow == "") != (bad == 0) || len(report.Columns) != len(want) {
				t.Errorf("%s: %+v; want %d rows, %d bad, %d blank", name, report, rows, bad, blank)
			}
			for _, got := range report.Columns {
				got.cells, got.first, got.Histogram = 0, "", nil
				if !reflect.DeepEqual(got, *want[got.Name]) {
					t.Errorf("%s: %+v; want %+v", name, got, *want[got.Name])
				}
			}
			task, err := Open(file, Options{Schema: schema})
			if err != nil {
				t.Fatal(err)
			}
			inTraining := 0
			for _, b := range Blank(task.Train) {
				if b {
					inTraining++
				}
			}
			if inTraining != report.BlankRows || task.Train.Len() != report.Rows {
				t.Errorf("%s: training has %d of %d blank rows; the report has %d of %d", name, inTraining, task.Train.Len(), report.BlankRows, report.Rows)
			}
		}
	}
}

// A target and indices are counted like the reader for training treats them.
func TestCheckSchema_TargetAndText(t *testing.T) {
	dir := writeFiles(t, map[string][]byte{
		"a.csv": []byte("age,hours\n1,2\n2,400\n3,x\n4,\n"),
		"b.csv": []byte("note,mood\n1 2,low\n3 x,low\n,low\n9,low\n"),
	})
	for name, c := range map[string]struct {
		schema Schema
		want   ColumnReport
		blank  int
	}{
		"a.csv": {Schema{Target: "hours", Bounds: map[string]Bounds{"age": {0, 9}, "hours": {0, 168}}}, ColumnReport{Name: "hours", DescribedBy: "target", Outside: 1, NotNumbers: 1, Empty: 1}, 2},
		"b.csv": {Schema{Label: "mood", Classes: Classes{"low", "high"}, Text: "note", Tokens: "9", Length: 3}, ColumnReport{Name: "note", DescribedBy: "text", NotNumbers: 2}, 2},
	} {
		file := filepath.Join(dir, name)
		report, err := CheckSchema(file, c.schema)
		if err != nil {
			t.Fatal(err)
		}
		found := slices.IndexFunc(report.Columns, func(r ColumnReport) bool { return r.Name == c.want.Name })
		got := report.Columns[found]
		if got.cells, got.first, got.Histogram = 0, "", nil; !reflect.DeepEqual(got, c.want) || report.BlankRows != c.blank {
			t.Errorf("%s: %+v, %d blank; want %+v, %d blank", name, got, report.BlankRows, c.want, c.blank)
		}
		task, err := Open(file, Options{Schema: c.schema})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(slices.DeleteFunc(slices.Clone(Blank(task.Train)), func(b bool) bool { return !b })); n != c.blank {
			t.Errorf("%s: training has %d blank rows", name, n)
		}
	}
}

func TestCheckSchema_Refusals(t *testing.T) {
	schema := Schema{Label: "mood", Classes: Classes{"low", "high"}, Bounds: map[string]Bounds{"age": {0, 100}}}
	for _, c := range []struct{ name, text, want string }{
		{"a.csv", "", "is empty"},
		{"a.csv", "age,mood\n", "has no rows"},
		{"a.csv", "mood\nlow\n", `no column "age"`},
		{"a.csv", "age,mood,secret\n1,low,2\n", "does not describe secret"},
		{"a.csv", "age,mood\nsecret\n1\n", "no row has the columns of the schema; the first problem: line 2: 1 fields"},
		{"a.jsonl", "\n", "has no rows"},
		{"a.jsonl", `{"age": 1}`, `line 1 has no key "mood"`},
		{"a.jsonl", `{"mood": "low", "age": 1, "secret": 2}`, "line 1 has a key that the schema does not know"},
		{"a.npz", "", ".csv, .tsv or .jsonl"},
	} {
		file := filepath.Join(writeFiles(t, map[string][]byte{c.name: []byte(c.text)}), c.name)
		report, err := CheckSchema(file, schema)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s %q: %+v, %v; want %q", c.name, c.text, report, err, c.want)
		}
	}
	file := filepath.Join(writeFiles(t, map[string][]byte{"a.csv": []byte("age,mood\n1,low\n")}), "a.csv")
	if _, err := CheckSchema(file, Schema{Bounds: map[string]Bounds{"age": {1, 1}}}); err == nil {
		t.Error("an invalid schema was accepted")
	}
	if _, err := CheckSchema(file+"x.csv", schema); err == nil {
		t.Error("a missing file was accepted")
	}
}
