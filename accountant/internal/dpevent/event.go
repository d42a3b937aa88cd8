package dpevent

import (
	"fmt"
	"slices"

	"github.com/dptrain/dptrain/accountant/ledger"
)

// Event is the effect of the record in which two data sets differ on the queries of one
// lot. The record takes part with probability Rate. It then moves the sum of each group by
// its sensitivity, or by twice that if the record is replaced.
//
// All Gaussian groups together are one Gaussian: by rotation and scaling, the joint release
// of N(x_g, σ_g²) with ‖x_g‖ ≤ S_g is one unit Gaussian moved by at most
// (Σ (S_g/σ_g)²)^(1/2) (McMahan et al. 2019, section 3).
//
// A rounded Gaussian counts as the Gaussian of its sensitivity and noise. Its sum f of integers
// has norm changes of at most the lattice, which is the sensitivity in lattice steps, and f + N
// with N normal over the reals is the Gaussian mechanism. What is released is f + N rounded to a
// public grid: post-processing, which never costs more, for every neighbour relation, sampling
// and adaptive composition. Noise computed and added in floating point is not of this form:
// the values that it reaches depend on f (Mironov 2012, "On Significance of the Least
// Significant Bits for Differential Privacy"). The ledger's Gaussian is accounted as if it were.
type Event struct {
	Rate              float64            // sampling probability; 1 without sampling
	ReplaceOne        bool               // the record is replaced, not added or removed
	FixedSize         bool               // the record is replaced in a lot of a fixed size, drawn without replacement
	GaussianShift     float64            // (Σ (S/σ)²)^(1/2) over the Gaussian and the rounded Gaussian groups
	LaplaceShifts     []float64          // S/scale of each Laplace group, and of what one dominates
	PureLosses        []float64          // ε of each mechanism that satisfies ε-differential privacy without δ and is known by this alone
	DiscreteGaussians []DiscreteGaussian // the discrete Gaussian groups
	Truncation        Truncation         // truncated lots, whose pair is another one; all noise is then Gaussian
}

// DiscreteGaussian is a group of integers with discrete Gaussian noise, moved by Shift.
type DiscreteGaussian struct{ Shift, Sigma float64 }

// SquaredRatio is (shift/σ)². It does not compute shift² or σ², which may be out of range.
func (d DiscreteGaussian) SquaredRatio() float64 { return d.Shift / d.Sigma * (d.Shift / d.Sigma) }

// GaussianOnly reports whether all noise of the lot is Gaussian.
func (e Event) GaussianOnly() bool { return !e.hasPure() && len(e.DiscreteGaussians) == 0 }

func (e Event) hasPure() bool { return len(e.LaplaceShifts)+len(e.PureLosses) > 0 }

// PureLoss is the largest loss of the groups that satisfy ε-differential privacy without δ.
func (e Event) PureLoss() float64 {
	total := 0.0
	for _, list := range [2][]float64{e.LaplaceShifts, e.PureLosses} {
		for _, loss := range list {
			total = AddUp(total, loss)
		}
	}
	return total
}

// IsPure reports whether the event satisfies ε-differential privacy without δ.
func (e Event) IsPure() bool { return e.GaussianShift == 0 && len(e.DiscreteGaussians) == 0 }

// Subsampled reports whether the record may be absent from the lot.
func (e Event) Subsampled() bool { return e.Rate < 1 }

// Key is equal for equal events.
func (e Event) Key() string {
	return fmt.Sprint(e.Rate, e.ReplaceOne, e.FixedSize, e.GaussianShift, e.LaplaceShifts, e.PureLosses, e.DiscreteGaussians, e.Truncation)
}

