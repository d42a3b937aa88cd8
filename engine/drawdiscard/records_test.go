package drawdiscard

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/engine/data"
)

func openTable(t *testing.T, text string, s data.Schema) *data.Task {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mine.csv")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	task, err := data.Open(path, data.Options{Schema: s})
	if err != nil {
		t.Fatal(err)
	}
	return task
}

var tableSchema = data.Schema{
	Label: "clicked", Classes: data.Classes{"no", "yes"},
	Bounds:     map[string]data.Bounds{"age": {0, 100}, "visits": {-10, 10}},
	Vocabulary: map[string][]string{"colour": {"red", "blue"}},
}

// Numbers are scaled by their bounds and words become a one-hot encoding, for any order of
// the columns; rows that cannot be read are left out.
func TestLoadRecords_ScalesToUnitInterval(t *testing.T) {
	const text = "age,colour,clicked,visits\n25,blue,yes,0\n200,green,no,-10\n50,red,perhaps,5\n100,red,no,10\n"
	r, err := LoadRecords(openTable(t, text, tableSchema), Spec{Model: "logistic", Inputs: Shape{6}, Classes: 2})
	if err != nil {
		t.Fatal(err)
	}
	want := Records{[]float32{
		0.25, 0, 1, 0, 0, 0.5,
		1, 0, 0, 1, 0, 0,
		1, 1, 0, 0, 0, 1,
	}, []float32{1, 0, 0}}
	if !slices.Equal(r.Features, want.Features) || !slices.Equal(r.Labels, want.Labels) {
		t.Errorf("records %v, want %v", r, want)
	}
}

// A linear model reads the scaled target, and a Poisson model the count itself.
func TestLoadRecords_Targets(t *testing.T) {
	s := data.Schema{Target: "count", Bounds: map[string]data.Bounds{"age": {0, 100}, "count": {0, 8}}}
	task := openTable(t, "age,count\n50,2\n100,8\n0,9\n", s)
	linear, err := LoadRecords(task, Spec{Model: "linear", Inputs: Shape{1}})
	if err != nil {
		t.Fatal(err)
	}
	poisson, err := LoadRecords(task, Spec{Model: "poisson", Inputs: Shape{1}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []float32{-0.5, 1, 1}; !slices.Equal(linear.Labels, want) {
		t.Errorf("linear: %v, want %v", linear.Labels, want)
	}
	if want := []float32{2, 8, 8}; !slices.Equal(poisson.Labels, want) {
		t.Errorf("poisson: %v, want %v", poisson.Labels, want)
	}
}

func TestLoadRecords_Pictures(t *testing.T) {
	task, err := data.Open("digits", data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := LoadRecords(task, Spec{Model: "multinomial", Inputs: Shape{task.Train.Columns()[0].Size()}, Classes: 10})
	if err != nil {
		t.Fatal(err)
	}
	if low, high := slices.Min(r.Features), slices.Max(r.Features); low != 0 || high < 0.9 || high > 1 || len(r.Labels) != task.Train.Len() {
		t.Errorf("features from %v to %v, %d records", low, high, len(r.Labels))
	}
}

// Errors name sizes, which are public, and no value.
func TestLoadRecords_RejectsOtherModels(t *testing.T) {
	task := openTable(t, "age,colour,clicked,visits\n25,blue,yes,0\n", tableSchema)
	for _, s := range []Spec{
		{Model: "logistic", Inputs: Shape{4}, Classes: 2}, {Model: "multinomial", Inputs: Shape{5}, Classes: 3},
		{Model: "linear", Inputs: Shape{5}}, {Model: "embbag", Inputs: Shape{5}, Classes: 2, Vocabulary: 7},
	} {
		if _, err := LoadRecords(task, s); err == nil || strings.Contains(err.Error(), "25") {
			t.Errorf("%+v: error %v", s, err)
		}
	}
	negative := openTable(t, "age,count\n50,2\n", data.Schema{Target: "count", Bounds: map[string]data.Bounds{"age": {0, 100}, "count": {-1, 8}}})
	if _, err := LoadRecords(negative, Spec{Model: "poisson", Inputs: Shape{1}}); err == nil {
		t.Error("counts below 0: no error")
	}
}
