package pld

import (
	"math"
	"testing"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
	"github.com/dptrain/dptrain/accountant/ledger"
)

// The parameters of a computation affect its accuracy, not the validity of its bounds: the
// errors of truncation, blur and wrap-around are charged. The test makes each parameter so
// coarse that an uncharged error would be visible.
func TestComputation_CoarseParametersGiveBounds(t *testing.T) {
	const epsilon = 1
	with := func(h ledger.History, m ledger.Mechanism) ledger.History {
		h.Lots[0].Lot.Queries[0].Mechanism = m
		return h
	}
	for _, h := range []ledger.History{ledger.History{Lots: []ledger.RepeatedLot{repeatedLot(.01, 100, ledger.Query{Group: "all", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: 1})}}, ledger.History{Lots: []ledger.RepeatedLot{repeatedLot(.2, 30, ledger.Query{Group: "all", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: 3})}},
		with(ledger.History{Lots: []ledger.RepeatedLot{repeatedLot(.2, 30, ledger.Query{Group: "all", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: 3})}}, ledger.Laplace), with(ledger.History{Lots: []ledger.RepeatedLot{repeatedLot(.2, 30, ledger.Query{Group: "all", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: 3})}}, ledger.DiscreteGaussian)} {
		s, err := dpevent.FromHistory(h)
		if err != nil {
			t.Fatal(err)
		}
		knownDelta, knownLower, err := Delta(s.Events, false, epsilon)
		if err != nil {
			t.Fatal(err)
		}
		c, err := newComposer(s.Events, false)
		if err != nil {
			t.Fatal(err)
		}
		logDelta := math.Log(knownDelta)
		w := c.cumulants(removeRecord, c.cutLoss(epsilon), c.truncatedShare(logDelta))
		close := c.computation(w, w.tiltForEpsilon(epsilon), epsilon, logDelta, 1)
		close.maxEpsilon = epsilon
		for name, roughen := range map[string]func(*computation, float64){
			"share":     func(t *computation, by float64) { t.truncatedShare = by * knownDelta / c.lots },
			"threshold": func(t *computation, by float64) { t.truncatedTilted *= by * 1e9 },
			"enough":    func(t *computation, by float64) { t.sumTolerance *= by * 1e6 },
			"period":    func(t *computation, by float64) { t.period /= 1 + by },
			"cells":     func(t *computation, by float64) { t.cellVariance *= 1 + 100*by; t.maxCellWidth *= 1 + 10*by },
			"blur":      func(t *computation, by float64) { t.blurVariance *= 1 + 100*by },
		} {
			for _, by := range []float64{.01, .1, .5, 1, 2, 5} {
				rough := close
				roughen(&rough, by)
				seen := c.bounds(removeRecord, rough)
				if up, low := seen.upperDelta(epsilon), seen.lowerDelta(epsilon); up < knownLower || low > knownDelta {
					t.Errorf("rough %s, %v: δ between %v and %v, by a closer look %v and %v", name, by, low, up, knownLower, knownDelta)
				}
			}
		}
	}
}
