package report

import (
	"math"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
)

// A curve has the accountant's ε of each prefix. Here the prefixes are compared with plans of
// as many steps, which are other histories of the same cost.
func TestEpsilonCurves(t *testing.T) {
	plan := accountant.Plan{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: 0.01, Records: 60000}, Noise: 1.1, Adjacency: ledger.AddRemove}
	h := ledger.History{Header: ledger.Header{Adjacency: ledger.AddRemove, Records: 60000, Secure: true}}
	for _, count := range []int{1, 300, 7, 500} {
		h.Lots = append(h.Lots, ledger.RepeatedLot{Lot: lot(1, 1.1), Count: count})
	}
	for _, c := range epsilonCurves(h, 1e-5, []string{"rdp", "gdp", "naive"}, 10) {
		name := c.accountant
		if len(c.lots) != 10 || c.lots[9] != 808 {
			t.Fatalf("%s: computed at %v, want ten numbers of lots up to 808", name, c.lots)
		}
		for i, at := range c.lots {
			plan.Steps = at
			want, err := accountant.Epsilon(plan.History(), 1e-5, name)
			if err != nil {
				t.Fatal(err)
			}
			if !(math.Abs(c.epsilon[i]-want.Epsilon) <= 1e-9*want.Epsilon) {
				t.Errorf("%s after %d lots: %v, want %v", name, at, c.epsilon[i], want.Epsilon)
			}
		}
	}
	if c := epsilonCurves(h, 2, []string{"rdp"}, 10)[0]; c.failure == "" {
		t.Error("an invalid δ has a curve")
	}
}

// The Gaussian groups of one lot are one Gaussian query. The shares are shares of its cost.
func TestGroups_Shares(t *testing.T) {
	h := ledger.History{Lots: []ledger.RepeatedLot{{Lot: lot(1, 2), Count: 5}, {Lot: lot(1, 4, 3, 4), Count: 2}}}
	groups := Groups(h)
	first, second := 5*0.25+2*0.0625, 2*0.5625
	if len(groups) != 2 || !(math.Abs(groups[0].Share-first/(first+second)) <= 1e-15) || !(math.Abs(groups[1].Share-second/(first+second)) <= 1e-15) {
		t.Errorf("%+v", groups)
	}
	if g := groups[0]; g.MinSensitivity != 1 || g.MaxSensitivity != 1 || g.MinNoise != 2 || g.MaxNoise != 4 {
		t.Errorf("%+v", g)
	}
	low, high, ok := noiseMultipliers(h)
	if !ok || !(math.Abs(low-1/math.Sqrt(0.625)) <= 1e-15) || high != 2 {
		t.Errorf("noise multipliers %v to %v, %v", low, high, ok)
	}
}

// Against the Gaussian mechanism the best guess is right with probability Φ(μ/2). The bound is
// never below it and equals it at ε = 0, for δ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) (Balle
// and Wang 2018, theorem 8).
func TestGuessProbability(t *testing.T) {
	normal := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	for _, mu := range []float64{0.05, 0.3, 1, 2.5, 6} {
		best := normal(mu / 2)
		for epsilon := 0.0; epsilon < 12; epsilon += 0.25 {
			delta := normal(mu/2-epsilon/mu) - math.Exp(epsilon)*normal(-mu/2-epsilon/mu)
			got := guessProbability(epsilon, delta)
			if got < best-1e-12 || got > 1 {
				t.Errorf("μ = %v, ε = %v: bound %v below %v", mu, epsilon, got, best)
			}
			if epsilon == 0 && !(math.Abs(got-best) <= 1e-12) {
				t.Errorf("μ = %v: at ε = 0 the bound is %v, want %v", mu, got, best)
			}
		}
	}
	if guessProbability(1e6, 0) != 1 || guessProbability(math.Inf(1), 0.5) != 1 || guessProbability(0, 0) != 0.5 {
		t.Error("the limits for ε = ∞ and ε = δ = 0 are wrong")
	}
}
