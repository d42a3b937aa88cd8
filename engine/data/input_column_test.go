package data

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// opened reads a file of two classes with a schema in YAML, and returns the features by row. The
// rows of blank are blank.
func opened(t *testing.T, name, content, schema string) ([][]float32, *Task) {
	t.Helper()
	s, err := parseSchema([]byte(schema))
	if err != nil {
		t.Fatal(err)
	}
	task, err := Open(filepath.Join(writeFiles(t, map[string][]byte{name: []byte(content)}), name), Options{Schema: s})
	if err != nil {
		t.Fatal(err)
	}
	width := task.Train.Columns()[0].Size()
	return slices.Collect(slices.Chunk(readFeatures(t, task.Train), width)), task
}

const twoClasses = "label: ok\nclasses: [n, y]\n"

// Each rule for missing numbers and words has its own encoding, and the default loses no record.
func TestSchema_Missing(t *testing.T) {
	const table = "age,job,ok\n30,b,y\n,,n\nNA,?,y\nnull,other,n\n"
	const columns = twoClasses + "bounds: {age: [20, 60]}\nvocabulary: {job: [b]}\n"
	for rule, want := range map[string]string{
		"":                                      "[[-0.5 1 0 0] [0 0 0 1] [0 0 0 1] [0 0 1 0]]",
		"missing: middle":                       "[[-0.5 1 0 0] [0 0 0 1] [0 0 0 1] [0 0 1 0]]",
		"missing: zero":                         "[[-0.5 1 0 0] [-1 0 0 1] [-1 0 0 1] [-1 0 1 0]]",
		"missing: indicator":                    "[[-0.5 0 1 0 0] [0 1 0 0 1] [0 1 0 0 1] [0 1 0 1 0]]",
		"missing: {age: indicator, job: blank}": "[[-0.5 0 1 0] [0 0 0 0] [0 0 0 0] [0 1 0 1]]",
		"missing: blank":                        "[[-0.5 1 0] [0 0 0] [0 0 0] [0 0 0]]",
	} {
		rows, task := opened(t, "a.csv", table, columns+rule)
		if got := fmt.Sprint(rows); got != want {
			t.Errorf("%q: %s, want %s", rule, got, want)
		}
		if blank := fmt.Sprint(Blank(task.Train)); (blank == "[]") == strings.Contains(rule, "blank") {
			t.Errorf("%q: blank %s", rule, blank)
		}
		// The schema of the task reads the same features again.
		again, err := Open(filepath.Join(writeFiles(t, map[string][]byte{"b.csv": []byte(table)}), "b.csv"), Options{Schema: task.Schema})
		if err != nil || !slices.Equal(readFeatures(t, again.Train), readFeatures(t, task.Train)) {
			t.Errorf("%q: read again %v", rule, err)
		}
	}
	// A vocabulary has precedence, and a key that a row of JSONL lacks is a missing value.
	rows, _ := opened(t, "a.csv", "job,ok\nNA,y\n,n\n", twoClasses+"vocabulary: {job: [NA]}\n")
	if got := fmt.Sprint(rows); got != "[[1 0 0] [0 0 1]]" {
		t.Errorf("a listed NA: %s", got)
	}
	rows, _ = opened(t, "a.jsonl", `{"age": 40, "job": "b", "ok": "y"}`+"\n"+`{"ok": "n"}`+"\n"+`{"age": null, "job": null, "ok": "n"}`, columns)
	if got := fmt.Sprint(rows); got != "[[0 1 0 0] [0 0 0 1] [0 0 0 1]]" {
		t.Errorf("JSONL: %s", got)
	}
}

