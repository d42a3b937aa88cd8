package data

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// splitTask returns a task of n rows, of which some are blank. The feature of row i is i/1000.
func splitTask(t *testing.T, n int, blank ...int) *Task {
	t.Helper()
	var b strings.Builder
	b.WriteString("x,label\n")
	for i := range n {
		label := "no"
		if slices.Contains(blank, i) {
			label = "other"
		}
		fmt.Fprintf(&b, "%d,%s\n", i, label)
	}
	set, inputs, err := readCSV(strings.NewReader(b.String()), Schema{Label: "label", Classes: []string{"no", "yes"}, Bounds: map[string]Bounds{"x": {-1000, 1000}}}, rowPolicy{private: true, blank: true})
	if err != nil {
		t.Fatal(err)
	}
	return &Task{Train: set, Schema: Schema{Inputs: inputs}, Private: true}
}

// placesOf returns the rows of a set that splitTask made.
func placesOf(t *testing.T, s Set) (rows []int) {
	t.Helper()
	blank := Blank(s)
	x, label := make([]float32, 1), make([]float32, 1)
	for i := range s.Len() {
		if err := s.Read([][]float32{x, label}, []int{i}); err != nil {
			t.Fatal(err)
		}
		if blank != nil && blank[i] {
			rows = append(rows, -1)
		} else {
			rows = append(rows, int(math.Round(1000*float64(x[0]))))
		}
	}
	return rows
}

// The public part has the stated size, is disjoint from the training part, and follows from the seed
// and the number of rows: a blank row moves no other.
func TestSplitTest_PlacesArePublic(t *testing.T) {
	task := splitTask(t, 500)
	if err := task.SplitTest(0.2, 7); err != nil {
		t.Fatal(err)
	}
	test, train := placesOf(t, task.Test), placesOf(t, task.Train)
	if len(test) != 100 || len(train) != 400 || !slices.Equal(slices.Sorted(slices.Values(slices.Concat(test, train))), placesOf(t, splitTask(t, 500).Train)) {
		t.Fatalf("%d for testing, %d for training", len(test), len(train))
	}
	public, private := test[5], train[5]
	changed := splitTask(t, 500, public, private)
	if err := changed.SplitTest(0.2, 7); err != nil {
		t.Fatal(err)
	}
	wantTest, wantTrain := slices.Delete(slices.Clone(test), 5, 6), slices.Clone(train)
	wantTrain[5] = -1
	if !slices.Equal(placesOf(t, changed.Test), wantTest) || !slices.Equal(placesOf(t, changed.Train), wantTrain) {
		t.Error("blank rows changed the division")
	}
	other := splitTask(t, 500)
	if err := other.SplitTest(0.2, 8); err != nil || slices.Equal(placesOf(t, other.Test), test) {
		t.Errorf("another seed gives the same rows (%v)", err)
	}
}

// A division is repeated only on a file with the same public rows.
func TestSplitAgain_RefusesOtherFile(t *testing.T) {
	task := splitTask(t, 50)
	if err := task.SplitTest(0.2, 7); err != nil {
		t.Fatal(err)
	}
	public, private := placesOf(t, task.Test)[0], placesOf(t, task.Train)[0]
	for name, c := range map[string]struct {
		task *Task
		same bool
	}{"same": {splitTask(t, 50), true}, "a private row is blank": {splitTask(t, 50, private), true}, "a public row is blank": {splitTask(t, 50, public), false}, "longer": {splitTask(t, 51), false}} {
		if err := c.task.SplitAgain(*task.Split); (err == nil) != c.same {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, share := range []float64{0, 0.001, 0.999, 1, math.NaN()} {
		if err := splitTask(t, 50).SplitTest(share, 1); err == nil {
			t.Errorf("a share of %v was accepted", share)
		}
	}
	if err := task.SplitTest(0.2, 7); err == nil {
		t.Error("a task with a test part was divided")
	}
}
