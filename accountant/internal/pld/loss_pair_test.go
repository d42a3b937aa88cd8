package pld

import (
	"math"
	"testing"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
)

// baseLoss inverts likelihoodRatio, also where the exponential overflows.
func TestLossPair_BaseLoss(t *testing.T) {
	p := gaussianPair(1)
	for _, p.rate = range []float64{1e-9, .3, 1} {
		for _, y := range []float64{.01, 1, 30, 598, 602, 700, 5000} {
			_, l := p.likelihoodRatio(y)
			checkNear(t, "the base loss", p.baseLoss(l), y, 1e-6)
		}
	}
}

// The tail probabilities of P and Q agree with the midpoint rule.
func TestLossPair_TailProbabilities(t *testing.T) {
	laplace := laplacePair(2)
	laplace.rate = .3
	gaussian := gaussianPair(1.2)
	gaussian.rate = .3
	displaced := gaussian
	displaced.near = .6
	for _, p := range []lossPair{laplace, gaussian, poissonReplaceOnePair(.3, 1.2), displaced} {
		const from, step = .7, 1. / 4096
		want := probabilities{}
		for x := from + step/2; x < min(p.to, 14); x += step {
			density := math.Exp(p.logDensity(x)) * step
			excess, _ := p.likelihoodRatio(p.slope*x + p.offset)
			want.add(probabilities{density * (1 + excess), density})
		}
		got := p.tailProbabilities(from)
		checkNear(t, "with the record", got.with, want.with, 1e-4)
		checkNear(t, "without it", got.without, want.without, 1e-4)
	}
}

// The pair of a replaced record is symmetric around ε = 0, which its composition for any data
// requires. For lots of a fixed size this applies to the proven curve.
func TestComposer_ReplaceOneDirections(t *testing.T) {
	for _, c := range []struct {
		event  dpevent.Event
		proven bool
		want   lossDirection
	}{
		{dpevent.Event{Rate: .3, LaplaceShifts: []float64{1}}, false, removeRecord},
		{dpevent.Event{Rate: .3, LaplaceShifts: []float64{1}, ReplaceOne: true}, false, bothDirections},
		{dpevent.Event{Rate: .3, GaussianShift: 1, LaplaceShifts: []float64{1}, ReplaceOne: true}, false, bothDirections},
		{dpevent.Event{Rate: .3, DiscreteGaussians: []dpevent.DiscreteGaussian{{Shift: 2, Sigma: 2}}, ReplaceOne: true, FixedSize: true}, false, removeRecord},
		{dpevent.Event{Rate: .3, GaussianShift: 1, ReplaceOne: true, FixedSize: true}, true, bothDirections},
	} {
		k, err := newComposer([]dpevent.RepeatedEvent{{Event: c.event, Count: 1}}, c.proven)
		if err != nil {
			t.Fatal(err)
		}
		if p := k.dominatingPair(c.event, removeRecord, math.Inf(1), 1e-9); p.direction != c.want {
			t.Errorf("%+v, proven: %v: direction %v, want %v", c.event, c.proven, p.direction, c.want)
		}
		if p := k.dominatingPair(c.event, addRecord, math.Inf(1), 1e-9); p.direction != max(c.want, addRecord) {
			t.Errorf("%+v, proven: %v: the other direction is %v", c.event, c.proven, p.direction)
		}
	}
}