// Separators, decimal signs and repeated names.
func TestSchema_Cells(t *testing.T) {
	const bounds = twoClasses + "bounds: {age: [0, 2], height: [0, 2000]}\n"
	for name, c := range map[string]struct{ file, content, schema string }{
		"tabs by extension":   {"a.tsv", "age\theight\tok\n\t1000\ty\n1.5\t0\tn\n", ""},
		"semicolons":          {"a.csv", "age;height;ok\n;1000;y\n1.5;0;n\n", "separator: semicolon\n"},
		"the character":       {"a.csv", "age|height|ok\n|1000|y\n1.5|0|n\n", "separator: '|'\n"},
		"decimal commas":      {"a.csv", "age;height;ok\n;1.000,00;y\n1,5;0;n\n", "separator: semicolon\ndecimal: ','\n"},
		"quoted":              {"a.csv", "age,height,ok\n,1000,y\n\"1,5\",0,n\n", "decimal: ','\n"},
		"a star":              {"a.csv", "age,height,ok,more\n,1000,y,1\n1.5,0,n,2\n", "ignore: '*'\n"},
		"only, and names":     {"a.csv", "age,height,ok,more\n,1000,y,1\n1.5,0,n,2\n", "vocabulary: {more: 1|2}\nonly: age,height\n"},
		"bounds as in flags":  {"a.csv", "age,height,ok,x\n,1000,y,\n1.5,0,n,\n", "ignore: x\n"},
		"the second is other": {"a.csv", "age,height,ok,age\n,1000,y,7\n1.5,0,n,8\n", "ignore: [age.2]\n"},
	} {
		schema := bounds + c.schema
		if name == "bounds as in flags" {
			schema = twoClasses + "bounds: {age: 0:2, height: 0:2000}\n" + c.schema
		}
		rows, _ := opened(t, c.file, c.content, schema)
		if got := fmt.Sprint(rows); got != "[[0 0] [0.5 -1]]" {
			t.Errorf("%s: %s", name, got)
		}
	}
	names := uniqueNames([]string{"a", " a", "a.2", "b", "a", "", ""})
	if want := []string{"a", "a.3", "a.2", "b", "a.4", "", ""}; !slices.Equal(names, want) {
		t.Errorf("names %q, want %q", names, want)
	}
}

// A number on a scale is the place of its function between those of the bounds.
func TestSchema_Scale(t *testing.T) {
	const table = "a,b,ok\n1,-100,y\n10,0,n\n1e9,1000,y\n-5,100,n\n"
	rows, _ := opened(t, "a.csv", table, twoClasses+"bounds: {a: [1, 100], b: [-100, 100]}\nscale: {a: log, b: asinh}\n")
	if got := fmt.Sprint(rows); got != "[[-1 -1] [0 0] [1 1] [-1 1]]" {
		t.Errorf("features %s", got)
	}
	c := InputColumn{Bounds: Bounds{0, 1e6}, Scale: ASinhScale}
	for _, v := range []float64{0, 1, 17, 12345, 1e6} {
		if got, want := float64(c.scaled(v)), 2*math.Asinh(v)/math.Asinh(1e6)-1; math.Abs(got-want) > 1e-7 {
			t.Errorf("asinh of %v is scaled to %v, want %v", v, got, want)
		}
	}
}

// A date becomes a number, its month and its day of the week; the month and the day are those of
// package time for each day of four years.
func TestSchema_Dates(t *testing.T) {
	const schema = twoClasses + "dates: {day: [2000-01-01, 2003-12-31]}\n"
	var table strings.Builder
	table.WriteString("day,ok\n")
	first := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	const days = 3*365 + 366
	for i := range days {
		table.WriteString(first.AddDate(0, 0, i).Format(time.DateOnly) + ",y\n")
	}
	table.WriteString("1999-05-05,y\n2050-05-05T10:00:00Z,y\n,y\nsoon,y\n")
	rows, task := opened(t, "a.csv", table.String(), schema)
	for i := range days {
		day := first.AddDate(0, 0, i)
		want := make([]float32, 1+months+weekdays)
		want[0] = float32(2*float64(i)/(days-1) - 1)
		want[1+int(day.Month())-1], want[1+months+int(day.Weekday())] = 1, 1
		if !slices.EqualFunc(rows[i], want, func(a, b float32) bool { return math.Abs(float64(a-b)) < 1e-6 }) {
			t.Fatalf("%v: %v, want %v", day, rows[i], want)
		}
	}
	if rows[days][0] != -1 || rows[days+1][0] != 1 || slices.Max(rows[days+2]) != 0 || slices.Min(rows[days+2]) != 0 {
		t.Errorf("outside and missing: %v", rows[days:])
	}
	if blank := Blank(task.Train); !blank[days+3] || slices.Contains(blank[:days+3], true) {
		t.Errorf("blank %v", blank[days:])
	}
	rows, _ = opened(t, "a.csv", "day,ok\n31.12.2003 23:00,y\n", schema+"date-format: DD.MM.YYYY hh:mm\nmissing: indicator\n")
	if rows[0][12] != 1 || len(rows[0]) != 2+months+weekdays || rows[0][0] != 1 {
		t.Errorf("a declared format: %v", rows)
	}
}

