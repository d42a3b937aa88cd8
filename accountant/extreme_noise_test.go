package accountant

import (
	"errors"
	"testing"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
	"github.com/dptrain/dptrain/accountant/ledger"
)

// A budget without any protection gives a result or an error within the time limit of go test.
func TestCalibrateNoise_HugeEpsilon(t *testing.T) {
	t.Parallel()
	for _, accountant := range []string{"rdp", "pld"} {
		for _, s := range []ledger.Sampling{{Policy: ledger.Poisson, Rate: 0.01}, {Policy: ledger.FixedSize, Records: 60000, LotSize: 600}} {
			p := Plan{Sampling: s, Steps: 100, Adjacency: ledger.AddRemove}
			if s.Policy == ledger.FixedSize {
				p.Adjacency = ledger.ReplaceOne
			}
			noise, err := CalibrateNoise(p, 1e9, 1e-5, accountant)
			if err != nil {
				continue
			}
			p.Noise = noise
			if spent, err := p.epsilon(1e-5, accountant); err != nil || spent > 1e9 {
				t.Errorf("%s, %s: noise %v spends %v of 1e9, %v", accountant, s.Policy, noise, spent, err)
			}
		}
	}
}

// Sums of counts do not overflow; equal groups of a lot are counted together.
func TestEpsilon_CountsDoNotOverflow(t *testing.T) {
	lot := ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.FullBatch}}
	for range 1100 {
		lot.Queries = append(lot.Queries, ledger.Query{Group: "g", Mechanism: ledger.Laplace, Sensitivity: 1, Noise: 1e9})
	}
	for _, accountant := range Names() {
		if a, err := Epsilon(ledger.History{Lots: []ledger.RepeatedLot{{Lot: lot, Count: ledger.MaxLots}}}, 1e-5, accountant); !errors.Is(err, ErrArgument) {
			t.Errorf("%s: %+v, %v", accountant, a, err)
		}
	}
	h := ledger.History{Lots: []ledger.RepeatedLot{{Lot: lot, Count: ledger.MaxLots / 1100}, {Lot: ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.FullBatch}, Queries: lot.Queries[:1]}, Count: ledger.MaxLots % 1100}}}
	near(t, "as many as can be counted", epsilonOf(t, h, 1e-5, "pld").Epsilon,
		epsilonOf(t, ledger.History{Lots: []ledger.RepeatedLot{{Lot: ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.FullBatch}, Queries: lot.Queries[:1]}, Count: ledger.MaxLots}}}, 1e-5, "pld").Epsilon, 1e-9)
}

// Discrete Gaussians that would exhaust the memory give an error.
func TestPLD_ManyWideDiscreteGaussians(t *testing.T) {
	t.Parallel()
	var h ledger.History
	for i := range 1000 {
		h.Lots = append(h.Lots, lots(.01, 1, ledger.Query{Group: "g", Mechanism: ledger.DiscreteGaussian, Sensitivity: 100, Noise: 10000 + float64(i)}))
	}
	if a, err := Epsilon(h, 1e-5, "pld"); !errors.Is(err, ErrArgument) {
		t.Errorf("%+v, %v", a, err)
	}
	epsilonOf(t, h, 1e-5, "rdp")
}

// Where noise is too small for discretisation, pld is not above zcdp.
func TestPLD_LittleNoiseIsNotAboveZCDP(t *testing.T) {
	for _, adjacency := range []ledger.Adjacency{ledger.AddRemove, ledger.ReplaceOne} {
		h := ledger.History{Header: ledger.Header{Adjacency: adjacency}, Lots: []ledger.RepeatedLot{
			lots(.5, 1, ledger.Query{Group: "g", Mechanism: ledger.Gaussian, Sensitivity: 3.3, Noise: 1}), lots(.035, 5, ledger.Query{Group: "g", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: .0137})}}
		pld, zcdp := epsilonOf(t, h, 5e-7, "pld").Epsilon, epsilonOf(t, h, 5e-7, "zcdp").Epsilon
		if pld > zcdp {
			t.Errorf("%s: pld %v, zcdp %v", adjacency, pld, zcdp)
		}
	}
}

