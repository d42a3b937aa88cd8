package main

import (
	"math"
	"regexp"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/engine/data"
)

// The accuracy, and the area under the ROC curve with ties counted as halves.
func TestScore(t *testing.T) {
	test, err := data.NewTable([]data.Column{{Name: "x"}, {Name: "y", Kind: data.Label, Classes: 2}}, [][]float32{{0, 0, 0, 0, 0}, {0, 1, 1, 0, 1}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	outputs := [][]float32{{0, -1}, {0, 1}, {0, -1}, {0, 2}, {0, 3}}
	accuracy, auc, err := score(&data.Task{Test: test, Classes: 2}, outputs)
	// Of the six pairs of a 0 and a 1: -1 < 1, -1 = -1, -1 < 3, 2 > 1, 2 > -1, 2 < 3.
	if err != nil || math.Abs(accuracy-3./5) > 1e-9 || math.Abs(auc-3.5/6) > 1e-9 {
		t.Errorf("accuracy %v, AUC %v, %v", accuracy, auc, err)
	}
}

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

// A generated table is trained by default, and beats the majority.
func TestCompare_Default(t *testing.T) {
	all := regexp.MustCompile("default")
	b := &bench{programs: all, runs: 1, epsilons: []float64{8}, dir: t.TempDir()}
	if err := b.compare(&table{name: "small", rows: clusters(400, 4, 3, 1)}); err != nil {
		t.Fatal(err)
	}
	if len(b.results) != 2 || b.results[0].Program != "baseline" || b.results[1].Program != "default" || !(b.results[1].Score > b.results[0].Score+0.1) {
		t.Errorf("results %+v", b.results)
	}
}
