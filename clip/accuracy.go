package clip

import (
	"fmt"
	"math"
)

// Accuracy is what the program that computes squared norms promises about them:
// for every record and vector, with sq the number handed to [Clipper.ComputeFactors],
//
//	‖u‖² ≤ (sq + Absolute) / (1 − Relative)
//
// The promise has one side: a program whose error is larger for some records (a
// norm taken as a sum with cancelling terms) keeps it by adding its error bound
// to sq. Factors are made smaller by what Accuracy leaves open.
type Accuracy struct {
	Relative float64 // of the roundings in a sum of squares
	Absolute float64 // of what underflow may have lost
}

// Float32Accuracy is the promise of a float32 program that adds up squares so that none
// passes through more than 160 roundings (160·2⁻²⁴ < 10⁻⁵), by adding in blocks,
// and flushes numbers under 2⁻¹²⁶ to zero (8·10⁷ of them < 10⁻³⁰).
var Float32Accuracy = Accuracy{Relative: 1e-5, Absolute: 1e-30}

func (a Accuracy) check() error {
	if !(a.Relative >= 0 && a.Relative < 0.5) {
		return fmt.Errorf("clip: relative error %v of squared norms, want a number from 0 to below 0.5", a.Relative)
	}
	if !(a.Absolute >= 0 && a.Absolute <= 1) {
		return fmt.Errorf("clip: absolute error %v of squared norms, want a number from 0 to 1", a.Absolute)
	}
	return nil
}

// Bounds and scales keep to this range, so that no product, square root or
// quotient of them and of float32 squares leaves the normal float64 numbers.
const (
	minBound = 1e-18
	maxBound = 1e18
)

// roundingMargin covers every rounding between the true quotient S/‖u‖ and c·u:
//
//   - upper, below, is at least ‖u‖·(1 − (V+4)·2⁻⁵³) for V vectors: V products
//     and V sums of positive terms, a division, a square root, each within 2⁻⁵³;
//   - the quotient, its product with the margin and a rule's minimum are within
//     3·2⁻⁵³;
//   - the conversion to a normal float32 is within 2⁻²⁴;
//   - a program that multiplies rows by c in float32 is within another 2⁻²⁴ of a
//     normal product.
//
// Together less than 2⁻²² for V up to 2³⁰, so c·‖u‖ < S·(1 − 2⁻²⁰)(1 + 2⁻²²) < S.
const roundingMargin = 1 - 1.0/(1<<20)

// minFactor is the least float32 with a full significand; below it the
// conversion could exceed its relative error, so factors there become 0.
const minFactor = 0x1p-126

// clipFactor is the factor of a record whose group has a true norm of at most upper.
func clipFactor(rule Rule, upper, bound float64) float32 {
	c := min(rule.Factor(upper, bound), bound*roundingMargin/upper)
	if !(c >= minFactor) { // NaN too
		return 0
	}
	return float32(min(c, math.MaxFloat32))
}
