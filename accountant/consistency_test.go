package accountant

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
)

// randomHistory draws a history with one or two phases, any sampling and adjacency, and one or
// two groups with any noise.
func randomHistory(r *rand.Rand) ledger.History {
	query := func() ledger.Query {
		noise := between(r.Float64(), .2, 50)
		switch r.IntN(5) {
		case 0:
			return ledger.Query{Group: "l", Mechanism: ledger.Laplace, Sensitivity: 1, Noise: noise}
		case 1:
			shift := float64(1 + r.IntN(4))
			return ledger.Query{Group: "d", Mechanism: ledger.DiscreteGaussian, Sensitivity: shift, Noise: min(200, noise*shift)}
		}
		return ledger.Query{Group: "g", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: noise}
	}
	var h ledger.History
	if r.IntN(4) == 0 {
		h.Header.Adjacency = ledger.ReplaceOne
	}
	for range 1 + r.IntN(5)/3 {
		lot := ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: between(r.Float64(), 1e-6, 1)}, Queries: []ledger.Query{query()}}
		switch r.IntN(10) {
		case 0:
			lot.Sampling = ledger.Sampling{Policy: ledger.FullBatch}
		case 1:
			lot.Sampling = ledger.Sampling{Policy: ledger.FixedSize, LotSize: 1 + r.IntN(500), Records: 100000}
		}
		if r.IntN(5) == 0 {
			lot.Queries = append(lot.Queries, query())
		}
		h.Lots = append(h.Lots, ledger.RepeatedLot{Lot: lot, Count: int(between(r.Float64(), 1, 1e6))})
	}
	return h
}

// The test computes ε at δ, and δ at both bounds of ε. The intervals must overlap. No rdp bound
// of the same history is below the lower bound of pld.
func TestPLD_EpsilonAndDeltaAgree(t *testing.T) {
	t.Parallel()
	cases := 80
	if testing.Short() {
		cases = 24
	}
	r := rand.New(rand.NewPCG(31, 32))
	wide := 0
	for range cases {
		h, delta := randomHistory(r), between(r.Float64(), 1e-12, .3)
		a := epsilonOf(t, h, delta, "pld")
		if !(a.Epsilon >= a.LowerBound && a.LowerBound >= 0) || math.IsInf(a.Epsilon, 1) {
			t.Errorf("%+v at %v: %+v", h, delta, a)
		}
		if a.LowerBound < a.Epsilon*(1-3e-3) {
			wide++
		}
		if at := deltaOf(t, h, a.Epsilon, "pld"); at.LowerBound > delta*(1+1e-9) {
			t.Errorf("%+v: ε(%v) is at most %v, where δ is at least %v", h, delta, a.Epsilon, at.LowerBound)
		}
		if at := deltaOf(t, h, a.LowerBound, "pld"); a.LowerBound > 0 && at.Delta < delta*(1-1e-9) {
			t.Errorf("%+v: ε(%v) is at least %v, where δ is at most %v", h, delta, a.LowerBound, at.Delta)
		}
		if rdp := epsilonOf(t, h, delta, "rdp").Epsilon; rdp < a.LowerBound*(1-1e-9) {
			t.Errorf("%+v at %v: rdp returns %v, but at least %v was spent", h, delta, rdp, a.LowerBound)
		}
	}
	if wide > cases/12 {
		t.Errorf("%d of %d brackets are wide", wide, cases)
	}
}

// At the ε that an accountant returns for δ, Delta returns δ.
func TestDelta_InvertsEpsilon(t *testing.T) {
	replaced := poisson(.02, 1.5, 300)
	replaced.Header.Adjacency = ledger.ReplaceOne
	for what, h := range map[string]ledger.History{"sampled": poisson(.01, 1, 1000), "of all": poisson(1, 9, 20), "replaced": replaced,
		"Laplace": {Lots: []ledger.RepeatedLot{laplaceLots(1, 8, 30)}}, "Laplace, sampled": {Lots: []ledger.RepeatedLot{laplaceLots(.1, 2, 200)}}} {
		for _, name := range Names() {
			const delta = 1e-5
			a, err := Epsilon(h, delta, name)
			laplace := strings.HasPrefix(what, "Laplace")
			if name == "naive" && laplace {
				continue // it has no δ
			}
			if name == "gdp" && laplace {
				if _, other := Delta(h, 1, name); err == nil || other == nil {
					t.Errorf("%s, %s: %v and %v", name, what, err, other)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			width := 1e-5
			if name == "pld" {
				width = .01
			}
			near(t, name+", "+what, deltaOf(t, h, a.Epsilon, name).Delta, delta, width)
			if name != "pld" {
				if none := deltaOf(t, h, 0, name).Delta; !(none > .01) {
					t.Errorf("%s, %s: at ε = 0 δ is %v", name, what, none)
				}
			}
		}
	}
}

// With very little noise, losses differ by hundreds and their exponentials overflow.
func TestPLD_LossesFarApart(t *testing.T) {
	few := ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: .0024}, Queries: []ledger.Query{{Group: "d", Mechanism: ledger.DiscreteGaussian, Sensitivity: 3, Noise: .2}}}
	two := ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.FixedSize, LotSize: 331, Records: 100000}, Queries: []ledger.Query{{Group: "d", Mechanism: ledger.DiscreteGaussian, Sensitivity: 2, Noise: .127}, {Group: "g", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: .316}}}
	for _, h := range []ledger.History{
		{Header: ledger.Header{Adjacency: ledger.ReplaceOne}, Lots: []ledger.RepeatedLot{{Lot: few, Count: 487}}},
		{Lots: []ledger.RepeatedLot{{Lot: two, Count: 353274}, poisson(.42, 1.27, 2).Lots[0]}},
	} {
		a := epsilonOf(t, h, 6.6e-9, "pld")
		if !(a.Epsilon > 0 && a.LowerBound >= 0 && a.LowerBound <= a.Epsilon) {
			t.Errorf("%+v: %+v", h, a)
		}
		if at := deltaOf(t, h, a.Epsilon, "pld"); at.LowerBound > 6.6e-9*(1+1e-9) {
			t.Errorf("%+v: ε is at most %v, where δ is at least %v", h, a.Epsilon, at.LowerBound)
		}
	}
}