// newEvent rounds every shift and rate up: the event dominates that of the exact quotients.
func newEvent(lot ledger.Lot, adjacency ledger.Adjacency) Event {
	e := Event{Rate: 1, ReplaceOne: adjacency == ledger.ReplaceOne}
	scale := 1.0
	if e.ReplaceOne {
		scale = 2
	}
	switch lot.Sampling.Policy {
	case ledger.Poisson:
		e.Rate = lot.Sampling.Rate
	case ledger.FixedSize:
		e.Rate = DivideUp(float64(lot.Sampling.LotSize), float64(lot.Sampling.Records))
		e.FixedSize = e.Subsampled()
	case ledger.Truncated:
		e.Rate, e.Truncation = lot.Sampling.Rate, newTruncation(lot.Sampling, adjacency)
	}
	gaussians, shift, squares := 0, 0.0, 0.0
	for _, q := range lot.Queries {
		ratio := DivideUp(scale*q.Sensitivity, q.Noise)
		switch {
		case ratio == 0:
		case q.Mechanism == ledger.Gaussian, q.Mechanism == ledger.RoundedGaussian:
			gaussians, shift = gaussians+1, ratio
			squares = AddUp(squares, MultiplyUp(ratio, ratio))
		case q.Mechanism == ledger.Laplace:
			e.LaplaceShifts = append(e.LaplaceShifts, ratio)
		case q.Mechanism == ledger.DiscreteLaplace:
			e.LaplaceShifts = append(e.LaplaceShifts, discreteLaplaceShift(scale*float64(q.Lattice), q.LatticeScale()))
		case q.Mechanism == ledger.PermuteAndFlip:
			e.PureLosses = append(e.PureLosses, 2*ratio)
		case q.Mechanism == ledger.DiscreteGaussian:
			e.DiscreteGaussians = append(e.DiscreteGaussians, DiscreteGaussian{scale * q.Sensitivity, q.Noise})
		}
	}
	if e.GaussianShift = shift; gaussians > 1 {
		e.GaussianShift = SqrtUp(squares)
	}
	slices.Sort(e.LaplaceShifts)
	slices.Sort(e.PureLosses)
	return e
}

// discreteLaplaceShift returns the shift of Laplace noise of scale 1 whose pair dominates that of
// discrete Laplace noise of scale t on vectors of integers that move by an l1 distance of at most
// d. Probabilities of discrete Laplace noise are proportional to q^|x|, q = e^(-1/t).
//
// Let one coordinate move by d. The likelihood ratio q^|x|/q^|x-d| exceeds e^s, for s =
// (d-2k-1+v)/t with v from -1 to 1, exactly where x ≤ k. So the hockey-stick divergence at s is
//
//	Pr[x ≤ k] - e^s·Pr[x-d ≤ k] = 1 - q^(k+1)·(1 + q^-v)/(1+q),
//
// and that of Laplace noise of scale 1 with the shift u is 1 - e^((s-u)/2) for -u ≤ s ≤ u. The
// second is at least the first if cosh(v/2t)/cosh(1/2t) ≥ e^(-(u-d/t)/2), which u = d/t + 1/(4t²)
// satisfies, because ln cosh(x) ≤ x²/2. For s beyond ±d/t both are equal or the first is 0. A pair
// with a larger hockey-stick divergence at every s dominates, also after sampling and composition
// (Zhu, Dong and Wang 2022).
//
// Several coordinates that move by d_1, d_2, … in sum d, none of them 0, are dominated by Laplace
// noise with the shifts u_i = d_i/t + 1/(4t²), and this by one with their sum, which is at most
// d/t + d/(4t²): for shifts a ≥ b and s ≥ 0, the loss of the second is at most b, and the
// divergence of the first decreases in s, so that the divergence of both at s is at most that of
// the first at s-b ≥ -a, which is 1 - e^((s-a-b)/2). For s < 0 use the symmetry of the pairs.
func discreteLaplaceShift(d, t float64) float64 {
	ratio := DivideUp(d, t)
	return AddUp(ratio, DivideUp(ratio, 4*t))
}

// dominatingEvent returns an event that dominates both a and b.
func dominatingEvent(a, b Event) Event {
	w := Event{Rate: max(a.Rate, b.Rate), ReplaceOne: a.ReplaceOne || b.ReplaceOne, GaussianShift: max(a.GaussianShift, b.GaussianShift)}
	w.LaplaceShifts = largerOfEach(a.LaplaceShifts, b.LaplaceShifts)
	w.PureLosses = largerOfEach(a.PureLosses, b.PureLosses)
	if slices.Equal(a.DiscreteGaussians, b.DiscreteGaussians) {
		w.DiscreteGaussians = a.DiscreteGaussians
	} else {
		w.DiscreteGaussians = slices.Concat(a.DiscreteGaussians, b.DiscreteGaussians)
	}
	return w
}

func largerOfEach(few, many []float64) []float64 {
	if len(few) > len(many) {
		few, many = many, few
	}
	larger := slices.Clone(many)
	for i, x := range few {
		larger[i] = max(x, many[i])
	}
	return larger
}
