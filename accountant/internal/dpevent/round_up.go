package dpevent

import "math"

// RoundingUnit bounds the relative rounding error 2^-53 of one operation of float64, and leaves
// 8% for products of errors and for the rounding of the bounds themselves.
const RoundingUnit = 1.2e-16

// AddUp is the least float64 that is not below a + b, for a and b of at least 0.
func AddUp(a, b float64) float64 {
	sum := a + b
	large, small := max(a, b), min(a, b)
	if sum-large < small && !math.IsInf(sum, 1) { // sum - large is exact (Dekker 1971)
		return math.Nextafter(sum, math.Inf(1))
	}
	return sum
}

// MultiplyUp is the least float64 that is not below a·b, for a and b of at least 0.
func MultiplyUp(a, b float64) float64 {
	product := a * b
	if product > minExact && math.FMA(a, b, -product) > 0 {
		return math.Nextafter(product, math.Inf(1))
	}
	return product
}

// DivideUp is the least float64 that is not below a/b, for a of at least 0 and b above 0.
func DivideUp(a, b float64) float64 {
	quotient := a / b
	if a > minExact && quotient > minExact && math.FMA(quotient, b, -a) < 0 {
		return math.Nextafter(quotient, math.Inf(1))
	}
	return quotient
}

// SqrtUp is the least float64 that is not below √a.
func SqrtUp(a float64) float64 {
	root := math.Sqrt(a)
	if a > minExact && math.FMA(root, root, -a) < 0 {
		return math.Nextafter(root, math.Inf(1))
	}
	return root
}

// minExact is far above the least number whose rounding error is a float64. Noise that large
// compared with the sensitivity reveals nothing that any ε shows.
const minExact = 1e-270