// An error names the line, the key and the nearest key; contradictions are refused.
func TestParseSchema_Refusals(t *testing.T) {
	for text, want := range map[string]string{
		"label: a\nbuonds: {a: [0, 1]}":                            `line 2: "buonds" is not a key of a schema; did you mean bounds?`,
		"label: a\n\nlabel: b":                                     "line 3: label is also in line 1",
		"label: a\nbounds: {a: [0]}":                               "line 2: bounds: write it like bounds: {age: [0, 120]}",
		"bounds: {a: x}":                                           "line 1: bounds: bounds \"x\": write LOW:HIGH",
		"bounds: [a]":                                              "line 1: bounds: write it like",
		"bounds: {a: [0, 1], a: [0, 2]}":                           "already defined",
		"dates: {a: [2000-01-01]}":                                 "line 1: dates: write the first and the last date",
		"dates: {a: [1.1.2000, 2001-01-01]}":                       "is no date",
		"dates: {a: [2001-01-01, 2000-01-01]}":                     "the first must be before the last",
		"dates: {a: [2001-01-01, 2002-01-01]}\ndate-format: DD.MM": "needs YYYY, MM and DD",
		"vocabulary: {sex: ['Female,Male']}":                       "one word with a comma",
		"vocabulary: {sex: 'Female,Male'}":                         "separate words by | (Female|Male)",
		"scale: {a: log}":                                          "is no feature with bounds",
		"bounds: {a: [0, 1]}\nscale: {a: log}":                     "needs a lower bound above 0",
		"bounds: {a: [0, 1]}\nscale: {a: root}":                    "write log or asinh",
		"target: a\nbounds: {a: [1, 2]}\nscale: {a: log}":          "is no feature",
		"bounds: {a: [0, 1]}\nmissing: {a: word}":                  "write blank, zero, middle or indicator",
		"bounds: {a: [0, 1]}\nmissing: {b: zero}":                  `column "b" is no feature`,
		"vocabulary: {a: [b]}\nmissing: {a: zero}":                 "write blank or word",
		"bounds: {a: [0, 1]}\nmissing: mean":                       "write blank, zero, middle or indicator",
		"only: [a]":                                                `only: column "a" has neither`,
		"separator: colon":                                         "write comma, semicolon, tab or pipe",
		"decimal: x":                                               "write . or ,",
	} {
		if _, err := parseSchema([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// The schema of a public table has its separator and its dates, and reads the table.
func TestSchemaSkeleton_SeparatorAndDates(t *testing.T) {
	const table = "day;age;age;ok\n2001-05-06;3;x;y\n2003-01-01;;y;n\n2002-01-01;5;x;y\n"
	text, err := skeletonOf(t, "a.csv", table, SkeletonOptions{Public: true, Label: "ok"})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"separator: semicolon", "  day: [2001-01-01, 2003-12-31]  # here 2001-05-06 to 2003-01-01", `  "age.2": [x, "y"]`} {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("%q is missing:\n%s", line, text)
		}
	}
	if rows, _ := opened(t, "a.csv", table, text); len(rows) != 3 {
		t.Errorf("%d rows", len(rows))
	}
	private, err := skeletonOf(t, "a.csv", table, SkeletonOptions{})
	if err != nil || !strings.Contains(private, "separator: semicolon") || strings.Contains(private, "2001-05") {
		t.Errorf("%v\n%s", err, private)
	}
}

// A spreadsheet or a columnar file is refused with advice.
func TestOpen_AdvisesAboutOtherFormats(t *testing.T) {
	dir := writeFiles(t, map[string][]byte{"a.xlsx": nil, "a.parquet": nil, "a.xyz": nil})
	for name, want := range map[string]string{"a.xlsx": "save its table as CSV", "a.parquet": "import the package engine/data/columnar", "a.xyz": `extension ".xyz"`} {
		checkOpenError(t, filepath.Join(dir, name), Options{}, want)
	}
}
