package data

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// hours is a table with a target and columns of every kind.
var hours = Schema{
	Target:     "hours",
	Bounds:     map[string]Bounds{"age": {0, 100}, "hours": {10, 50}},
	Vocabulary: map[string][]string{"job": {"baker"}},
	User:       "person",
}

// A target is scaled and clipped by its bounds like a feature, and it is not a feature.
// Unscale inverts the scaling.
func TestOpen_Targets(t *testing.T) {
	text := Schema{Target: "hours", Bounds: map[string]Bounds{"hours": {10, 50}}, Text: "note", Tokens: "bytes", Length: 2, Ignore: []string{"job", "person", "age"}}
	dir := writeFiles(t, map[string][]byte{
		"t.csv":    []byte("age,hours,job,person,note\n25,30,baker,a,x\n50,-7,spy,b,yz\n100,1e400,spy,a,\n"),
		"t.jsonl":  []byte(`{"hours":30,"age":25,"job":"baker","person":"a","note":"x"}` + "\n" + `{"hours":"-7","age":50,"job":"spy","person":"b","note":"yz"}` + "\n" + `{"hours":1e400,"age":100,"job":"spy","person":"a","note":""}`),
		"test.csv": []byte("hours,age,job,person,note\n40,0,spy,a,x\n"),
		// A target in arrays has bounds, like a target in a table.
		"arrays/x_train.npy": encodeNPY("<f4", "False", "(3, 2)", float32(1), float32(2), float32(3), float32(4), float32(5), float32(6)),
		"arrays/y_train.npy": encodeNPY("<f8", "False", "(3, 1)", 30.0, -7.0, 1e30),
		"greys/x_train.npy":  encodeNPY("|u1", "False", "(3, 1, 1, 2)", []byte{0, 51, 102, 153, 204, 255}),
		"greys/y_train.npy":  encodeNPY("<i4", "False", "(3,)", int32(30), int32(-7), int32(99)),
		"lists/x_train.npy":  encodeNPY("<i4", "False", "(3, 2)", int32(0), int32(1), int32(2), int32(-1), int32(1), int32(1)),
		"lists/y_train.npy":  encodeNPY("<f4", "False", "(3,)", float32(30), float32(-7), float32(99)),
	})
	ignoring := hours
	ignoring.Ignore = []string{"note"}
	y := Schema{Target: "y", Bounds: map[string]Bounds{"y": {10, 50}}}
	lists := y
	lists.Tokens = "3"
	for name, c := range map[string]struct {
		schema   Schema
		kind     Kind
		features []float32
	}{
		"t.csv":   {ignoring, Feature, []float32{-.5, 1, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0}},
		"t.jsonl": {ignoring, Feature, []float32{-.5, 1, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0}},
		"arrays":  {y, Feature, []float32{1, 2, 3, 4, 5, 6}},
		"greys":   {y, Feature, []float32{0, .2, .4, .6, .8, 1}},
		"lists":   {lists, Index, []float32{0, 1, 2, -1, 1, 1}},
		"./t.csv": {text, Index, []float32{'x', -1, 'y', 'z', -1, -1}},
	} {
		task, err := Open(filepath.Join(dir, name), Options{Schema: c.schema})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		columns, dst := task.Train.Columns(), newBuffers(task.Train, 3)
		if err := task.Train.Read(dst, []int{0, 1, 2}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(dst[0], c.features) || columns[0].Kind != c.kind {
			t.Errorf("%s: features %v of %v", name, dst[0], columns[0])
		}
		if !slices.Equal(dst[1], []float32{0, -1, 1}) || columns[1].Name != c.schema.Target || columns[1].Kind != Target || columns[1].Size() != 1 || columns[1].Bounds != (Bounds{10, 50}) {
			t.Errorf("%s: targets %v of %v", name, dst[1], columns[1])
		}
		if task.Classes != 0 || !task.Private || Check(task.Train) != nil {
			t.Errorf("%s: %d classes, private %v, %v", name, task.Classes, task.Private, Check(task.Train))
		}
		b := c.schema.Bounds[c.schema.Target]
		for i, want := range []float64{30, 10, 50} {
			if got := b.Unscale(float64(dst[1][i])); got != want {
				t.Errorf("%s: %v unscales to %v, want %v", name, dst[1][i], got, want)
			}
		}
		if half := math.Abs(b.Unscale(.25)-b.Unscale(-.25)) / .5; half != b.ScaleFactor() || half != columns[1].ScaleFactor() {
			t.Errorf("the scale factor is %v, want %v", b.ScaleFactor(), half)
		}
	}
	// A test file may have the columns in a different order.
	task, err := Open(filepath.Join(dir, "t.csv"), Options{Schema: ignoring, Test: filepath.Join(dir, "test.csv")})
	if err != nil {
		t.Fatal(err)
	}
	dst := newBuffers(task.Test, 1)
	if err := task.Test.Read(dst, []int{0}); err != nil || !slices.Equal(dst[0], []float32{-1, 0, 1, 0}) || dst[1][0] != .5 {
		t.Errorf("the test row is %v (%v)", dst, err)
	}
}

// The error for an invalid target is one line and shows no value.
func TestOpen_InvalidTargets(t *testing.T) {
	with := func(change func(s *Schema)) Schema {
		s := hours
		change(&s)
		return s
	}
	const good = "age,hours,job,person\n25,30,baker,a\n"
	for want, c := range map[string]struct {
		file   string
		schema Schema
	}{
		"no target \"hour\"":                           {good, with(func(s *Schema) { s.Target = "hour" })},
		"write bounds hours=LOW:HIGH":                  {good, with(func(s *Schema) { s.Bounds = map[string]Bounds{"age": {0, 1}} })},
		"a target, \"hours\", and a label":             {good, with(func(s *Schema) { s.Label = "job" })},
		"a number or a class":                          {good, with(func(s *Schema) { s.Classes = Classes{"a", "b"} })},
		"with next the network predicts":               {good, with(func(s *Schema) { s.PredictNext = true })},
		"used in two ways":                             {good, with(func(s *Schema) { s.Ignore = []string{"hours"} })},
		"is text, and other columns":                   {good, with(func(s *Schema) { s.Text = "job" })},
		"column \"hours\": the target is not a number": {"age,hours,job,person\n25,secret,baker,a\n", hours},
		"column \"hours\": the target has no value":    {"age,hours,job,person\n25, ,baker,a\n", hours},
		"there are no features":                        {"hours\n3\n", Schema{Target: "hours", Bounds: map[string]Bounds{"hours": {0, 1}}}},
	} {
		dir := writeFiles(t, map[string][]byte{"t.csv": []byte(c.file)})
		_, err := Open(filepath.Join(dir, "t.csv"), Options{Schema: c.schema, OnBadRow: FailOnBadRow})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v does not contain %q in one line", err, want)
		}
	}
	x := encodeNPY("<f4", "False", "(2, 1)", float32(1), float32(2))
	y := Schema{Target: "y", Bounds: map[string]Bounds{"y": {0, 1}}}
	for want, c := range map[string]struct {
		y      []byte
		schema Schema
	}{
		"write bounds y=LOW:HIGH":      {encodeNPY("<f4", "False", "(2,)", float32(1), float32(2)), Schema{Target: "y"}},
		"the same number of targets":   {encodeNPY("<f4", "False", "(3,)", float32(1), float32(2), float32(3)), y},
		"shape [2 2]":                  {encodeNPY("<f4", "False", "(2, 2)", float32(1), float32(2), float32(3), float32(4)), y},
		"the value is not a finite":    {encodeNPY("<f4", "False", "(2,)", float32(1), float32(math.NaN())), y},
		"the target y with its bounds": {encodeNPY("<f4", "False", "(2,)", float32(1), float32(2)), Schema{Target: "z", Bounds: map[string]Bounds{"z": {0, 1}}}},
		"which have no named columns":  {encodeNPY("<f4", "False", "(2,)", float32(1), float32(2)), Schema{Target: "y", Bounds: map[string]Bounds{"y": {0, 1}, "x": {0, 1}}}},
		"a number or a class":          {encodeNPY("<f4", "False", "(2,)", float32(1), float32(2)), Schema{Target: "y", Bounds: y.Bounds, Classes: Classes{"0", "1"}}},
	} {
		dir := writeFiles(t, map[string][]byte{"x_train.npy": x, "y_train.npy": c.y})
		checkOpenError(t, dir, Options{Schema: c.schema}, want)
	}
}

