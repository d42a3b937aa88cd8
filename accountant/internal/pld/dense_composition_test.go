package pld

import (
	"math"
	"math/cmplx"
	"testing"

	"gonum.org/v1/gonum/dsp/fourier"

	"github.com/dptrain/dptrain/accountant/ledger"
)

// An independent and simple composition for moderate δ: the losses of one lot by the midpoint
// rule, split between the points of a dense grid, and a power of their Fourier transform. The
// error is of second order in the grid step and is removed by extrapolation.

const denseSize = 1 << 16

// base are base losses and their probabilities without the record.
type base struct{ loss, probability []float64 }

func (b *base) add(loss, probability float64) {
	b.loss, b.probability = append(b.loss, loss), append(b.probability, probability)
}

func gaussianBase(shift float64) (b base) {
	const step = 1.0 / 64
	for x := -9.0; x < 9+shift; x += step {
		b.add(shift*x-shift*shift/2, math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)*step)
	}
	return b
}

// opposedBase are the losses of a lot in which one record is replaced by its opposite, and
// their probabilities with the other record: a phase of rate 1.
func opposedBase(rate, shift float64) (b base) {
	const step = 1.0 / 64
	for x := -9.0 - shift; x < 9+shift; x += step {
		one, other := rate*math.Exp(shift*x-shift*shift/2)+1-rate, rate*math.Exp(-shift*x-shift*shift/2)+1-rate
		b.add(math.Log(one/other), other*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)*step)
	}
	return b
}

func laplaceBase(shift float64) (b base) {
	const parts = 400
	b.add(-shift, 0.5)
	b.add(shift, math.Exp(-shift)/2)
	for i := range parts {
		x := shift * (float64(i) + 0.5) / parts
		b.add(2*x-shift, math.Exp(-x)/2*shift/parts)
	}
	return b
}

func latticeBase(shift, sigma float64) (b base) {
	total := 0.0
	for k := -60.0; k <= 60; k++ {
		probability := math.Exp(-k * k / (2 * sigma * sigma))
		total += probability
		b.add((2*k-shift)*shift/(2*sigma*sigma), probability)
	}
	for i := range b.probability {
		b.probability[i] /= total
	}
	return b
}

func product(a, b base) (both base) {
	for i, x := range a.loss {
		for k, y := range b.loss {
			if probability := a.probability[i] * b.probability[k]; probability*math.Exp(max(0, x+y)) > 1e-18 {
				both.add(x+y, probability)
			}
		}
	}
	return both
}

// displacedBase are the losses of a truncated lot in which the record takes the place of
// another one, under zero-out adjacency: a phase of rate 1.
func displacedBase(rate, shift float64) (b base) {
	const step = 1.0 / 64
	for x := -9.0; x < 9+2*shift; x += step {
		with, without := rate*math.Exp(2*shift*x-2*shift*shift)+1-rate, rate*math.Exp(shift*x-shift*shift/2)+1-rate
		b.add(math.Log(with/without), without*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)*step)
	}
	return b
}

// phase is a number of equal lots.
type phase struct {
	base
	rate  float64
	steps int

	truncated *phase  // the pair of truncated lots
	share     float64 // of truncated lots
	symmetric bool    // the pair has its curve on both sides
}

// truncatedPhase has truncated lots of at most `most` of n records. It adds up all terms of the
// binomial distribution.
func truncatedPhase(n int, rate float64, most int, shift float64, steps int, adjacency ledger.Adjacency) phase {
	term, truncated, more := 1.0, 0.0, 0.0 // of n - 1 records
	for range n - 1 {
		term *= 1 - rate
	}
	for k := range n {
		if k >= most {
			truncated += term
			more += rate * term * float64(most) / float64(k+1) // the record is drawn, and one of those kept
		}
		term *= float64(n-1-k) / float64(k+1) * rate / (1 - rate)
	}
	c := more / truncated
	other := phase{displacedBase(c, shift), 1, steps, nil, 0, true}
	switch adjacency {
	case ledger.AddRemove:
		other = phase{gaussianBase(2 * shift), rate, steps, nil, 0, false}
	case ledger.ReplaceOne:
		other = phase{gaussianBase(2 * shift), c, steps, nil, 0, true}
		return phase{opposedBase(rate, shift), 1, steps, &other, truncated, false}
	}
	return phase{gaussianBase(shift), rate, steps, &other, truncated, false}
}

