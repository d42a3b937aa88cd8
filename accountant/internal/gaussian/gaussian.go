// Package gaussian computes the exact (ε, δ) of the Gaussian mechanism.
package gaussian

import (
	"math"

	"github.com/dptrain/dptrain/accountant/internal/numerics"
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
	width := (b - a) / differencePanels
	for panel := range differencePanels {
		for i, node := range numerics.Nodes {
			x := a + width*(float64(panel)+(1+node)/2)
			sum += numerics.Weights[i] * millsDecrease(x)
		}
	}
	return sum * width / 2
}

// differencePanels five-point rules have a relative error below 1e-15 on an interval of 0.5 above
// -0.25: for the bound (64/15)·M·ρ^-8/(ρ² - 1) (Trefethen 2019, theorem 19.3) at ρ = 60 on panels
// of 0.0625, -m' grows by at most e^4 in the ellipse, which reaches 1 beyond the panel.
const differencePanels = 8

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

// unit bounds the relative rounding error of one operation, with a reserve of 8%.
const unit = 1.2e-16

// deltaError bounds the error of Delta. Library functions count as correct to 2 units.
//
// a and b are correct to δ = unit·(2ε/shift + shift). This changes the density by the relative
// amount |a|·δ, and Mills' ratio by at most (1 + |x|·m(x))·δ. The ratio itself is correct to
// 16 + 8x² units below 5, and to 16 units above. The difference of two ratios has the sum of
// their errors; the integral of millsDecrease that of its values.
func deltaError(shift, epsilon, delta float64) float64 {
	ratio := epsilon / shift
	a, b := ratio-shift/2, ratio+shift/2
	moved := unit * (2*ratio + shift)
	relative := 16*unit + (2*math.Abs(a)+unit)*moved + 2*unit*a*a // of the density
	mills := func(x float64) (value, off float64) {
		value = MillsRatio(x)
		return value, value*unit*(16+8*min(x*x, 25)) + (1+math.Abs(x)*value)*moved
	}
	if a < -5 {
		m, off := mills(b)
		return density(a)*(m*relative+off+moved) + 16*unit*TailProbability(a)
	}
	if b-a > 0.5 {
		_, offA := mills(a)
		_, offB := mills(b)
		return delta*relative + density(a)*(offA+offB)
	}
	decrease := 450 * unit // of millsDecrease below 5, absolutely
	if a >= 5 {
		decrease = 32 * unit * millsDecrease(a)
	}
	// A shift of both ends by moved changes the difference of the ratios by at most that times
	// the difference of their slopes, and a change of its length by that times the slope.
	slope := millsDecrease(a)
	return delta*(relative+32*unit) + density(a)*(shift*decrease+moved*shift*2*(1+slope)+4*unit*(ratio+shift)*slope)
}

// DeltaBounds is Delta rounded up and down by its error.
func DeltaBounds(shift, epsilon float64) (upper, lower float64) {
	delta := Delta(shift, epsilon)
	off := deltaError(shift, epsilon, delta)
	if shift == 0 || !(off < math.Inf(1)) {
		return delta, delta
	}
	return min(1, delta+off), max(0, delta-off)
}

// EpsilonBounds returns an ε at which the upper bound of Delta is at most delta, and the ε at
// which its lower bound is.
func EpsilonBounds(shift, delta float64) (upper, lower float64) {
	return epsilonAt(delta, func(epsilon float64) float64 { upper, _ := DeltaBounds(shift, epsilon); return upper }),
		epsilonAt(delta, func(epsilon float64) float64 { _, lower := DeltaBounds(shift, epsilon); return lower })
}

// Epsilon is the least ε ≥ 0 at which Delta is at most delta.
func Epsilon(shift, delta float64) float64 {
	return epsilonAt(delta, func(epsilon float64) float64 { return Delta(shift, epsilon) })
}

// epsilonAt is the least ε ≥ 0 at which the decreasing function is at most delta.
func epsilonAt(delta float64, of func(epsilon float64) float64) float64 {
	if of(0) <= delta {
		return 0
	}
	below, above := 0.0, 1.0
	for of(above) > delta {
		below, above = above, 2*above
	}
	return bisect(below, above, func(epsilon float64) bool { return of(epsilon) <= delta })
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
