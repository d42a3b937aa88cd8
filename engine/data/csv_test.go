package data

import (
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var peopleSchema = Schema{
	Label:      "income",
	Classes:    Classes{"low", "high"},
	Bounds:     map[string]Bounds{"age": {0, 100}, "gain": {-1, 1}},
	Vocabulary: map[string][]string{"job": {"baker", "tailor"}},
	Ignore:     []string{"id"},
	User:       "person",
}

const people = "\ufeffid, age ,job,income,gain,person\n" +
	"7,25,tailor,low,0.5,ann\n" +
	"8, 150 ,spy, \"high\",-2,bob\n" +
	"9,0,baker, low,1e400,ann\n"

func TestReadCSV_BySchema(t *testing.T) {
	dir := writeFiles(t, map[string][]byte{
		"people.csv":    []byte(people),
		"test.csv":      []byte(people),
		"packed.csv.gz": gzipped(t, []byte(people)),
	})
	for _, name := range []string{"people.csv", "packed.csv.gz"} {
		task, err := Open(filepath.Join(dir, name), Options{Schema: peopleSchema, Test: filepath.Join(dir, "test.csv")})
		if err != nil {
			t.Fatal(err)
		}
		dst := newBuffers(task.Train, 3)
		if err := task.Train.Read(dst, []int{0, 1, 2}); err != nil {
			t.Fatal(err)
		}
		if want := []float32{
			-.5, 0, 1, 0, 0, .5, // age, baker, tailor, other, missing, gain
			1, 0, 0, 1, 0, -1, // a number outside the bounds is clipped, an unknown word becomes other
			-1, 1, 0, 0, 0, 1,
		}; !slices.Equal(dst[0], want) {
			t.Errorf("features %v; want %v", dst[0], want)
		}
		if !slices.Equal(dst[1], []float32{0, 1, 0}) {
			t.Errorf("labels %v; want 0, 1, 0", dst[1])
		}
		if users := Users(task.Train); !slices.Equal(users, []int32{0, 1, 0}) {
			t.Errorf("users %v; want 0, 1, 0", users)
		}
		if !task.Private || task.Classes != 2 || task.Test.Len() != 3 {
			t.Errorf("private %v, %d classes, %d test rows", task.Private, task.Classes, task.Test.Len())
		}
	}
}

// Errors must not reveal private values: every invalid table has the value "secret", and no
// error may contain it.
func TestReadCSV_ErrorsShowNoValues(t *testing.T) {
	const header = "age,job,income\n"
	schema := Schema{Label: "income", Classes: Classes{"low", "high"}, Bounds: map[string]Bounds{"age": {0, 100}}, Vocabulary: map[string][]string{"job": {"baker"}}}
	with := func(change func(*Schema)) Schema {
		s := schema
		change(&s)
		return s
	}
	for _, c := range []struct {
		want   string
		text   string
		schema Schema
	}{
		{"is empty", "", schema},
		{"has no rows", header, schema},
		{`line 3, column "age": the value is not a number`, header + "1,a,low\nsecret,a,low\n", schema},
		{`line 2, column "age": the value is not a number`, header + "NaN3,secret,low\n", schema},
		{`line 2, column "age": the cell has no value`, header + ",secret,low\n", with(func(s *Schema) { s.Missing = map[string]Missing{"*": MissingBlank} })},
		{`line 3, column "job": the cell has no value`, header + "1,secret,low\n1,?,low\n", with(func(s *Schema) { s.Missing = map[string]Missing{"job": MissingBlank} })},
		{`line 4, column "income": the label is not one of the 2`, header + "\"1\",\"a\nb\",low\n2,a,secret\n", schema},
		{"line 3: 2 fields, but the first line names 3 columns", header + "1,a,low\n1,secret\n", schema},
		{"line 2", header + "1,sec\"ret,low\n", schema},
		{`no label "income"`, "30,secret,low\n31,secret,low\n", schema},
		{`no label "incme"; did you mean the name of column 3?`, header + "1,secret,low\n", with(func(s *Schema) { s.Label = "incme" })},
		{"label", "secret,30,low\n", with(func(s *Schema) { s.Label = "" })},
		{"classes", header + "1,secret,low\n", with(func(s *Schema) { s.Classes = nil })},
		{"classes", header + "1,secret,low\n", with(func(s *Schema) { s.Classes = Classes{"low"} })},
		{"text", "secret,secret\n", Schema{PredictNext: true, Tokens: "bytes", Length: 2}},
		{"does not describe age; write bounds age=LOW:HIGH", header + "1,secret,low\n", with(func(s *Schema) { s.Bounds = nil })},
		{"does not describe age, job; write", header + "1,secret,low\n", with(func(s *Schema) { s.Bounds, s.Vocabulary = nil, nil })},
		{`no column "jbo"; did you mean "job"?`, header + "1,secret,low\n", with(func(s *Schema) { s.Ignore = []string{"jbo"} })},
		{`"age" is used in two ways`, header + "1,secret,low\n", with(func(s *Schema) { s.User = "age" })},
		{"does not describe a, b, c, d, e, f, g, h, i, j and 2 more; write bounds a=LOW", "a,b,c,d,e,f,g,h,i,j,k,l,income\n", Schema{Label: "income", Classes: schema.Classes}},
		{"semicolons", "age;job;income\n1;secret;low\n", schema},
		{"tabs", "age\tjob\tincome\n1\tsecret\tlow\n", schema},
		{"UTF-16", "\xff\xfea\x00g\x00e\x00,\x00\n\x00", schema},
		{"carriage return", "age,job,income\r1,secret,low\r2,secret,low\r", schema},
		{`does not describe age.2; write`, "age,job,age,income\n1,a,secret,low\n", schema},
		{"there are no features", "income\nlow\n", Schema{Label: "income", Classes: schema.Classes}},
		{"lower one must be less than", header + "1,secret,low\n", with(func(s *Schema) { s.Bounds = map[string]Bounds{"age": {3, 3}} })},
		{`line 3, column "who": the user is empty`, "who,age,job,income\nsecret,1,a,low\n,2,a,low\n", with(func(s *Schema) { s.User = "who" })},
	} {
		file := filepath.Join(writeFiles(t, map[string][]byte{"rows.csv": []byte(c.text)}), "rows.csv")
		checkOpenError(t, file, Options{Schema: c.schema}, c.want, "rows.csv")
		if _, err := Open(file, Options{Schema: c.schema}); err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows a value: %v", err)
		}
	}
	dir := writeFiles(t, map[string][]byte{
		"a.csv": []byte(header + "1,a,low\n"),
		"b.csv": []byte("age,income\n1,low\n"),
	})
	a, b := filepath.Join(dir, "a.csv"), filepath.Join(dir, "b.csv")
	checkOpenError(t, a, Options{Schema: schema, Test: b}, "b.csv", `no column "job"`)
	checkOpenMissing(t, a, Options{Schema: schema, Test: filepath.Join(dir, "c.csv")}, "c.csv")
}

