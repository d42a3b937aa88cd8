package data

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSplitWords_Examples(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "",
		"  \t\n":                    "",
		"It isn't 3.5%!":            "it isn't 3 . 5 % !",
		"Ärger—naïve\u0301 čaj":     "ärger — naïve\u0301 čaj",
		"a\xffb":                    "a \ufffd b",
		"日本語。":                      "日本語 。",
		"tab\tand,comma":            "tab and , comma",
		"in 1984, r2d2":             "in 1984 , r2d2",
		"trailing word, then done.": "trailing word , then done .",
	} {
		if got := strings.Join(slices.Collect(splitWords(text)), " "); got != want {
			t.Errorf("%q is split into %q; want %q", text, got, want)
		}
	}
}

// A tokenizer cuts a text, pads it and adds the next indices as labels.
func TestTokenizer_Examples(t *testing.T) {
	vocabulary := []string{"the", "cat", "sat"}
	for _, c := range []struct {
		schema           Schema
		text             string
		features, labels []float32
		classes          int
	}{
		{Schema{Tokens: "bytes", Length: 4}, "ab", []float32{97, 98, -1, -1}, nil, 256},
		{Schema{Tokens: "bytes", Length: 4}, "abcdef", []float32{97, 98, 99, 100}, nil, 256},
		{Schema{Tokens: "bytes", Length: 4}, "", []float32{-1, -1, -1, -1}, nil, 256},
		{Schema{Tokens: "bytes", Length: 4, PredictNext: true}, "ab", []float32{10, 97, 98, -1}, []float32{97, 98, 10, -1}, 256},
		{Schema{Tokens: "bytes", Length: 4, PredictNext: true}, "abc", []float32{10, 97, 98, 99}, []float32{97, 98, 99, 10}, 256},
		{Schema{Tokens: "bytes", Length: 4, PredictNext: true}, "abcdef", []float32{10, 97, 98, 99}, []float32{97, 98, 99, 100}, 256},
		{Schema{Tokens: "bytes", Length: 4, PredictNext: true}, "", []float32{10, -1, -1, -1}, []float32{10, -1, -1, -1}, 256},
		{Schema{Tokens: "words", Words: vocabulary, Length: 4}, "The dog sat.", []float32{0, 3, 2, 3}, nil, 4},
		{Schema{Tokens: "words", Words: vocabulary, Length: 4, PredictNext: true}, "the cat", []float32{4, 0, 1, -1}, []float32{0, 1, 4, -1}, 5},
		{Schema{Tokens: "ngrams:32768", Length: 6}, "The film, THE!", []float32{32768, 11505, 28678, 3456, 21002, 15906}, nil, 32769},
		{Schema{Tokens: "ngrams", Length: 3}, "so it is", []float32{32768, -1, -1}, nil, 32769},
		{Schema{Tokens: "9", Length: 3}, "8 0", []float32{8, 0, -1}, nil, 9},
		{Schema{Tokens: "9", Length: 3}, "8 -1 1 2", []float32{8, -1, 1}, nil, 9},
		{Schema{Tokens: "9", Length: 3, PredictNext: true}, "8 0 1 2 3", []float32{8, 0, 1}, []float32{0, 1, 2}, 9},
		{Schema{Tokens: "9", Length: 3, PredictNext: true}, "8", []float32{-1, -1, -1}, []float32{-1, -1, -1}, 9},
		{Schema{Tokens: "9", Length: 3, PredictNext: true}, "", []float32{-1, -1, -1}, []float32{-1, -1, -1}, 9},
	} {
		tok, err := c.schema.tokenizer()
		if err != nil {
			t.Fatal(err)
		}
		rows := exampleReader{rowLayout: textLayout(tok)}
		if !c.schema.PredictNext {
			rows.labels.last, c.labels = []float32{1}, []float32{1}
		}
		if _, err := rows.add([]string{c.text}); err != nil {
			t.Fatal(err)
		}
		set, err := rows.set(Schema{Label: "y", Classes: Classes{"a", "b"}})
		if err != nil {
			t.Fatal(err)
		}
		dst := newBuffers(set, 1)
		if err := set.Read(dst, []int{0}); err != nil || !slices.Equal(dst[0], c.features) || !slices.Equal(dst[1], c.labels) || tok.count != c.classes {
			t.Errorf("%+v: %q gives %v of %d (%v); want %v, %v of %d", c.schema, c.text, dst, tok.count, err, c.features, c.labels, c.classes)
		}
	}
	for _, bad := range []string{"9", "-2", "1.0", "zz", "1,2"} {
		tok, _ := Schema{Tokens: "9", Length: 3}.tokenizer()
		if _, err := tok.add(nil, "0 "+bad); err == nil || strings.Contains(err.Error(), bad) && bad != "9" && bad != "-2" {
			t.Errorf("index %q: %v", bad, err)
		}
	}
}

