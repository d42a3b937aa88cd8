package training

import (
	"math"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
)

func none(any) {}

// Training states the ε of its ledger, and learns: runs of 100 lots with the rates 50 and 150 reached
// 94.7% and 95.9%.
func TestTrain_LearnsWithinBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("drawing the digits takes seconds")
	}
	last := trainProgress{}
	a, err := train(trainRequest{Records: 40_000, Lot: 1000, Steps: 96, Epsilon: 2, Delta: 1e-6, Clip: 0.1, Rate: 100}, func(p any) {
		if q, ok := p.(trainProgress); ok {
			last = q
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	h, _, err := ledger.Parse(strings.NewReader(a.Ledger))
	if err != nil {
		t.Fatal(err)
	}
	g, err := accountant.Epsilon(h, 1e-6, "")
	if err != nil || g.Epsilon != a.Epsilon || a.Epsilon > 2 || a.Epsilon < 1.99 {
		t.Errorf("ε = %v, and %v of the ledger, %v; the budget is 2", a.Epsilon, g.Epsilon, err)
	}
	if last.Lot != 96 || math.Abs(last.Epsilon-a.Epsilon) > 1e-9 {
		t.Errorf("the last report has lot %d and ε = %v, and the run %v", last.Lot, last.Epsilon, a.Epsilon)
	}
	if a.Accuracy < 0.9 {
		t.Errorf("accuracy %v", a.Accuracy)
	}
}

// Clipped gradients keep their bound, and a large bound changes nothing.
func TestGradients_ClippedNorms(t *testing.T) {
	if testing.Short() {
		t.Skip("drawing the digits takes seconds")
	}
	for _, q := range []gradientsRequest{{Clip: 0.5}, {Clip: 0.5, PerLayer: true}, {Clip: 1e6}} {
		a, err := gradients(q, none)
		if err != nil {
			t.Fatal(err)
		}
		for r, v := range a.Clipped {
			square := 0.0
			for k, n := range v {
				square += n * n
				if q.Clip == 1e6 && n != a.Norms[r][k] {
					t.Errorf("record %d: %v became %v", r, a.Norms[r][k], n)
				}
			}
			if math.Sqrt(square) > q.Clip*(1+1e-6) {
				t.Errorf("record %d: norm %v above %v", r, math.Sqrt(square), q.Clip)
			}
		}
		if q.Clip == 1e6 && (a.Unclipped != gradientRecords || math.Abs(a.AtCosine-1) > 1e-6) {
			t.Errorf("no gradient is clipped: %d, cosine %v", a.Unclipped, a.AtCosine)
		}
	}
}

// Attacks that the page shows as winning win, and the corrected mechanisms keep their bound. A false alarm
// has a probability of 3·10⁻⁷: five standard deviations of 400 rounds.
func TestAttack_WinsAgainstMistakes(t *testing.T) {
	for _, mistake := range []string{"normaliser", "rate", "seed", "float"} {
		for _, mended := range []bool{false, true} {
			a, err := attack(attackRequest{Mistake: mistake, Mended: mended, Trials: 400, Weights: 64}, none)
			if err != nil {
				t.Fatal(err)
			}
			right, five := float64(a.Right)/float64(a.Trials), 5*math.Sqrt(0.25/400)
			switch {
			case mended && right > a.Bound+five:
				t.Errorf("%s, corrected: right in %v, above the bound %v", mistake, right, a.Bound)
			case !mended && right <= a.Bound:
				t.Errorf("%s: right in %v, which the bound %v allows", mistake, right, a.Bound)
			}
		}
	}
}