// A column without a name, such as the index that pandas writes, must be ignored explicitly.
func TestReadCSV_ColumnWithoutName(t *testing.T) {
	file := filepath.Join(writeFiles(t, map[string][]byte{"a.csv": []byte(",text\n0,ab\n")}), "a.csv")
	s := Schema{PredictNext: true, Text: "text", Tokens: "bytes", Length: 2}
	checkOpenError(t, file, Options{Schema: s}, "column 1 has no name", "ignore")
	s.Ignore = []string{""}
	task, err := Open(file, Options{Schema: s})
	if err != nil {
		t.Fatal(err)
	}
	dst := newBuffers(task.Train, 1)
	if err := task.Train.Read(dst, []int{0}); err != nil || !slices.Equal(dst[0], []float32{10, 'a'}) || !slices.Equal(dst[1], []float32{'a', 'b'}) {
		t.Errorf("%v, %v", dst, err)
	}
}

// The rows of one table are read from files with different orders of columns. The schema of
// the first file's task determines the order of the features.
func TestReadCSV_ColumnsAreFoundByName(t *testing.T) {
	dir := writeFiles(t, map[string][]byte{
		"a.csv":   []byte("age,weight,income\n1,2,low\n"),
		"b.csv":   []byte("weight,income,age\n2,low,1\n"),
		"c.jsonl": []byte(`{"weight": 2, "age": 1, "income": "low"}` + "\n"),
		"d.csv":   []byte("weight,height,income\n2,1,low\n"),
	})
	at := func(name string) string { return filepath.Join(dir, name) }
	numbers := Schema{Bounds: map[string]Bounds{"age": {0, 100}, "weight": {0, 10}}}
	words := Schema{Vocabulary: map[string][]string{"age": {"1", "2"}, "weight": {"1", "2"}}}
	for _, s := range []Schema{numbers, words} {
		s.Label, s.Classes = "income", Classes{"low", "high"}
		for _, train := range []string{"a.csv", "b.csv", "c.jsonl"} {
			first, err := Open(at(train), Options{Schema: s, Test: at(strings.Replace("b"+train[1:], "b.jsonl", "c.jsonl", 1))})
			if err != nil {
				t.Fatal(err)
			}
			want := first.Train.(*Table).values
			if got := first.Test.(*Table).values; !reflect.DeepEqual(got, want) {
				t.Errorf("trained on %s: the test rows are %v, want %v", train, got, want)
			}
			for _, other := range []string{"a.csv", "b.csv", "c.jsonl"} {
				again, err := Open(at(other), Options{Schema: first.Schema})
				if err != nil {
					t.Fatal(err)
				}
				if got := again.Train.(*Table).values; !reflect.DeepEqual(got, want) {
					t.Errorf("trained on %s: %s has %v, want %v", train, other, got, want)
				}
			}
		}
	}
	strange := Schema{Label: "income", Classes: Classes{"low", "high"}, Inputs: []string{"age", "weight"}, Bounds: map[string]Bounds{"weight": {0, 1}, "height": {0, 1}}}
	checkOpenError(t, at("d.csv"), Options{Schema: strange}, "lists the inputs age, weight")
}