// If a clipping bound changes and its noise in proportion, the lots are one event, as planned.
// As different events they would be discretised differently, and a calibrated budget could be
// exceeded by rounding.
func TestEpsilon_ChangingBoundsAreOneEvent(t *testing.T) {
	plan := Plan{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: 0.0009639908697761039}, Steps: 1987, Adjacency: ledger.AddRemove}
	const target = 1.4553956864131814
	noise, err := CalibrateNoise(plan, target, 1e-5, "pld")
	if err != nil {
		t.Fatal(err)
	}
	var h ledger.History
	for lot := range plan.Steps {
		bound := 0.5 + 0.123*float64(lot%7)
		h.Lots = append(h.Lots, ledger.RepeatedLot{Lot: ledger.Lot{Sampling: plan.Sampling, Queries: []ledger.Query{{Group: "all", Mechanism: ledger.Gaussian, Sensitivity: bound, Noise: noise * bound}}}, Count: 1})
	}
	if s, err := dpevent.FromHistory(h); err != nil || len(s.Events) != 1 || s.Events[0].Count != plan.Steps || s.Events[0].GaussianShift < 1/noise {
		t.Errorf("%+v, %v", s, err)
	}
	if got := epsilonOf(t, h, 1e-5, "pld").Epsilon; got > target {
		t.Errorf("ε = %v, planned %v", got, target)
	}
}

// A group with almost no noise, together with other groups, gives a result and no panic.
func TestPLD_GroupWithTinyNoise(t *testing.T) {
	for _, mechanism := range []ledger.Mechanism{ledger.Gaussian, ledger.DiscreteGaussian} {
		for _, noise := range []float64{1e-2, 1e-9, 1e-100, 1e-200} {
			h := ledger.History{Lots: []ledger.RepeatedLot{lots(.5, 3, ledger.Query{Group: "a", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: .5}, ledger.Query{Group: "b", Mechanism: mechanism, Sensitivity: 2, Noise: noise})}}
			if a := epsilonOf(t, h, 1e-5, "pld"); !(a.Epsilon > 1) || !(a.LowerBound <= a.Epsilon) {
				t.Errorf("%s of %v: %+v", mechanism, noise, a)
			}
			deltaOf(t, h, 1, "pld")
		}
	}
}

// Several groups sampled together cost at least as much as each of them alone, down to almost
// no noise.
func TestPLD_JointLotCostsAtLeastEachGroup(t *testing.T) {
	for _, queries := range [][]ledger.Query{
		{{Group: "a", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: 1}, {Group: "b", Mechanism: ledger.Laplace, Sensitivity: 1, Noise: .005}},
		{{Group: "a", Mechanism: ledger.Laplace, Sensitivity: 1, Noise: .01}, {Group: "b", Mechanism: ledger.Laplace, Sensitivity: 1, Noise: .001}},
		{{Group: "a", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: 1. / 80}, {Group: "b", Mechanism: ledger.Laplace, Sensitivity: 1, Noise: 1}},
		{{Group: "a", Mechanism: ledger.DiscreteGaussian, Sensitivity: 1, Noise: 1. / 90}, {Group: "b", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: 10}},
		{{Group: "a", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: 1. / 70}, {Group: "b", Mechanism: ledger.DiscreteGaussian, Sensitivity: 1, Noise: 1. / 70}},
	} {
		for _, adjacency := range []ledger.Adjacency{ledger.AddRemove, ledger.ReplaceOne} {
			at := func(q ...ledger.Query) Guarantee {
				return epsilonOf(t, ledger.History{Header: ledger.Header{Adjacency: adjacency}, Lots: []ledger.RepeatedLot{lots(.05, 2, q...)}}, 1e-6, "pld")
			}
			joint := at(queries...)
			for _, q := range queries {
				if alone := at(q); joint.Epsilon < alone.LowerBound {
					t.Errorf("%s: %v together spend %v, %s alone at least %v", adjacency, queries, joint.Epsilon, q.Group, alone.LowerBound)
				}
			}
		}
	}
}

