// Package gaussian computes the exact (ε, δ) of the Gaussian mechanism.
package gaussian

import (
	"math"

	"github.com/dptrain/dptrain/internal/quadrature"
)

// Delta is δ(ε) of a unit Gaussian that is moved by shift (Balle and Wang 2018,
// "Improving the Gaussian Mechanism", theorem 8):
//
//	Φ(shift/2 - ε/shift) - e^ε·Φ(-shift/2 - ε/shift).
//
// With Φ(-x) = φ(x)·m(x), m Mills' ratio, both terms share the factor
// φ(ε/shift - shift/2), so nothing overflows and little cancels.
func Delta(shift, epsilon float64) float64 {
	if shift == 0 {
		return 0
	}
	a := epsilon/shift - shift/2
	b := epsilon/shift + shift/2
	if a < -5 { // m(a) would overflow; the second term is small
		return TailProbability(a) - density(a)*MillsRatio(b)
	}
	return density(a) * millsDifference(a, b)
}

func density(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }

// TailProbability is 1-Φ(x).
func TailProbability(x float64) float64 { return math.Erfc(x*math.Sqrt2/2) / 2 }

// MillsRatio is (1-Φ(x))/φ(x).
func MillsRatio(x float64) float64 {
	if x < 5 {
		return math.Erfc(x*math.Sqrt2/2) * math.Exp(x*x/2) * math.Sqrt(math.Pi/2)
	}
	// Laplace's continued fraction, evaluated from a term that no longer matters.
	fraction := x
	for k := 60.0; k >= 1; k-- {
		fraction = x + k/fraction
	}
	return 1 / fraction
}

// millsDifference is m(a) - m(b) for a < b. Where the difference would cancel, it integrates
// -m'(x) = 1 - x·m(x).
func millsDifference(a, b float64) float64 {
	if b-a > 0.5 {
		return MillsRatio(a) - MillsRatio(b)
	}
	sum := 0.0
	for i, node := range quadrature.Nodes {
		x := a + (b-a)*(1+node)/2
		sum += quadrature.Weights[i] * millsDecrease(x)
	}
	return sum * (b - a) / 2
}

// millsDecrease is -m'(x) = 1 - x·m(x), which equals m(x) times the continued fraction 1/(x + 2/(x + 3/(x + …))).
func millsDecrease(x float64) float64 {
	if x < 5 {
		return 1 - x*MillsRatio(x)
	}
	fraction := x
	for k := 60.0; k >= 2; k-- {
		fraction = x + k/fraction
	}
	return MillsRatio(x) / fraction
}

// Epsilon is the least ε ≥ 0 at which Delta is at most delta.
func Epsilon(shift, delta float64) float64 {
	if Delta(shift, 0) <= delta {
		return 0
	}
	below, above := 0.0, 1.0
	for Delta(shift, above) > delta {
		below, above = above, 2*above
	}
	return bisect(below, above, func(epsilon float64) bool { return Delta(shift, epsilon) <= delta })
}

// bisect finds where a predicate becomes true, as precisely as float64 allows. The
// predicate is false at below and true at above. The result is on the true side.
func bisect(below, above float64, holds func(float64) bool) float64 {
	for {
		middle := below + (above-below)/2
		if middle <= below || middle >= above || above-below <= 1e-15*above {
			return above
		}
		if holds(middle) {
			above = middle
		} else {
			below = middle
		}
	}
}