func TestParseSchema_Files(t *testing.T) {
	const text = `
label: income
classes: [low, high]
bounds:
  age: [0, 100]
  gain: [-1, 1]
vocabulary:
  job: [baker, tailor]
ignore: [id]
user: person
`
	dir := writeFiles(t, map[string][]byte{"schema.yaml": []byte(text), "count.json": []byte(`{"label": "y", "classes": 3}`), "empty.yaml": nil})
	got, err := ReadSchema(filepath.Join(dir, "schema.yaml"))
	if err != nil || !reflect.DeepEqual(got, peopleSchema) {
		t.Errorf("read %+v, %v; want %+v", got, err, peopleSchema)
	}
	got, err = ReadSchema(filepath.Join(dir, "count.json"))
	if want := (Schema{Label: "y", Classes: Classes{"0", "1", "2"}}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v; want %+v", got, err, want)
	}
	if got, err = ReadSchema(filepath.Join(dir, "empty.yaml")); err != nil || !got.empty() {
		t.Errorf("an empty file gave %+v, %v", got, err)
	}
	for want, text := range map[string]string{
		"lable":                   "lable: x",
		"twice":                   "classes: [a, a]",
		"vocabulary of column":    "vocabulary: {job: []}",
		"used in two ways":        "label: a\nignore: [a]",
		"less than the upper one": "bounds: {age: [5, 1]}",
		"both must be finite":     "bounds: {age: [0, .inf]}",
		"line 1: bounds: write it like bounds: {age: [0, 120]}": "bounds: {age: [0]}",
		"between 2 and 2^24":         "classes: 1",
		"an example needs between":   "length: 1048577",
		"is text, and other columns": "text: a\nvocabulary: {b: [c]}",
		"a label or classes":         "next: true\nlabel: a",
		"leave one out":              "next: true\nclasses: [a, b]",
	} {
		if _, err := parseSchema([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %v; want an error in one line with %q", text, err, want)
		}
	}
	// The error for an invalid schema shows an example.
	if _, err := parseSchema([]byte(SchemaExample)); err != nil {
		t.Errorf("%s: %v", SchemaExample, err)
	}
	for _, text := range []string{"lable: x", "nothing: x", "- a", "a: b: c"} {
		if _, err := parseSchema([]byte(text)); err == nil || !strings.HasSuffix(err.Error(), " like "+SchemaExample) {
			t.Errorf("%q: got %v", text, err)
		}
	}
	if _, err := ReadSchema(filepath.Join(dir, "none.yaml")); err == nil {
		t.Error("a schema was read from a missing file")
	}
}

func TestParseFlags_BoundsVocabularyClasses(t *testing.T) {
	bounds, err := ParseBounds("age=0:120, a=b=-1.5:1e3")
	if want := (map[string]Bounds{"age": {0, 120}, "a=b": {-1.5, 1000}}); err != nil || !reflect.DeepEqual(bounds, want) {
		t.Errorf("bounds %v, %v; want %v", bounds, err, want)
	}
	column, vocabulary, err := ParseVocabulary("sex=Female| Male")
	if err != nil || column != "sex" || !slices.Equal(vocabulary, []string{"Female", "Male"}) {
		t.Errorf("vocabulary of %q: %v, %v", column, vocabulary, err)
	}
	classes, err := ParseClasses("<=50K, >50K")
	if err != nil || !slices.Equal(classes, Classes{"<=50K", ">50K"}) {
		t.Errorf("classes %v, %v", classes, err)
	}
	for _, bad := range []string{"age", "age=1", "age=1:", "=1:2", "age=2:1", "age=0:Inf", "age=NaN:1", "age=x:120", "age=-1:x"} {
		if _, err := ParseBounds(bad); err == nil {
			t.Errorf("bounds %q were accepted", bad)
		}
	}
	for _, bad := range []string{"sex", "sex=", "=a|b", "sex=a|a"} {
		if _, _, err := ParseVocabulary(bad); err == nil {
			t.Errorf("vocabulary %q was accepted", bad)
		}
	}
	for _, bad := range []string{"", "one", "1", "0", "-3", "99999999999"} {
		if _, err := ParseClasses(bad); err == nil {
			t.Errorf("classes %q were accepted", bad)
		}
	}
}

func FuzzCSV(f *testing.F) {
	f.Add(people)
	f.Add("income,age\nlow,1\n")
	f.Add("income,age\nlow,\"1\n\"\n")
	for _, file := range []string{"id,age,job,income,gain,person\n,,,,,\n", "\xef\xbb\xbf\"", "income\r\n\r\n"} {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, text string) {
		set, _, err := readCSV(strings.NewReader(text), peopleSchema, rowPolicy{})
		if err != nil {
			return
		}
		table := set.(*Table)
		if err := checkAll(table); err != nil {
			t.Error(err)
		}
		for _, v := range table.values[0] {
			if v < -1 || v > 1 {
				t.Errorf("a feature is %v; want it within -1 and 1", v)
			}
		}
		if table.users == nil || table.columns[0].Size() != 5 {
			t.Errorf("%d users, %d features", len(table.users), table.columns[0].Size())
		}
	})
}

