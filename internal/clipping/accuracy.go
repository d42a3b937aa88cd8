package clipping

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/clip"
)

// Accuracy bounds the error of computed squared norms. For every record and parameter, with
// sq the number given to [Clipper.ComputeFactors],
//
//	‖u‖² ≤ (sq + Absolute) / (1 − Relative)
//
// The bound is one-sided: norms are never underestimated by more than this. A program with a
// larger error for some records, as for a norm computed as a sum with cancelling terms, adds
// its error bound to sq. Factors are reduced by the error that Accuracy allows. The error bound
// may depend on the public size of the microbatch, and then the factor does too; every such factor
// keeps the sensitivity.
type Accuracy struct {
	Relative float64 // from the roundings of a sum of squares
	Absolute float64 // from underflow

	// Margin is the share of the bound that factors leave to what a program adds to a
	// contribution's norm after it multiplied by the factor; at least 2⁻²⁰ is left.
	Margin float64
}

// Float32Accuracy is the accuracy of a float32 program that adds squares in blocks, so that
// each passes through at most 160 roundings (160·2⁻²⁴ < 10⁻⁵), and that flushes numbers
// below 2⁻¹²⁶ to zero (8·10⁷ of them add less than 10⁻³⁰).
var Float32Accuracy = Accuracy{Relative: 1e-5, Absolute: 1e-30}

// LatticeAccuracy is Float32Accuracy for a program that rounds contributions to a lattice at
// random and omits a contribution that exceeds the bound. The margin makes that improbable.
// The guarantee does not depend on it.
var LatticeAccuracy = Accuracy{Relative: 1e-5, Absolute: 1e-30, Margin: 1.0 / 256}

func (a Accuracy) check() error {
	if !(a.Relative >= 0 && a.Relative < 0.5) {
		return fmt.Errorf("clip: the relative error of squared norms is %v: use a number from 0 to below 0.5", a.Relative)
	}
	if !(a.Absolute >= 0 && a.Absolute <= 1) {
		return fmt.Errorf("clip: the absolute error of squared norms is %v: use a number from 0 to 1", a.Absolute)
	}
	if !(a.Margin >= 0 && a.Margin < 1) {
		return fmt.Errorf("clip: the margin of factors is %v: use a number from 0 to below 1", a.Margin)
	}
	return nil
}

// Bounds and scales stay in this range, so that no product, square root or quotient of them
// and of float32 squares leaves the range of normal float64 numbers.
const (
	minBound = 1e-18
	maxBound = 1e18
)

// roundingMargin covers every rounding between the true quotient S/‖u‖ and c·u:
//
//   - upper, in Formula, is at least ‖u‖·(1 − (V+4)·2⁻⁵³) for V parameters: V products
//     and V sums of positive terms, a division, a square root, each within 2⁻⁵³;
//   - the quotient, its product with the margin and a rule's minimum are within
//     3·2⁻⁵³;
//   - the conversion to a normal float32 is within 2⁻²⁴;
//   - a program that multiplies rows by c in float32 is within another 2⁻²⁴ of a
//     normal product.
//
// Together less than 2⁻²² for V up to 2³⁰, so c·‖u‖ < S·(1 − 2⁻²⁰)(1 + 2⁻²²) < S.
const roundingMargin = 1 - 1.0/(1<<20)

// minFactor is the least float32 with a full significand. The conversion of a smaller number
// could exceed the relative error above, so smaller factors become 0.
const minFactor = 0x1p-126

// factorMargin returns what factors are multiplied by.
func (a Accuracy) factorMargin() float64 { return min(roundingMargin, 1-a.Margin) }

// clipFactor returns the factor of a record whose group has a true norm of at most upper.
func clipFactor(rule clip.Rule, upper, bound, margin float64) float32 {
	c := min(rule.Factor(upper, bound), bound*margin/upper)
	if !(c >= minFactor) { // NaN too
		return 0
	}
	return float32(min(c, math.MaxFloat32))
}
