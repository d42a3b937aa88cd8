package engine

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/engine/data"
)

// firstNumbers returns the first number of each example.
func firstNumbers(t *testing.T, s data.Set) []float32 {
	t.Helper()
	out := make([]float32, 0, s.Len())
	for row := range s.Len() {
		x, label := make([]float32, 1), make([]float32, 1)
		if err := s.Read([][]float32{x, label}, []int{row}); err != nil {
			t.Fatal(err)
		}
		out = append(out, x[0])
	}
	return out
}

// countMissing counts the numbers of a that b lacks.
func countMissing(a, b []float32) int {
	n := 0
	for _, x := range a {
		if !slices.Contains(b, x) {
			n++
		}
	}
	return n
}

// Adding a record changes the training set by that record and replaces at most one held-out
// record: the neighbours of the two sensitivities.
func TestHoldOut_Neighbours(t *testing.T) {
	build := func(without int, owners bool) data.Set {
		var x, labels []float32
		var users []int32
		for i := range 12 {
			record := i
			if owners {
				record = i % 6
			}
			if record == without {
				continue
			}
			x, labels = append(x, float32(i)), append(labels, 0)
			users = append(users, int32(record))
		}
		if !owners {
			users = nil
		}
		return newTable(x, labels, users)
	}
	for _, kind := range []struct {
		records Records
		owners  bool
		count   int
		each    int // examples in a record
	}{{Records{}, false, 12, 1}, {Records{Users: true, Examples: 4}, true, 6, 2}} {
		whole, wholeHeld, err := HoldOut(build(-1, kind.owners), kind.records, 3)
		if err != nil {
			t.Fatal(err)
		}
		if n := RecordCount(wholeHeld, kind.records); n != 3 {
			t.Errorf("%d records held out, want 3", n)
		}
		for i := range kind.count {
			part, held, err := HoldOut(build(i, kind.owners), kind.records, 3)
			if err != nil {
				t.Fatal(err)
			}
			a, b := firstNumbers(t, whole), firstNumbers(t, part)
			if countMissing(b, a) != 0 || countMissing(a, b) != kind.each {
				t.Errorf("without record %d, %v is trained on where it was %v", i, b, a)
			}
			a, b = firstNumbers(t, wholeHeld), firstNumbers(t, held)
			if len(a) != len(b) || countMissing(a, b) > kind.each || countMissing(b, a) > kind.each {
				t.Errorf("without record %d, %v is held out where it was %v", i, b, a)
			}
		}
	}
	// Equal records do not stay together: of 600 alike and 400 others in order, held
	// out are some of both, within 6 deviations of the hypergeometric (1e-8).
	x := make([]float32, 1000)
	for i := 600; i < 1000; i++ {
		x[i] = 1
	}
	_, held, err := HoldOut(newTable(x, make([]float32, 1000), nil), Records{}, 200)
	if err != nil {
		t.Fatal(err)
	}
	ones := 0
	for _, v := range firstNumbers(t, held) {
		ones += int(v)
	}
	if !(math.Abs(float64(ones)-80) <= 6*6.2) {
		t.Errorf("%d of 200 held out are of the kind that 400 of 1000 are", ones)
	}
	few := uncheckedUsers{uncheckedSet{build(-1, true).Columns(), [][]float32{x, x}}, []int32{0, 1}} // a user's own set
	if _, _, err := HoldOut(few, Records{Users: true, Examples: 4}, 1); err == nil || !strings.Contains(err.Error(), "2 users") {
		t.Errorf("a thousand examples of two owners: %v", err)
	}
	for _, n := range []int{-1, 0, 12, 13} {
		if _, _, err := HoldOut(build(-1, false), Records{}, n); err == nil {
			t.Errorf("%d of 12 records were held out", n)
		}
	}
}