func TestSchema_ColumnIgnoredTwice(t *testing.T) {
	file := filepath.Join(writeFiles(t, map[string][]byte{"a.csv": []byte("id,age,income\n1,2,low\n")}), "a.csv")
	s := Schema{Label: "income", Classes: Classes{"low", "high"}, Bounds: map[string]Bounds{"age": {0, 100}}, Ignore: []string{"id", "id"}}
	if _, err := Open(file, Options{Schema: s}); err != nil {
		t.Error(err)
	}
}

// A column of weights is no feature. A cell that is not a number is NaN and causes no error; a row
// that cannot be read has a weight, too. Subsets and concatenations keep the weights.
func TestReadCSV_Weights(t *testing.T) {
	const file = "age,w,label\n1,0.5,a\n2,secret,b\n3,,a\n4,-2,secret\n5,1e999,b\n6,NaN,a\n"
	s := Schema{Label: "label", Classes: Classes{"a", "b"}, Bounds: map[string]Bounds{"age": {0, 10}}, Weight: "w"}
	for _, policy := range []rowPolicy{{private: true, blank: true}, {}} {
		text := file
		if !policy.blank {
			text = strings.Replace(file, "-2,secret", "-2,a", 1)
		}
		set, inputs, err := readCSV(strings.NewReader(text), s, policy)
		if err != nil {
			t.Fatal(err)
		}
		want := []float64{0.5, math.NaN(), math.NaN(), -2, math.Inf(1), math.NaN()}
		if policy.blank {
			want[3] = 0 // of the blank row
		}
		same := func(got, want []float64) bool {
			return slices.EqualFunc(got, want, func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) })
		}
		if !same(Weights(set), want) || !slices.Equal(inputs, []string{"age"}) || Check(set) != nil {
			t.Errorf("weights %v, want %v; inputs %v", Weights(set), want, inputs)
		}
		sub, err := Subset(set, []int{4, 0})
		if err != nil || !same(Weights(sub), []float64{want[4], want[0]}) {
			t.Errorf("a subset has the weights %v, %v", Weights(sub), err)
		}
		plain, _, err := readCSV(strings.NewReader("age,label\n1,a\n"), Schema{Label: s.Label, Classes: s.Classes, Bounds: s.Bounds}, policy)
		if err != nil || Weights(plain) != nil {
			t.Fatal(err)
		}
		both, err := Concat(plain, sub)
		if err != nil || !same(Weights(both), []float64{1, want[4], want[0]}) {
			t.Errorf("a concatenation has the weights %v, %v", Weights(both), err)
		}
	}
	s.Ignore = []string{"w"}
	if s.validate() == nil {
		t.Error("a column is ignored and the weight")
	}
	if _, err := WithWeights(&Table{length: 2}, []float64{1}); err == nil {
		t.Error("one weight for two examples")
	}
}

