package data

import (
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// skeletonOf returns the skeleton of a table with the given text.
func skeletonOf(t testing.TB, name, text string, o SkeletonOptions) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	skeleton, err := SchemaSkeleton(file, o)
	if err != nil { // the folder's name differs between calls
		err = fmt.Errorf("%s", strings.ReplaceAll(err.Error(), filepath.Dir(file), ""))
	}
	return skeleton, err
}

const surveyHeader = "id,\"job, title\",age,income\n"

// oddRows are contents of a file after the header.
var oddRows = []string{
	"", "\n\n\n", "1,baker,20,low\n", "1,baker,20,low\n2,tailor,30,high", "1\n", "1,2,3,4,5,6\n", ",,,\n",
	"NaN,inf,-1e999,0x1p9\n", "\"", "\"\"\"\n", "1,\"a\nb\",2,low\n", "1,sec\"ret,2,low\n", "\"income\nlow\",a\n",
	strings.Repeat("\"a\n", 3000), strings.Repeat("9", 1<<20), "\x00\x00,\xff\xfe,\x1f\x8b,\r\r\r", "\r\n\r\n,\r,\r\n",
	"label: age\nbounds: {age: [0, 1]}\n", "id,\"job, title\",age,income\n",
}

// The skeleton of a private file is a function of its first line: it is the same for all rows.
func TestSchemaSkeleton_PrivateRowsChangeNothing(t *testing.T) {
	for _, o := range []SkeletonOptions{{}, {Label: "income"}, {Target: "age"}} {
		want, err := skeletonOf(t, "a.csv", surveyHeader, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, rows := range oddRows {
			got, err := skeletonOf(t, "a.csv", surveyHeader+rows, o)
			if err != nil || got != want {
				t.Errorf("%+v: with the rows %.40q: %v\n%s", o, rows, err, got)
			}
		}
		packed, err := skeletonOf(t, "a.csv.gz", string(gzipped(t, []byte(surveyHeader+oddRows[2]))), o)
		if err != nil || packed != want {
			t.Errorf("packed: %v\n%s", err, packed)
		}
	}
}

func FuzzSchemaSkeleton_PrivateRows(f *testing.F) {
	for _, rows := range oddRows[:len(oddRows)-6] {
		f.Add(rows)
	}
	want, err := privateSkeleton(strings.NewReader(surveyHeader), ".csv", SkeletonOptions{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, rows string) {
		if got, err := privateSkeleton(strings.NewReader(surveyHeader+rows), ".csv", SkeletonOptions{}); err != nil || got != want {
			t.Errorf("with the rows %q: %v\n%s", rows, err, got)
		}
	})
}

// A quotation mark in the header that is not closed would make rows a part of it. Neither the
// skeleton nor the error contains them or depends on them.
func TestSchemaSkeleton_PrivateHeaderEndsWithFirstLine(t *testing.T) {
	for _, header := range []string{"id,\"job,age\n", "\"id,age\n", "id,age\"\n", "id,\"\"\",age\n"} {
		var first string
		for i, rows := range []string{"", "1,2\n", "secret\",age\n", "secret\"\n", "secret\r\",a\n", "secret\", 7\n1,2\n", "\"\n", "\"secret\"\",\"\n"} {
			_, err := skeletonOf(t, "a.csv", header+rows, SkeletonOptions{})
			if err == nil || strings.Contains(err.Error(), "secret") || i > 0 && err.Error() != first {
				t.Errorf("%q: %v", header+rows, err)
			} else {
				first = err.Error()
			}
		}
	}
}

// uncomment removes the comment mark of one line of a skeleton.
func uncomment(t testing.TB, skeleton, line, with string) string {
	t.Helper()
	before, after, found := strings.Cut(skeleton, "  # "+line+"\n")
	if !found {
		t.Fatalf("the skeleton lacks the line %q:\n%s", line, skeleton)
	}
	return before + "  " + with + "\n" + after
}

// One line for each column and the values complete the skeleton of a private file.
func TestSchemaSkeleton_PrivateIsCompletedByUncommenting(t *testing.T) {
	skeleton, err := skeletonOf(t, "a.csv", surveyHeader, SkeletonOptions{})
	if err != nil {
		t.Fatal(err)
	}
	unedited, err := parseSchema([]byte(skeleton))
	if err != nil || !unedited.empty() {
		t.Errorf("unedited it is the schema %+v, %v", unedited, err)
	}
	file := filepath.Join(writeFiles(t, map[string][]byte{"a.csv": []byte(surveyHeader + "1,baker,20,low\n2,tailor,30,high\n")}), "a.csv")
	checkOpenError(t, file, Options{Schema: unedited}, "the label column is not given")

	skeleton = strings.Replace(skeleton, "label: ", "label: income ", 1)
	skeleton = strings.Replace(skeleton, "classes: []", "classes: [low, high]", 1)
	skeleton = uncomment(t, skeleton, "age: [LOW, HIGH]", "age: [0, 120]")
	skeleton = uncomment(t, skeleton, `"job, title": []`, `"job, title": [baker]`)
	skeleton = uncomment(t, skeleton, "- id", "- id")
	schema, err := parseSchema([]byte(skeleton))
	if err != nil {
		t.Fatal(err)
	}
	task, err := Open(file, Options{Schema: schema})
	if err != nil || task.Train.Columns()[0].Size() != 4 || Blank(task.Train) != nil {
		t.Errorf("%v, %+v", err, schema)
	}
	// A line without its values is refused.
	for _, incomplete := range []string{
		uncomment(t, skeleton, "income: [LOW, HIGH]", "income: [LOW, HIGH]"),
		uncomment(t, skeleton, "income: []", "income: []"),
	} {
		if _, err := parseSchema([]byte(incomplete)); err == nil {
			t.Errorf("this is accepted:\n%s", incomplete)
		}
	}
}

// Names and words of any kind keep their text in the schema.
func FuzzSchemaSkeleton_NamesAndWords(f *testing.F) {
	for _, name := range []string{"age", "yes", "null", "~", "1e3", "0x1F", "a: b", "a #b", "- a", "? a", "\"quoted\"", "it's", "two\nlines", "tab\there", "{a}", "[a", "&a", "*a", "!a", "%a", "@a", "`a", "<<", "=", "", "é", "日本", "\u2028", "\u0085", "\ufeffx", "\x01", "\x7f", "\u00ad", "😀", "a\\n", "2001-01-01", "true", ".inf", "---", "..."} {
		f.Add(name, name)
	}
	f.Fuzz(func(t *testing.T, name, word string) {
		if strings.ContainsAny(name, "\r\x00") || strings.Contains(word, "\r") {
			return // the reader refuses such names, and changes such words
		}
		if strings.Count(name, "\n")+1 >= maxRowLines || strings.Count(word, "\n")+1 >= maxRowLines {
			return // the reader refuses such rows
		}
		var file strings.Builder
		w := csv.NewWriter(&file)
		for _, row := range [][]string{{"label", name, "word"}, {"a", "1", word}, {"b", "2.5", "other word"}, {"a", "3", word}, {"b", "4", "other word"}} {
			w.Write(row)
		}
		w.Flush()
		o := SkeletonOptions{Public: true, Label: "label"}
		skeleton, err := publicCSVSkeleton(strings.NewReader(file.String()), ".csv", "a.csv", o)
		lines := strings.Contains(name, "\n")
		name, word = strings.TrimSpace(name), strings.TrimSpace(word)
		if name == "label" || name == "word" || !utf8.ValidString(name) || len(name) > 100 {
			return
		}
		if err != nil {
			t.Fatalf("%q, %q: %v", name, word, err)
		}
		schema, err := parseSchema([]byte(skeleton))
		if err != nil {
			t.Fatalf("%q, %q: %v\n%s", name, word, err, skeleton)
		}
		if _, bounded := schema.Bounds[name]; bounded == (name == "") || (name == "") != slices.Contains(schema.Ignore, "") {
			t.Errorf("the name %q is not in the schema %+v", name, schema)
		}
		ordinary := !isMissing(word) && word != "other word" && utf8.ValidString(word)
		if words := schema.Vocabulary["word"]; ordinary && (len(words) != 2 || !slices.Contains(words, word)) {
			t.Errorf("the word %q is not among %q", word, words)
		}
		if name != "" {
			if _, _, err := readCSV(strings.NewReader(file.String()), schema, rowPolicy{}); err != nil {
				t.Errorf("%q, %q: %v", name, word, err)
			}
		}
		private, err := privateSkeleton(strings.NewReader(file.String()), ".csv", SkeletonOptions{Label: "label"})
		if lines {
			if err == nil {
				t.Errorf("a private header of two lines is accepted")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if name == "" {
			return
		}
		private = uncomment(t, private, quoteYAML(name)+": [LOW, HIGH]", quoteYAML(name)+": [0, 1]")
		private = uncomment(t, private, "- "+quoteYAML(name), "- "+quoteYAML(name))
		if strings.Contains(private, "\t") || !utf8.ValidString(private) {
			t.Errorf("%q", private)
		}
		private = strings.Replace(private, "- "+quoteYAML(name)+"\n", "- other\n", 1)
		if schema, err = parseSchema([]byte(private)); err != nil || schema.Bounds[name] != (Bounds{0, 1}) {
			t.Errorf("%q: %v, %+v", name, err, schema)
		}
	})
}

// survey writes a public table of every kind of column. An independent reading of the rules in the
// documentation gives the schema.
func survey(rows int) string {
	r := rand.New(rand.NewPCG(7, 8))
	var b strings.Builder
	b.WriteString(",id,code,age,height,sex,note,site,gone,answer\n")
	for i := range rows {
		fmt.Fprintf(&b, "%d,%d,c-%d,%d,%.3f,%s,note %d,north,,%s\n", i, 1000+i, i%(rows-2), 17+r.IntN(74), 1.5+r.Float64()/2, []string{"f", "m"}[r.IntN(2)], i, []string{"no", "yes"}[i%2])
	}
	return b.String()
}

func TestSchemaSkeleton_PublicColumns(t *testing.T) {
	text, err := skeletonOf(t, "a.csv", survey(400), SkeletonOptions{Public: true})
	if err != nil {
		t.Fatal(err)
	}
	s, err := parseSchema([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if s.Label != "" || s.Target != "" {
		t.Errorf("a label is chosen silently: %+v", s)
	}
	if want := map[string]Bounds{"age": {10, 90}, "height": {1.5, 2}}; len(s.Bounds) != 2 || s.Bounds["age"] != want["age"] || s.Bounds["height"] != want["height"] {
		t.Errorf("bounds %v; want %v", s.Bounds, want)
	}
	if len(s.Vocabulary) != 1 || !slices.Equal(s.Vocabulary["sex"], []string{"f", "m"}) {
		t.Errorf("vocabulary %v", s.Vocabulary)
	}
	if want := []string{"", "id", "code", "note", "site", "gone"}; !slices.Equal(s.Ignore, want) {
		t.Errorf("ignored are %q; want %q", s.Ignore, want)
	}
	if !strings.Contains(text, "must be public") || !strings.Contains(text, "\n# label: answer\n# classes: [\"no\", \"yes\"]\n") {
		t.Errorf("the proposal is missing:\n%s", text)
	}
	chosen, err := parseSchema([]byte(strings.NewReplacer("# label", "label", "# classes", "classes").Replace(text)))
	if err != nil || chosen.Label != "answer" || !slices.Equal(chosen.Classes, []string{"no", "yes"}) {
		t.Errorf("with the proposal: %v, %+v", err, chosen)
	}
	// With a label or a target the schema is complete: every row is read.
	for _, o := range []SkeletonOptions{{Public: true, Label: "answer"}, {Public: true, Label: "sex"}, {Public: true, Target: "age"}, {Public: true, Target: "id"}, {Public: true, Label: "site"}} {
		text, err := skeletonOf(t, "a.csv", survey(400), o)
		if o.Label == "site" {
			if err == nil || !strings.Contains(err.Error(), "fewer than 2") {
				t.Errorf("a label of one class: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		s, err := parseSchema([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		set, _, err := readCSV(strings.NewReader(survey(400)), s, rowPolicy{})
		if err != nil || set.Len() != 400 || s.Label != o.Label || s.Target != o.Target {
			t.Errorf("%+v: %v\n%s", o, err, text)
		}
	}
}

// The columns of JSONL are the keys of all rows. The schema states how many rows lack a key or a
// value; training does not lose these.
func TestSchemaSkeleton_PublicJSONL(t *testing.T) {
	const rows = `{"age": 20, "who": {"first": "a"}, "ok": true}` + "\n" +
		`{"ok": false, "age": 35.5, "tags": [1.5], "who": {"first": "b"}}` + "\n\n" +
		`{"age": null, "who": {"first": "c"}, "ok": true, "sex": "f"}` + "\n" +
		`{"age": 40, "who": {"first": "d"}, "ok": false, "sex": "m"}` + "\n" +
		`{"age": 41, "who": {"first": "d"}, "ok": false, "sex": "m", "rare": null}` + "\n" +
		`{"age": 39, "who": 1, "ok": true}` + "\n" +
		`{"sex": "m", "age": 38, "who": 1, "ok": true}` + "\n"
	text, err := skeletonOf(t, "a.jsonl", rows, SkeletonOptions{Public: true, Label: "ok"})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"label: ok", `classes: ["false", "true"]`, "  age: [20, 45]  # here 20 to 41; without a value: 1", "  sex: [f, m]  # without a value: 3", "  - who  # some values", "  - tags  # some values", "  - rare  # every"} {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("the line %q is missing:\n%s", line, text)
		}
	}
	schema, err := parseSchema([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if schema, err = schema.resolved(); err != nil {
		t.Fatal(err)
	}
	set, _, err := readJSONL(strings.NewReader(rows), schema, rowPolicy{private: true, blank: true})
	if err != nil || Blank(set) != nil {
		t.Errorf("%v, blank %v\n%s", err, Blank(set), text)
	}
}

func TestSchemaSkeleton_Refusals(t *testing.T) {
	public, private := SkeletonOptions{Public: true}, SkeletonOptions{}
	for _, c := range []struct {
		name, text string
		o          SkeletonOptions
		want       string
	}{
		{"a.csv", "", private, "is empty"},
		{"a.csv", "", public, "is empty"},
		{"a.csv", "age,job\n", public, "no rows"},
		{"a.csv", "39,secret,12,low\n", private, "in column 1 it has a number; add a first line"},
		{"a.csv", "39,secret,12,low\n", SkeletonOptions{Label: "income"}, `no label "income"`},
		{"a.csv", "age,secret\n1,2\n", SkeletonOptions{Target: "agee"}, `did you mean the name of column 1?`},
		{"a.csv", "age,secr\xe9t\n", private, "column 2 is not UTF-8"},
		{"a.csv", "age," + strings.Repeat("secret", 200) + "\n", private, "column 2 has more than 1000 bytes"},
		{"a.csv", "age,job\n1,2\n3\n", public, "line 3: 1 fields"},
		{"a.csv", "age,job\n1,a\n2,b\n", SkeletonOptions{Public: true, Target: "job"}, "not a column of different numbers"},
		{"a.csv", "age,job\n1,a\n2,b\n", SkeletonOptions{Public: true, Target: "age", Label: "job"}, "leave one out"},
		{"a.csv", "age\n" + manyNumbers(2000), SkeletonOptions{Public: true, Label: "age"}, "more than 1000 different values"},
		{"a.jsonl", `{"secret": 1}`, private, "JSONL names the columns in the rows"},
		{"a.jsonl", "", public, "no rows"},
		{"a.jsonl", "{\"a\": 1}\n[1]\n", public, "line 2 is not a JSON object"},
		{"a.jsonl", `{"a": 1, "a": 2}`, public, `line 1 has the key "a" twice`},
		{"a.jsonl", `{" a": 1}`, public, "space around it"},
		{"a.jsonl", `{"a": 1}`, SkeletonOptions{Public: true, Label: "b"}, `no row has the key "b"`},
		{"a.txt", "age\n", private, ".csv, .tsv or .jsonl"},
	} {
		_, err := skeletonOf(t, c.name, c.text, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s %q: %v; want %q", c.name, c.text, err, c.want)
		}
	}
	for _, name := range []string{"none.csv", "."} {
		if _, err := SchemaSkeleton(filepath.Join(t.TempDir(), name), private); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func manyNumbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d\n", i)
	}
	return b.String()
}

func TestRoundOutwards(t *testing.T) {
	for in, want := range map[Bounds]Bounds{
		{17, 90}: {10, 90}, {1, 16}: {0, 16}, {0, 4356}: {0, 4500}, {12285, 1484705}: {0, 1.6e6}, {0, 1}: {0, 1}, {-0.93, 0.28}: {-1, 0.4},
		{1987, 2021}: {1985, 2025}, {0.1, 0.3}: {0.1, 0.3}, {0, 5e-324}: {0, 5e-324}, {-1e299, 1e299}: {-1e299, 1e299},
	} {
		if got := roundOutwards(in[0], in[1]); got != want {
			t.Errorf("%v becomes %v; want %v", in, got, want)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		a := (2*r.Float64() - 1) * math.Pow(10, float64(r.IntN(600)-302))
		b := a + math.Abs(a)*math.Pow(10, -16*r.Float64()) + math.Pow(10, float64(r.IntN(600)-302))
		if !(a < b) || max(math.Abs(a), math.Abs(b)) > maxBounded {
			continue
		}
		got := roundOutwards(a, b)
		if !got.valid() || got[0] > a || got[1] < b || got[1]-got[0] > 1.5*(b-a)+1e-15*max(math.Abs(a), math.Abs(b)) {
			t.Fatalf("%v:%v becomes %v", a, b, got)
		}
	}
}