// dense are the probabilities on the grid of the losses of one lot in one direction.
func (p phase) dense(d lossDirection, step float64) []float64 {
	if p.truncated != nil {
		other := *p.truncated
		p.truncated = nil
		x, y := p.dense(d, step), other.dense(d, step)
		for i := range x {
			x[i] += p.share * (y[i] - x[i])
		}
		return x
	}
	if p.symmetric {
		d = bothDirections
	}
	x := make([]float64, denseSize)
	rest := 1.0
	put := func(loss, probability float64) {
		cell := math.Floor(loss / step)
		part := math.Expm1((cell+1)*step-loss) / math.Expm1(step)
		i := int(cell) & (denseSize - 1)
		x[i] += probability * part
		x[(i+1)&(denseSize-1)] += probability * (1 - part)
		rest -= probability
	}
	for i, y := range p.loss {
		ratio := 1 + p.rate*math.Expm1(y)
		switch {
		case d == removeRecord:
			put(math.Log(ratio), p.probability[i]*ratio)
		case d == addRecord:
			put(-math.Log(ratio), p.probability[i])
		case y > 0:
			put(math.Log(ratio), p.probability[i]*ratio)
			put(-math.Log(ratio), p.probability[i])
		}
	}
	x[0] += rest
	return x
}

// denseDelta is δ(ε) of all phases together on a grid with the given step.
func denseDelta(d lossDirection, step, epsilon float64, phases []phase) float64 {
	transform := fourier.NewFFT(denseSize)
	all := make([]complex128, denseSize/2+1)
	for i := range all {
		all[i] = 1
	}
	for _, p := range phases {
		for i, z := range transform.Coefficients(nil, p.dense(d, step)) {
			all[i] *= cmplx.Pow(z, complex(float64(p.steps), 0))
		}
	}
	delta := 0.0
	for i, probability := range transform.Sequence(nil, all) {
		loss := float64(i) * step
		if i > denseSize*3/4 {
			loss -= denseSize * step
		}
		if loss > epsilon {
			delta -= probability / denseSize * math.Expm1(epsilon-loss)
		}
	}
	return delta
}