// The feature with a name is 1 for the row with that word, and a number has the feature of its column.
func TestSchema_FeatureNames(t *testing.T) {
	s := Schema{Label: "income", Classes: Classes{"low", "high"}, Bounds: map[string]Bounds{"age": {0, 100}}, Vocabulary: map[string][]string{"job": {"baker", "tailor"}}, Ignore: []string{"id"}}
	file := filepath.Join(writeFiles(t, map[string][]byte{"a.csv": []byte("job,id,income,age\nbaker,1,low,50\ntailor,2,low,100\nsmith,3,low,0\n")}), "a.csv")
	task, err := Open(file, Options{Schema: s})
	if err != nil {
		t.Fatal(err)
	}
	names := task.Schema.FeatureNames()
	dst := newBuffers(task.Train, 3)
	if err := task.Train.Read(dst, []int{0, 1, 2}); err != nil || len(dst[0]) != 3*len(names) {
		t.Fatalf("%v: %v, %v", names, dst, err)
	}
	for row, want := range []map[string]float32{{"job = baker": 1, "age": 0}, {"job = tailor": 1, "age": 1}, {"job = another word": 1, "age": -1}} {
		for i, name := range names {
			if got := dst[0][row*len(names)+i]; got != want[name] {
				t.Errorf("row %d: %s is %v, want %v", row, name, got, want[name])
			}
		}
	}
	if names := (Schema{Text: "note", Inputs: []string{"note"}}).FeatureNames(); names != nil {
		t.Errorf("text has features %v", names)
	}
}
