package main

import (
	"regexp"
	"slices"
	"testing"
)

// The search has at least 30 settings, all different.
func TestSettings(t *testing.T) {
	for _, number := range []bool{false, true} {
		list := candidates(1000, number)
		slices.Sort(list)
		if n := len(slices.Compact(list)); n < 30 {
			t.Errorf("%d settings", n)
		}
	}
}

// Generated tables are trained by default, and beat the majority and the mean. The score of a target is
// that of the baseline, which is computed apart, on the same scale.
func TestCompare_Default(t *testing.T) {
	if testing.Short() {
		t.Skip("builds dptrain")
	}
	b := &bench{programs: regexp.MustCompile("default"), runs: 1, epsilons: []float64{8}, dir: t.TempDir()}
	if err := b.build(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		table *table
		least float64 // by which it beats the baseline
	}{
		{&table{name: "small", rows: clusters(400, 4, 2, 1)}, 0.1},
		{&table{name: "number", number: true, rows: curved(1500, 4, 1)}, 0.01},
	} {
		b.results = nil
		if err := b.compare(c.table); err != nil {
			t.Fatal(err)
		}
		if len(b.results) != 2 || b.results[0].Program != "baseline" || b.results[1].Program != "default" || !(b.results[1].Score > b.results[0].Score+c.least) {
			t.Errorf("results %+v", b.results)
		}
		if r := b.results[len(b.results)-1]; c.table.number == (r.AUC > 0.6) {
			t.Errorf("AUC %v", r.AUC)
		}
	}
}
