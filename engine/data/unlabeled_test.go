package data

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// readFeatures returns the features of all examples.
func readFeatures(t *testing.T, s Set) []float32 {
	t.Helper()
	rows := make([]int, s.Len())
	for i := range rows {
		rows[i] = i
	}
	b := newBuffers(s, s.Len())
	if err := s.Read(b, rows); err != nil {
		t.Fatal(err)
	}
	return b[0]
}

// Unlabeled examples have the same features as the training data, for every kind of file.
func TestOpenUnlabeled_ReadsLikeTrainingData(t *testing.T) {
	table := Schema{Label: "sick", Classes: Classes{"no", "yes"}, User: "who", Ignore: []string{"id"},
		Bounds: map[string]Bounds{"age": {0, 100}}, Vocabulary: map[string][]string{"job": {"baker"}}}
	text := Schema{Label: "sick", Classes: Classes{"no", "yes"}, Text: "note", Tokens: "bytes", Length: 4}
	classes := Schema{Classes: Classes{"0", "1"}}
	steps := Schema{Classes: Classes{"0", "1"}, Tokens: "9"}
	greys := encodeNPY("|u1", "False", "(2, 1, 1, 2)", byte(1), byte(2), byte(3), byte(255))
	ids := encodeNPY("<i4", "False", "(2, 2)", int32(1), int32(8), int32(3), int32(-1))
	y := encodeNPY("<i4", "False", "(2,)", int32(0), int32(1))
	dir := writeFiles(t, map[string][]byte{
		"kind.csv":            []byte("job,id,who,age,sick\nbaker,1,a,10,no\ntailor,2,b,200,yes\n"),
		"asked.csv":           []byte("age,more,job\n10,x,baker\n200,y,tailor\n"),
		"asked.jsonl":         []byte("{\"job\":\"baker\",\"age\":10,\"more\":[]}\n{\"age\":200,\"job\":\"spy\"}\n"),
		"text.jsonl":          []byte("{\"note\":\"be\",\"sick\":\"no\"}\n{\"note\":\"longer\",\"sick\":\"yes\"}\n"),
		"text.csv":            []byte("note\nbe\nlonger\n"),
		"text.txt":            []byte("be\n\nlonger"),
		"arrays/x_train.npy":  greys,
		"arrays/y_train.npy":  y,
		"greys.npy":           greys,
		"asked/x.npy":         greys,
		"steps/x_train.npy":   ids,
		"steps/y_train.npy":   y,
		"ids.npy":             ids,
		"ids.txt":             []byte("1 8\n3\n"),
		"trained/a/1.png":     encodePNG(t, colorPicture(2, 1)),
		"trained/b/1.png":     encodePNG(t, grayPicture(2, 1)),
		"pictures/1.png":      encodePNG(t, colorPicture(2, 1)),
		"pictures/2.PNG":      encodePNG(t, grayPicture(2, 1)),
		"pictures/.hidden":    nil,
		"pictures/.git/x.png": nil,
	})
	for kind, asked := range map[string][]string{
		"kind.csv":   {"kind.csv", "asked.csv", "asked.jsonl"},
		"text.jsonl": {"text.jsonl", "text.csv", "text.txt"},
		"arrays":     {"arrays", "greys.npy", "asked"},
		"steps":      {"steps", "ids.npy", "ids.txt"},
		"trained":    {"trained", "pictures"},
	} {
		o := Options{Schema: map[string]Schema{"kind.csv": table, "text.jsonl": text, "arrays": classes, "steps": steps}[kind]}
		if kind == "trained" {
			o.Image = ImageShape{3, 1, 2}
		}
		task, err := Open(filepath.Join(dir, kind), o)
		if err != nil {
			t.Fatal(err)
		}
		o.Schema = task.Schema
		want := readFeatures(t, task.Train)
		for _, name := range asked {
			q, err := OpenUnlabeled(filepath.Join(dir, name), o, TrainedInput{Name: kind, Shape: task.Train.Columns()[0].Shape})
			if err != nil {
				t.Errorf("%s like %s: %v", name, kind, err)
				continue
			}
			if c := q.Columns(); len(c) != 1 || c[0].Kind != task.Train.Columns()[0].Kind || c[0].Classes != task.Train.Columns()[0].Classes {
				t.Errorf("%s like %s: columns %v", name, kind, c)
			}
			got := readFeatures(t, q.Set)
			if q.Len() != 2 || !slices.Equal(got, want) {
				t.Errorf("%s like %s: %v, want %v", name, kind, got, want)
			}
		}
	}
	q, err := OpenUnlabeled(filepath.Join(dir, "pictures"), Options{}, TrainedInput{Shape: []int{3, 1, 2}})
	if err != nil || fmt.Sprint(q.Files) != "[1.png 2.PNG]" {
		t.Errorf("files %v, %v", q.Files, err)
	}
}