func TestSetTokens_Invalid(t *testing.T) {
	dir := writeFiles(t, map[string][]byte{
		"good.txt":  []byte("\ufeffthe\r\n cat \n\nisn't\n!\n"),
		"empty.txt": []byte("\n\n"),
		"twice.txt": []byte("a\nb\na\n"),
		"upper.txt": []byte("Cat\n"),
		"two.txt":   []byte("two words\n"),
	})
	var s Schema
	if err := s.SetTokens("words:" + filepath.Join(dir, "good.txt")); err != nil || s.Tokens != "words" || !slices.Equal(s.Words, []string{"the", "cat", "isn't", "!"}) {
		t.Errorf("tokens %q, words %q, %v", s.Tokens, s.Words, err)
	}
	for bad, want := range map[string]string{
		"words":           "words:FILE",
		"words:":          "words:FILE",
		"vectors":         "vectors:FILE",
		"vectors:":        "vectors:FILE",
		"vectors:/none":   "no such file",
		"ngrams:":         "ngrams:BUCKETS",
		"ngrams:1":        "from 2 to",
		"ngrams:16777216": "from 2 to",
		"ngramsx":         "write ngrams",
		"words:" + filepath.Join(dir, "empty.txt"): "no words",
		"words:" + filepath.Join(dir, "twice.txt"): `"a" twice`,
		"words:" + filepath.Join(dir, "upper.txt"): "lower case",
		"words:" + filepath.Join(dir, "two.txt"):   `split into ["two" "words"]`,
		"byte":                                     "write ngrams, bytes",
		"1":                                        "from 2 to 2^24",
		"0x10":                                     "write ngrams, bytes",
		"16777217":                                 "2^24",
	} {
		if err := s.SetTokens(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("tokens %q: %v; want %q", bad, err, want)
		}
	}
	if err := s.SetTokens("words:" + filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "none") {
		t.Errorf("%v does not contain the name of the missing file", err)
	}
}

const reviews = `{"stars": 5, "text": "Warm soup.", "who": "ann", "id": 1}

{"text": "cold\tsoup", "stars": 1, "who": "bob", "id": {"a": [1, "x"]}}
{"text": null, "stars": 1, "who": "ann"}
`

var reviewSchema = Schema{Label: "stars", Classes: Classes{"1", "5"}, Text: "text", Tokens: "words",
	Words: []string{"soup", "cold"}, Length: 3, Ignore: []string{"id"}, User: "who"}