// Even if groups sampled together have almost no noise, a lot reveals nothing about a record
// that it does not contain, so δ is at most the sampling rate.
func TestPLD_DeltaIsAtMostSamplingRate(t *testing.T) {
	for _, queries := range [][]ledger.Query{
		{{Group: "a", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: 1. / 18}, {Group: "b", Mechanism: ledger.Laplace, Sensitivity: 1, Noise: 15}},
		{{Group: "a", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: 0.1}, {Group: "b", Mechanism: ledger.Laplace, Sensitivity: 1, Noise: 0.1}},
	} {
		for _, rate := range []float64{.04, .4} {
			a, err := Delta(ledger.History{Lots: []ledger.RepeatedLot{lots(rate, 1, queries...)}}, .03, "pld")
			if err != nil || !(a.Delta <= rate && a.LowerBound >= .99*rate) {
				t.Errorf("%v at rate %v: δ %+v (%v)", queries, rate, a, err)
			}
		}
	}
}

// Almost no Laplace noise, in other lots or in the same lot as Gaussian noise, gives a result
// within the time limit of go test.
func TestPLD_TinyLaplaceNoise(t *testing.T) {
	for _, adjacency := range []ledger.Adjacency{ledger.AddRemove, ledger.ReplaceOne} {
		for _, scale := range []float64{1e-6, 1e-100, 1e-300} {
			loud := ledger.Query{Group: "l", Mechanism: ledger.Laplace, Sensitivity: 1, Noise: scale}
			for name, spent := range map[string][]ledger.RepeatedLot{
				"sampled":      {lots(.01, 100, ledger.Query{Group: "g", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: 1}), lots(.01, 1, loud)},
				"of all":       {lots(.01, 100, ledger.Query{Group: "g", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: 1}), lots(1, 1, loud)},
				"the same lot": {lots(.01, 100, ledger.Query{Group: "g", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: 1}, loud)},
			} {
				h := ledger.History{Header: ledger.Header{Adjacency: adjacency}, Lots: spent}
				Delta(h, 1, "pld")
				if a, _ := Epsilon(h, 1e-5, "pld"); !(a.Epsilon > .9/scale) {
					t.Errorf("%s, %s, scale %v: %+v", adjacency, name, scale, a)
				}
			}
		}
	}
}

// The square of a Gaussian shift may overflow.
func TestEpsilon_SquaredShiftOverflows(t *testing.T) {
	for _, rate := range []float64{.1, 1} {
		for _, other := range []ledger.Mechanism{ledger.Gaussian, ledger.Laplace, ledger.DiscreteGaussian} {
			h := ledger.History{Lots: []ledger.RepeatedLot{lots(.3, 15, ledger.Query{Group: "g", Mechanism: other, Sensitivity: 1, Noise: 2}), lots(rate, 2, ledger.Query{Group: "g", Mechanism: ledger.Gaussian, Sensitivity: 1e308, Noise: 5})}}
			for _, accountant := range []string{"pld", "rdp", "zcdp", "strong", "naive"} {
				if a, err := Epsilon(h, 1e-5, accountant); err == nil && !(a.Epsilon > 1e100) {
					t.Errorf("%s, rate %v, with %s: %+v", accountant, rate, other, a)
				}
				if a, err := Delta(h, 1, accountant); err == nil && !(a.Delta > .01) {
					t.Errorf("%s, rate %v, with %s: δ %+v", accountant, rate, other, a)
				}
			}
		}
	}
}

// Too many different lots give an error if their noise cannot be rounded to fewer kinds.
func TestEpsilon_TooManyIntegratedEvents(t *testing.T) {
	var h ledger.History
	for i := range 20_000 {
		h.Lots = append(h.Lots, lots(.001, 1, ledger.Query{Group: "l", Mechanism: ledger.Laplace, Sensitivity: 1, Noise: 10 + .001*float64(i)}))
	}
	for _, accountant := range []string{"pld", "rdp", "moments"} {
		if a, err := Epsilon(h, 1e-5, accountant); !errors.Is(err, ErrArgument) {
			t.Errorf("%s: %+v, %v", accountant, a, err)
		}
		if a, err := Delta(h, 1, accountant); !errors.Is(err, ErrArgument) {
			t.Errorf("%s: %+v, %v", accountant, a, err)
		}
	}
	epsilonOf(t, h, 1e-5, "naive")
}