// Pixels are standardized like those of the training data.
func TestOpenUnlabeled_Standardized(t *testing.T) {
	dir := writeFiles(t, map[string][]byte{"a.png": encodePNG(t, grayPicture(2, 1))})
	kind := TrainedInput{Name: "mnist", Shape: []int{1, 1, 2}}
	plain, err := OpenUnlabeled(dir, Options{}, kind)
	if err != nil {
		t.Fatal(err)
	}
	q, err := OpenUnlabeled(dir, Options{Standardize: true}, kind)
	if err != nil {
		t.Fatal(err)
	}
	numbers := readFeatures(t, plain.Set)
	task, err := Open("mnist", Options{Dir: writeFiles(t, tinyMNIST()), Standardize: true})
	if err != nil {
		t.Fatal(err)
	}
	known, err := OpenUnlabeled("mnist", Options{Dir: writeFiles(t, tinyMNIST()), Standardize: true}, TrainedInput{Name: "mnist", Shape: task.Test.Columns()[0].Shape})
	if err != nil || !slices.Equal(readFeatures(t, known.Set), readFeatures(t, task.Test)) {
		t.Errorf("the data set itself: %v", err)
	}
	for i, v := range numbers {
		if got, want := readFeatures(t, q.Set)[i], (v-0.1307)/0.3081; got < want-1e-6 || got > want+1e-6 {
			t.Errorf("pixel %d: %v, want %v", i, got, want)
		}
	}
}

func TestOpenUnlabeled_WrongKind(t *testing.T) {
	dir := writeFiles(t, map[string][]byte{
		"a.csv": []byte("age\n1\n"), "a.txt": []byte("a\n"), "a.png": encodePNG(t, grayPicture(2, 1)), "a.npy": encodeNPY("<f4", "False", "(1, 2)", float32(1), float32(2)),
		"empty/.keep": nil, "pages/a.pdf": nil, "damaged.png": []byte("\x89PNG"),
	})
	archive := filepath.Join(dir, "a.npz")
	if err := os.Rename(writeZip(t, map[string][]byte{"y.npy": encodeNPY("<i4", "False", "(1,)", int32(1))}), archive); err != nil {
		t.Fatal(err)
	}
	numbers := Schema{Bounds: map[string]Bounds{"age": {0, 1}}}
	picture := []int{1, 1, 2}
	for _, c := range []struct {
		name   string
		schema Schema
		shape  []int
		want   string
	}{
		{"a.csv", Schema{}, picture, "has columns"},
		{"a.csv", Schema{Tokens: "bytes", Length: 2}, []int{2}, "has columns"},
		{"a.csv", numbers, []int{2}, "shape [1]"},
		{"a.txt", numbers, []int{1}, "plain text"},
		{"a.png", numbers, []int{1}, "is a picture"},
		{"a.png", Schema{}, []int{2, 1, 2}, "is a picture"},
		{"damaged.png", Schema{}, picture, "damaged.png"},
		{"a.npy", numbers, []int{1}, "is an array"},
		{"a.npy", Schema{Text: "a", Tokens: "bytes", Length: 2}, []int{2}, "is an array"},
		{"a.npy", Schema{Tokens: "9"}, []int{2}, "whole numbers"},
		{"a.npy", Schema{}, picture, "shape [2]"},
		{"empty", Schema{}, picture, "no pictures"},
		{"pages", Schema{}, picture, "neither a .png nor a .jpg file"},
		{archive, Schema{}, picture, "no array x"},
		{"nowhere", Schema{}, picture, "nor an existing path"},
		{"remarks", Schema{}, picture, "shape [16]"},
	} {
		name := c.name
		if name != archive && name != "remarks" {
			name = filepath.Join(dir, name)
		}
		if _, err := OpenUnlabeled(name, Options{Schema: c.schema}, TrainedInput{Shape: c.shape}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// A target is not a feature, so its column need not exist.
func TestOpenUnlabeled_WithoutTarget(t *testing.T) {
	dir := writeFiles(t, map[string][]byte{
		"kind.csv":           []byte("hours,age\n1,10\n2,20\n"),
		"asked.csv":          []byte("age\n10\n20\n"),
		"arrays/x_train.npy": encodeNPY("<f4", "False", "(2, 1)", float32(-0.5), float32(1)),
		"arrays/y_train.npy": encodeNPY("<f4", "False", "(2,)", float32(1), float32(2)),
	})
	table := Schema{Target: "hours", Bounds: map[string]Bounds{"hours": {0, 9}, "age": {0, 40}}}
	for name, s := range map[string]Schema{"kind.csv": table, "asked.csv": table, "arrays": {Target: "y", Bounds: map[string]Bounds{"y": {0, 9}}}} {
		q, err := OpenUnlabeled(filepath.Join(dir, name), Options{Schema: s}, TrainedInput{Shape: []int{1}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := readFeatures(t, q.Set); len(q.Columns()) != 1 || len(got) != 2 || got[0] != -0.5 {
			t.Errorf("%s: %v", name, got)
		}
	}
}
