package main

import (
	"math"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// noiseOfLots returns the noise multiplier of the gradient in each lot of a ledger.
func noiseOfLots(t *testing.T, path string) (noise []float64, all []ledger.Lot) {
	t.Helper()
	h, err := ledger.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range h.Lots {
		for range l.Count {
			q := l.Lot.Queries[0]
			noise, all = append(noise, q.Noise/q.Sensitivity), append(all, l.Lot)
		}
	}
	return noise, all
}

// The noise changes in the lot after the release that fulfils a condition, one condition after the other.
// The run states the budget of its filter, which admits the lots of the ledger.
func TestNoiseSchedule_ChangesNoise(t *testing.T) {
	t.Chdir(t.TempDir())
	got := runJSON(t, drawn+" --steps 12 --noise 3 --stop-at-epsilon 4 --seed 5 --metric loss:noise=9,every=2 --noise-schedule when:loss<=1e300->x0.5,loss<=1e299->2.5,loss<=0->1 --out run")
	noise, lots := noiseOfLots(t, "run/ledger.jsonl")
	want := []float64{3, 3, 1.5, 1.5, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5, 2.5}
	for i, z := range noise {
		if i >= len(want) || math.Abs(z/want[i]-1) > 1e-6 {
			t.Fatalf("the noise of the lots is %v, want %v", noise, want)
		}
	}
	if len(noise) != 12 || got["epsilon"] != 4.0 || got["epsilon_planned"] != 4.0 || got["accountant"] != "rdp" || !(got["epsilon_spent"].(float64) < 4) {
		t.Errorf("%d lots, ε %v, planned %v, spent %v, by %v", len(noise), got["epsilon"], got["epsilon_planned"], got["epsilon_spent"], got["accountant"])
	}
	filter, err := accountant.NewFilter(4, got["delta"].(float64), got["filter_order"].(float64), ledger.ZeroOut)
	if err != nil {
		t.Fatal(err)
	}
	for i, lot := range lots {
		if ok, err := filter.Admit(lot, 1); !ok || err != nil {
			t.Errorf("lot %d is not within the filter: %v", i, err)
		}
	}
	if card := string(readFile(t, "run/MODEL_CARD.md")); !strings.Contains(card, "The noise followed released metrics (when:loss") || strings.Contains(card, "ended before") {
		t.Error("the model card does not state the filter")
	}
	more := runJSON(t, "train --resume run --steps 14")
	noise, _ = noiseOfLots(t, "run/ledger.jsonl")
	if more["steps"] != 14.0 || more["filter_order"] != got["filter_order"] || math.Abs(noise[13]/2.5-1) > 1e-6 {
		t.Errorf("resumed: %v lots, order %v, noise %v", more["steps"], more["filter_order"], noise)
	}
	if _, stderr, code := dptrain("train --resume run --steps 15 --noise-schedule when:loss<=1->2"); code != exitcode.Usage || !strings.Contains(stderr, "noise-schedule is when:loss<=1->2") {
		t.Errorf("resumed with other rules: exit %d, %s", code, stderr)
	}
}

// Less noise ends the run before its plan. The filter, not the plan, is its cost.
func TestNoiseSchedule_FilterEndsRun(t *testing.T) {
	t.Chdir(t.TempDir())
	got := runJSON(t, drawn+" --lot 4000 --steps 60 --noise 2 --stop-at-epsilon 3 --seed 5 --metric loss:noise=9,every=5 --noise-schedule when:loss<=1e300->x0.6 --out run")
	if steps := got["steps"].(float64); steps < 5 || steps == 60 || got["epsilon"] != 3.0 {
		t.Errorf("%v lots, ε %v", got["steps"], got["epsilon"])
	}
}

func TestNoiseSchedule_Refusals(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range [][2]string{
		{" --noise-schedule loss<=1->2 --metric loss", "write when:CONDITION->Z"},
		{" --noise-schedule when:loss<=1 --metric loss", "write when:CONDITION->Z"},
		{" --noise-schedule when:loss<=1->-2 --metric loss", "not a finite number above 0"},
		{" --noise-schedule when:test-loss<=1->2", "the noise follows released metrics"},
		{" --noise-schedule when:loss<=1->2", "requires --metric loss"},
		{" --noise-schedule when:loss<=1->2 --metric loss --noise 2", "give --stop-at-epsilon"},
		{" --noise-schedule when:loss<=1->2 --metric loss --sampling shuffle", "poisson, truncated or fixed"},
		{" --noise-schedule when:loss<=1->2 --non-private", "adds no noise"},
		{" --noise-schedule when:loss<=1->0.01 --metric loss --noise 2 --stop-at-epsilon 1", "costs more than ε = 1"},
	} {
		if _, stderr, code := dptrain("train --model logistic --lot 200 --steps 2 --out run" + c[0]); code == exitcode.Done || !strings.Contains(stderr, c[1]) {
			t.Errorf("%s: exit %d, %s", c[0], code, stderr)
		}
	}
	if _, stderr, code := dptrain("train --model logistic --lot 200 --steps 2 --accountant pld --metric loss --noise-schedule when:loss<=1->2 --out run"); code != exitcode.Usage || !strings.Contains(stderr, "use --accountant rdp") {
		t.Errorf("exit %d, %s", code, stderr)
	}
}
