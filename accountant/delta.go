package accountant

import "math"

// DefaultDelta returns the largest power of ten that is at most 1/(10·records).
func DefaultDelta(records int) float64 {
	k := 1
	for math.Pow10(k) < 10*float64(records) {
		k++
	}
	return math.Pow10(-k)
}