// The column of a scaled target has the bounds that it was scaled by.
func TestNewTable_TargetBounds(t *testing.T) {
	column := Column{Name: "y", Kind: Target, Bounds: Bounds{10, 50}}
	whole, err := NewTable([]Column{column}, [][]float32{{-1, 0, 1}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	column.Bounds[1] = 60
	other, err := NewTable([]Column{column}, [][]float32{{0}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Concat(whole, other); err == nil {
		t.Error("Concat accepted targets with different bounds")
	}
	if unit := (Column{Kind: Target}).ScaleFactor(); unit != 1 {
		t.Errorf("the scale factor of unscaled targets is %v", unit)
	}
	for want, c := range map[string]struct {
		column Column
		value  float32
	}{
		"not between -1 and 1":      {column, 30},
		"scale it by its bounds":    {column, -1.001},
		"less than the upper one":   {Column{Name: "y", Kind: Target, Bounds: Bounds{2, 1}}, 0},
		"both must be finite":       {Column{Name: "y", Kind: Target, Bounds: Bounds{0, math.Inf(1)}}, 0},
		"only a target has":         {Column{Name: "y", Bounds: Bounds{0, 1}}, 0},
		"the value is not a finite": {column, float32(math.NaN())},
	} {
		_, err := NewTable([]Column{c.column}, [][]float32{{c.value}}, nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v does not contain %q in one line", err, want)
		}
	}
}