func TestReadJSONL_BySchema(t *testing.T) {
	dir := writeFiles(t, map[string][]byte{
		"a.jsonl":    []byte("\ufeff" + reviews),
		"b.jsonl.gz": gzipped(t, []byte(reviews)),
		"c.jsonl":    []byte(`{"n": [3, 0, -1], "y": true, "x": 1e2}`),
	})
	task, err := Open(filepath.Join(dir, "a.jsonl"), Options{Schema: reviewSchema, Test: filepath.Join(dir, "b.jsonl.gz")})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Set{task.Train, task.Test} {
		dst := newBuffers(s, 3)
		if err := s.Read(dst, []int{0, 1, 2}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(dst[0], []float32{2, 0, 2, 1, 0, -1, -1, -1, -1}) || !slices.Equal(dst[1], []float32{1, 0, 0}) || !slices.Equal(Users(s), []int32{0, 1, 0}) {
			t.Errorf("features %v, labels %v, users %v", dst[0], dst[1], Users(s))
		}
		if c := s.Columns()[0]; c.Kind != Index || c.Classes != 3 {
			t.Errorf("column %+v", c)
		}
	}
	if task.Classes != 2 || !task.Private || task.Schema.Tokens != "words" {
		t.Errorf("task %+v", task)
	}

	task, err = Open(filepath.Join(dir, "c.jsonl"), Options{Schema: Schema{Label: "y", Classes: Classes{"false", "true"}, Text: "n", Tokens: "4", Length: 3, Ignore: []string{"x"}}})
	if err != nil {
		t.Fatal(err)
	}
	dst := newBuffers(task.Train, 1)
	if err := task.Train.Read(dst, []int{0}); err != nil || !slices.Equal(dst[0], []float32{3, 0, -1}) || dst[1][0] != 1 {
		t.Errorf("%v, %v", dst, err)
	}
	task, err = Open(filepath.Join(dir, "c.jsonl"), Options{Schema: Schema{Label: "y", Classes: Classes{"false", "true"}, Bounds: map[string]Bounds{"x": {0, 200}}, Ignore: []string{"n"}}})
	if err != nil {
		t.Fatal(err)
	}
	dst = newBuffers(task.Train, 1)
	if err := task.Train.Read(dst, []int{0}); err != nil || dst[0][0] != 0 {
		t.Errorf("%v, %v", dst, err)
	}
}

// Errors must not reveal private values: each of these files has the value "secret".
func TestReadJSONL_ErrorsShowNoValues(t *testing.T) {
	base := Schema{Label: "y", Classes: Classes{"a", "b"}, Text: "text", Tokens: "bytes", Length: 4}
	with := func(change func(*Schema)) Schema {
		s := base
		change(&s)
		return s
	}
	const row = `{"text": "secret", "y": "a"}` + "\n"
	for _, c := range []struct {
		want, text string
		schema     Schema
	}{
		{"no rows", "\n\n", base},
		{"line 2 is not a JSON object", row + "[\"secret\"]\n", base},
		{"line 2 is not a JSON object", row + "null\n", base},
		{"line 1 is not a JSON object", `{"text": "secret", "y": "a"} {}`, base},
		{"line 2 is not a JSON object", row + `{"text": "secret", "y": "a",}`, base},
		{"line 2 is not a JSON object", row + `{"text": "secret", "y": "a"`, base},
		{"line 2 is not a JSON object", row + `{"text": "secret", 1: "a"}`, base},
		{`line 2 has the key "y" twice`, row + `{"y": "b", "text": "secret", "y": "a"}`, base},
		{"UTF-16", "\xff\xfe{\x00}\x00", base},
		{`line 2 has no key "y"`, row + `{"text": "secret"}`, base},
		{`line 2 has a key that the schema does not know, key number 3`, row + `{"text": "secret", "y": "a", "yy": 1}`, base},
		{`line 1, key "y": the label is not one of the 2`, `{"text": "x", "y": "secret"}`, base},
		{`line 1, key "text": the value is neither a text`, `{"text": {"secret": 1}, "y": "a"}`, base},
		{`line 1, key "text": the value is neither a text`, `{"text": [1, "secret"], "y": "a"}`, base},
		{`line 1, key "text": the value is neither a text`, `{"text": [1, null, 2], "y": "a"}`, base},
		{`line 1, key "text": an index`, `{"text": "1 secret", "y": "a"}`, with(func(s *Schema) { s.Tokens = "7" })},
		{"length", row, with(func(s *Schema) { s.Length = 0 })},
		{"length -1", row, with(func(s *Schema) { s.Length = -1 })},
		{"a network reads either indices or numbers", row, with(func(s *Schema) { s.Bounds = map[string]Bounds{"z": {0, 1}} })},
		{"leave one out", row, with(func(s *Schema) { s.PredictNext = true })},
		{"label", row, with(func(s *Schema) { s.Label, s.Classes = "", nil })},
		{"text", row, with(func(s *Schema) { s.Text = "" })},
		{"used in two ways", row, with(func(s *Schema) { s.User = "text" })},
		{"words are given", row, with(func(s *Schema) { s.Words = []string{"a"} })},
	} {
		file := filepath.Join(writeFiles(t, map[string][]byte{"rows.jsonl": []byte(c.text)}), "rows.jsonl")
		checkOpenError(t, file, Options{Schema: c.schema}, c.want)
		if _, err := Open(file, Options{Schema: c.schema}); err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows a value: %v", err)
		}
	}
}