func TestEpsilon_AgreesWithDenseComposition(t *testing.T) {
	t.Parallel()
	gaussian := func(sigma float64) ledger.Query {
		return ledger.Query{Group: "g", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: sigma}
	}
	laplace := func(scale float64) ledger.Query {
		return ledger.Query{Group: "l", Mechanism: ledger.Laplace, Sensitivity: 1, Noise: scale}
	}
	lattice := func(shift, sigma float64) ledger.Query {
		return ledger.Query{Group: "d", Mechanism: ledger.DiscreteGaussian, Sensitivity: shift, Noise: sigma}
	}
	both := product(gaussianBase(1/1.5), laplaceBase(1.0/3))
	for _, c := range []struct {
		what      string
		adjacency ledger.Adjacency
		epsilon   float64
		spent     []ledger.RepeatedLot
		phases    []phase
	}{
		{"Gaussians", ledger.AddRemove, 1.5, []ledger.RepeatedLot{repeatedLot(.1, 60, gaussian(1.2))}, []phase{{base: gaussianBase(1 / 1.2), rate: .1, steps: 60}}},
		{"few Gaussians of little noise", ledger.AddRemove, 4, []ledger.RepeatedLot{repeatedLot(.02, 7, gaussian(.5))}, []phase{{base: gaussianBase(2), rate: .02, steps: 7}}},
		{"Laplaces", ledger.AddRemove, 2, []ledger.RepeatedLot{repeatedLot(.2, 40, laplace(1))}, []phase{{base: laplaceBase(1), rate: .2, steps: 40}}},
		{"Laplaces unsampled", ledger.AddRemove, 3, []ledger.RepeatedLot{repeatedLot(1, 12, laplace(2))}, []phase{{base: laplaceBase(.5), rate: 1, steps: 12}}},
		{"discrete Gaussians", ledger.AddRemove, 5, []ledger.RepeatedLot{repeatedLot(.05, 30, lattice(3, 2))}, []phase{{base: latticeBase(3, 2), rate: .05, steps: 30}}},
		{"phases", ledger.AddRemove, 1, []ledger.RepeatedLot{repeatedLot(.05, 100, gaussian(1.5)), repeatedLot(.1, 20, laplace(2))}, []phase{{base: gaussianBase(1 / 1.5), rate: .05, steps: 100}, {base: laplaceBase(.5), rate: .1, steps: 20}}},
		{"releases that all take part in", ledger.AddRemove, 2, []ledger.RepeatedLot{repeatedLot(.1, 60, gaussian(1.2)), repeatedLot(1, 3, gaussian(4)), repeatedLot(1, 2, laplace(9))},
			[]phase{{base: gaussianBase(1 / 1.2), rate: .1, steps: 60}, {base: gaussianBase(.25), rate: 1, steps: 3}, {base: laplaceBase(1. / 9), rate: 1, steps: 2}}},
		{"Gaussian and Laplace in one lot", ledger.AddRemove, 1, []ledger.RepeatedLot{repeatedLot(.05, 100, gaussian(1.5), laplace(3))}, []phase{{base: both, rate: .05, steps: 100}}},
		{"discrete Gaussian and Laplace in one lot", ledger.AddRemove, 9, []ledger.RepeatedLot{repeatedLot(1e-3, 500, lattice(6, 1.6), laplace(2.4))}, []phase{{base: product(latticeBase(6, 1.6), laplaceBase(1/2.4)), rate: 1e-3, steps: 500}}},
		{"a record replaced", ledger.ReplaceOne, 1, []ledger.RepeatedLot{repeatedLot(.05, 60, gaussian(2.4))}, []phase{{base: opposedBase(.05, 1/2.4), rate: 1, steps: 60}}},
		{"a record replaced, little noise", ledger.ReplaceOne, 5, []ledger.RepeatedLot{repeatedLot(.02, 30, gaussian(.6))}, []phase{{base: opposedBase(.02, 1/.6), rate: 1, steps: 30}}},
		{"a record replaced in lots of two kinds of noise", ledger.ReplaceOne, 1, []ledger.RepeatedLot{repeatedLot(.05, 100, gaussian(3), laplace(6))}, []phase{{base: both, rate: .05, steps: 100}}},
		{"truncated lots", ledger.ZeroOut, 1.5, []ledger.RepeatedLot{truncatedLot(80, .1, 11, 60, 1.2)}, []phase{truncatedPhase(80, .1, 11, 1/1.2, 60, ledger.ZeroOut)}},
		{"lots that are usually truncated", ledger.ZeroOut, 2, []ledger.RepeatedLot{truncatedLot(200, .1, 12, 60, 1.5)}, []phase{truncatedPhase(200, .1, 12, 1/1.5, 60, ledger.ZeroOut)}},
		{"truncated lots of little noise", ledger.ZeroOut, 4, []ledger.RepeatedLot{truncatedLot(300, .02, 8, 7, .5)}, []phase{truncatedPhase(300, .02, 8, 2, 7, ledger.ZeroOut)}},
		{"truncated lots of a declared number", ledger.AddRemove, 3, []ledger.RepeatedLot{truncatedLot(80, .1, 11, 60, 1.2)}, []phase{truncatedPhase(80, .1, 11, 1/1.2, 60, ledger.AddRemove)}},
		{"truncated lots and a record replaced", ledger.ReplaceOne, 1.5, []ledger.RepeatedLot{truncatedLot(80, .1, 11, 60, 2.4)}, []phase{truncatedPhase(80, .1, 11, 1/2.4, 60, ledger.ReplaceOne)}},
		{"truncated and other lots", ledger.ZeroOut, 2, []ledger.RepeatedLot{truncatedLot(80, .1, 11, 60, 1.2), repeatedLot(.05, 100, gaussian(1.5))}, []phase{truncatedPhase(80, .1, 11, 1/1.2, 60, ledger.ZeroOut), {base: gaussianBase(1 / 1.5), rate: .05, steps: 100}}},
		{"a run of rare losses", ledger.AddRemove, .2, []ledger.RepeatedLot{repeatedLot(1e-3, 2000, gaussian(.8))}, []phase{{base: gaussianBase(1 / .8), rate: 1e-3, steps: 2000}}},
	} {
		directions := []lossDirection{removeRecord, addRecord}
		if c.adjacency == ledger.ReplaceOne {
			directions = []lossDirection{bothDirections}
			if c.phases[0].rate == 1 { // symmetric by itself
				directions = []lossDirection{removeRecord}
			}
		}
		want := 0.0
		for _, d := range directions {
			step := 1. / 1024
			if c.phases[0].steps > 1000 {
				step = 1. / 8192
			}
			wide, narrow := denseDelta(d, 2*step, c.epsilon, c.phases), denseDelta(d, step, c.epsilon, c.phases)
			want = max(want, narrow+(narrow-wide)/3)
		}
		h := ledger.History{Header: ledger.Header{Adjacency: c.adjacency}, Lots: c.spent}
		got := deltaBounds(t, h, c.epsilon)
		if want < 1e-7 || got.upper < want*(1-2e-4) || got.lower > want*(1+2e-4) || got.upper-got.lower > 2e-3*got.upper {
			t.Errorf("%s: δ(%v) is %v, want it in [%v, %v]", c.what, c.epsilon, want, got.lower, got.upper)
		}
		back := epsilonBounds(t, h, want)
		if back.upper < c.epsilon*(1-2e-4) || back.lower > c.epsilon*(1+2e-4) || back.upper-back.lower > 2e-3*back.upper {
			t.Errorf("%s: ε(%v) is %v, want it in [%v, %v]", c.what, want, c.epsilon, back.lower, back.upper)
		}
	}
}