// A truncated file is an error and not a shorter file. The length of a line is limited.
func TestEachLine_TruncatedFiles(t *testing.T) {
	const cut = 4 // bytes of the checksum
	dir := writeFiles(t, map[string][]byte{
		"a.jsonl.gz": gzipped(t, []byte(reviews))[:len(gzipped(t, []byte(reviews)))-cut],
		"a.csv.gz":   gzipped(t, []byte(people))[:len(gzipped(t, []byte(people)))-cut],
	})
	checkOpenError(t, filepath.Join(dir, "a.jsonl.gz"), Options{Schema: reviewSchema}, "unexpected EOF")
	checkOpenError(t, filepath.Join(dir, "a.csv.gz"), Options{Schema: peopleSchema}, "unexpected EOF")
	const limit = 100000
	var long []bool
	text := "\n" + strings.Repeat("a", limit+1) + "\nb\n" + strings.Repeat("c", 3*limit)
	err := eachLine(strings.NewReader(text), limit, func(number int, line []byte, isLong bool, problem error) error {
		if len(line) > limit || number != len(long)+2 {
			t.Errorf("line %d has %d bytes", number, len(line))
		}
		long = append(long, isLong)
		return problem
	})
	if err != nil || !slices.Equal(long, []bool{true, false, true}) {
		t.Errorf("long lines %v, %v", long, err)
	}
}

func TestReadCSV_TextAndIndices(t *testing.T) {
	dir := writeFiles(t, map[string][]byte{
		"rows.csv": []byte("id,review,y\n1,\"so, so\",a\n2,,b\n"),
		"ids.csv":  []byte("tokens\n1 2 3\n4\n"),
	})
	task, err := Open(filepath.Join(dir, "rows.csv"), Options{Schema: Schema{Label: "y", Classes: Classes{"a", "b"}, Text: "review", Tokens: "bytes", Length: 3, Ignore: []string{"id"}}})
	if err != nil {
		t.Fatal(err)
	}
	dst := newBuffers(task.Train, 2)
	if err := task.Train.Read(dst, []int{0, 1}); err != nil || !slices.Equal(dst[0], []float32{'s', 'o', ',', -1, -1, -1}) || !slices.Equal(dst[1], []float32{0, 1}) {
		t.Errorf("%v, %v", dst, err)
	}
	task, err = Open(filepath.Join(dir, "ids.csv"), Options{Schema: Schema{PredictNext: true, Text: "tokens", Tokens: "5", Length: 2}})
	if err != nil {
		t.Fatal(err)
	}
	dst = newBuffers(task.Train, 2)
	if err := task.Train.Read(dst, []int{0, 1}); err != nil || !slices.Equal(dst[0], []float32{1, 2, -1, -1}) || !slices.Equal(dst[1], []float32{2, 3, -1, -1}) || task.Classes != 5 {
		t.Errorf("%v, %d classes, %v", dst, task.Classes, err)
	}
	checkOpenError(t, filepath.Join(dir, "ids.csv"), Options{Schema: Schema{PredictNext: true, Text: "token", Tokens: "5", Length: 2}}, `did you mean the name of column 1?`)
	checkOpenError(t, filepath.Join(dir, "ids.csv"), Options{Schema: Schema{PredictNext: true, Tokens: "5", Length: 2}}, "text")
}

func TestReadText_Examples(t *testing.T) {
	dir := writeFiles(t, map[string][]byte{"a.txt": []byte("ab\r\n\n  c\n"), "none.txt": []byte("\r\n\n"), "wide.txt": []byte("\xfe\xff\x00a\x00\n")})
	file := filepath.Join(dir, "a.txt")
	task, err := Open(file, Options{Schema: Schema{Tokens: "bytes", Length: 3}, Test: file})
	if err != nil {
		t.Fatal(err)
	}
	dst := newBuffers(task.Test, 2)
	if err := task.Test.Read(dst, []int{0, 1}); err != nil || task.Train.Len() != 2 ||
		!slices.Equal(dst[0], []float32{10, 'a', 'b', 10, 'c', -1}) || !slices.Equal(dst[1], []float32{'a', 'b', 10, 'c', 10, -1}) {
		t.Errorf("%d examples, %v, %v", task.Train.Len(), dst, err)
	}
	checkOpenError(t, file, Options{}, "tokens")
	checkOpenError(t, file, Options{Schema: Schema{Tokens: "bytes"}}, "length")
	checkOpenError(t, file, Options{Schema: Schema{Tokens: "bytes", Length: 3, Label: "y"}}, "no columns")
	checkOpenError(t, file, Options{Schema: Schema{Tokens: "bytes", Length: 3, Classes: Classes{"a", "b"}}}, "no columns")
	checkOpenError(t, filepath.Join(dir, "none.txt"), Options{Schema: Schema{Tokens: "bytes", Length: 3}}, "no lines")
	checkOpenError(t, filepath.Join(dir, "wide.txt"), Options{Schema: Schema{Tokens: "bytes", Length: 3}}, "UTF-16")
}

func TestOpenArrays_Indices(t *testing.T) {
	x := encodeNPY("<i4", "False", "(2, 3)", []int32{1, 2, -1, 4, 0, 3})
	y := encodeNPY("<i8", "False", "(2,)", []int64{0, 1})
	each := encodeNPY("<i8", "False", "(2, 3)", []int64{0, 1, -1, 1, 1, 1})
	open := func(files map[string][]byte, s Schema) ([][]float32, *Task, error) {
		task, err := Open(writeZip(t, files), Options{Schema: s, OnBadRow: FailOnBadRow})
		if err != nil {
			return nil, nil, err
		}
		dst := newBuffers(task.Train, 2)
		return dst, task, task.Train.Read(dst, []int{0, 1})
	}
	two := Classes{"a", "b"}
	dst, task, err := open(map[string][]byte{arrayTrainX: x, arrayTrainY: y}, Schema{Classes: two, Tokens: "5"})
	if err != nil || !slices.Equal(dst[0], []float32{1, 2, -1, 4, 0, 3}) || task.Train.Columns()[0].Kind != Index || task.Train.Columns()[0].Classes != 5 {
		t.Errorf("%v, %v", dst, err)
	}
	dst, task, err = open(map[string][]byte{arrayTrainX: x, arrayTrainY: each}, Schema{Classes: two, Tokens: "5"})
	if err != nil || !slices.Equal(dst[1], []float32{0, 1, -1, 1, 1, 1}) || !slices.Equal(task.Train.Columns()[1].Shape, []int{3}) {
		t.Errorf("%v, %v", dst, err)
	}
	dst, task, err = open(map[string][]byte{arrayTrainX: x}, Schema{Tokens: "5", PredictNext: true})
	if err != nil || !slices.Equal(dst[0], []float32{1, 2, 4, 0}) || !slices.Equal(dst[1], []float32{2, -1, 0, 3}) || task.Classes != 5 {
		t.Errorf("%v, %v", dst, err)
	}
	for _, c := range []struct {
		want  string
		files map[string][]byte
		s     Schema
	}{
		{"not a whole number from 0 to 3", map[string][]byte{arrayTrainX: x, arrayTrainY: y}, Schema{Classes: two, Tokens: "4"}},
		{"arrays do not contain text", map[string][]byte{arrayTrainX: x, arrayTrainY: y}, Schema{Classes: two, Tokens: "bytes"}},
		{"leave out length", map[string][]byte{arrayTrainX: x, arrayTrainY: y}, Schema{Classes: two, Tokens: "5", Length: 3}},
		{"tokens", map[string][]byte{arrayTrainX: x}, Schema{PredictNext: true}},
		{"2 examples need the same number of labels", map[string][]byte{arrayTrainX: x, arrayTrainY: each}, Schema{Classes: two}},
		{"[examples, length]", map[string][]byte{arrayTrainX: y, arrayTrainY: y}, Schema{Classes: two, Tokens: "5"}},
		{"[examples, length]", map[string][]byte{arrayTrainX: encodeNPY("<f4", "False", "(2, 3)", make([]float32, 6)), arrayTrainY: y}, Schema{Classes: two, Tokens: "5"}},
		{"at least two", map[string][]byte{arrayTrainX: encodeNPY("<i4", "False", "(2, 1)", []int32{1, 2})}, Schema{Tokens: "5", PredictNext: true}},
		{"no named columns", map[string][]byte{arrayTrainX: x, arrayTrainY: y}, Schema{Classes: two, Tokens: "5", Text: "x"}},
		// A label of the whole example must not be padding.
		{"not a whole number from 0 to 1", map[string][]byte{arrayTrainX: x, arrayTrainY: encodeNPY("<i8", "False", "(2,)", []int64{0, -1})}, Schema{Classes: two, Tokens: "5"}},
	} {
		if _, _, err := open(c.files, c.s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v; want %q", err, c.want)
		}
	}
}

// Remarks are the same on every call, and fit their vocabulary and length. The grammar
// determines the label of each, and counting words gives a wrong label for some.
func TestRemarks_VocabularyAndLabels(t *testing.T) {
	task, err := Open("remarks", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if task.Private || task.Train.Len() != remarksTrain || task.Test.Len() != remarksTest {
		t.Errorf("private %v, %d + %d", task.Private, task.Train.Len(), task.Test.Len())
	}
	texts, labels := generateRemarks()
	tok, err := task.Schema.tokenizer()
	if err != nil {
		t.Fatal(err)
	}
	for at, s := range map[int]Set{0: task.Train, remarksTrain: task.Test} {
		last := s.Len() - 1
		dst := newBuffers(s, 1)
		if err := s.Read(dst, []int{last}); err != nil {
			t.Fatal(err)
		}
		if want, err := tok.add(nil, texts[at+last]); err != nil || !slices.Equal(dst[0][:len(want)], want) || dst[0][len(want)] != Pad || dst[1][0] != labels[at+last] {
			t.Errorf("example %d is %v, %v; want %v, %v", last, dst[0], dst[1], want, labels[at+last])
		}
	}
	longest, kinds, fooled := 0, 0., 0
	for i, text := range texts {
		words := slices.Collect(splitWords(text))
		longest = max(longest, len(words)+2)
		kinds += float64(labels[i])
		mood := 0
		for j := len(words) - 1; j >= 0 && mood == 0; j-- {
			switch {
			case slices.Contains(remarkGood, words[j]):
				mood = 1
			case slices.Contains(remarkBad, words[j]):
				mood = -1
			case !slices.Contains(remarkWords, words[j]):
				t.Fatalf("%q has a word that is not in the vocabulary", text)
			}
			if mood != 0 && slices.Contains(remarkNegations, words[j-1]) {
				mood = -mood
			}
		}
		if (mood > 0) != (labels[i] == 1) {
			t.Fatalf("%q has the label %v", text, labels[i])
		}
		count := 0
		for _, w := range words {
			if slices.Contains(remarkGood, w) {
				count++
			}
			if slices.Contains(remarkBad, w) {
				count--
			}
		}
		if count == 0 || (count > 0) != (labels[i] == 1) {
			fooled++
		}
	}
	if longest != remarkLength || kinds < 0.48*float64(len(texts)) || kinds > 0.52*float64(len(texts)) || fooled < len(texts)/4 {
		t.Errorf("longest %d, %v kind, %d with a wrong label by counting words, of %d", longest, kinds, fooled, len(texts))
	}
	if c := task.Train.Columns()[0]; c.Classes != len(remarkWords)+1 || c.Size() != remarkLength {
		t.Errorf("%+v", c)
	}
	task, err = Open("remarks", Options{Schema: Schema{Tokens: "bytes", Length: 40, PredictNext: true}})
	if err != nil || task.Classes != 256 || task.Train.Columns()[1].Size() != 40 || task.ClassNames != nil {
		t.Errorf("%+v, %v", task, err)
	}
	for want, o := range map[string]Options{
		"length":       {Schema: Schema{Tokens: "bytes"}},
		"at most 1024": {Schema: Schema{Length: 1025}},
		"only tokens":  {Schema: Schema{Label: "y"}},
		"published":    {Standardize: true},
	} {
		checkOpenError(t, "remarks", o, want)
	}
}

func FuzzJSONL(f *testing.F) {
	f.Add(reviews)
	f.Add(`{"stars":1,"text":[1,2],"who":0}`)
	f.Add("{\"text\":\"\\ud800\",\"stars\":\"5\",\"who\":\"x\"}\n{")
	f.Fuzz(func(t *testing.T, text string) {
		table, _, err := readJSONL(strings.NewReader(text), reviewSchema, rowPolicy{})
		if err != nil {
			return
		}
		if err := checkAll(table); err != nil {
			t.Error(err)
		}
		if Users(table) == nil || table.Columns()[0].Size() != 3 {
			t.Errorf("%d users, %d indices", len(Users(table)), table.Columns()[0].Size())
		}
	})
}

func FuzzText(f *testing.F) {
	f.Add("To be, or\nnot to be\n", 5, true)
	f.Add("\xff\x00", 1, false)
	f.Fuzz(func(t *testing.T, text string, length int, bytes bool) {
		s := Schema{Tokens: "words", Words: []string{"to", "be"}, Length: 1 + int(uint(length)%50), PredictNext: true}
		if bytes {
			s.Tokens, s.Words = "bytes", nil
		}
		table, _, err := readText(strings.NewReader(text), s, rowPolicy{})
		if err != nil {
			return
		}
		if err := checkAll(table); err != nil {
			t.Error(err)
		}
		// The label of each step is the index of the next step.
		rows := make([]int, table.Len())
		for i := range rows {
			rows[i] = i
		}
		dst := newBuffers(table, len(rows))
		if err := table.Read(dst, rows); err != nil {
			t.Fatal(err)
		}
		x, y := dst[0], dst[1]
		for i := range x {
			if (x[i] == Pad) != (y[i] == Pad) || (i+1)%s.Length != 0 && x[i+1] != Pad && y[i] != x[i+1] {
				t.Fatalf("step %d of %v, %v", i, x, y)
			}
		}
	})
}

func FuzzSchema(f *testing.F) {
	f.Add("label: income\nclasses: [low, high]\nbounds:\n  age: [0, 100]\nvocabulary:\n  job: [baker]\nignore: [id]\nuser: who\n")
	f.Add("text: t\ntokens: bytes\nlength: 9\nnext: true\n")
	f.Add("classes: 3\nlabel: &a y\nuser: *a\n")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "words:") {
			return // such a schema reads files
		}
		s, err := parseSchema([]byte(text))
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("the error has several lines: %v", err)
			}
			return
		}
		if err := s.validate(); err != nil {
			t.Errorf("the parsed schema is invalid: %v", err)
		}
	})
}
