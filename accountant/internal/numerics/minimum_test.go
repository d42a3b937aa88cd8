package numerics

import (
	"math"
	"testing"
)

// The minimum of a function with one is found to within the width of the last interval, also at an end.
func TestGoldenSection_FindsMinimum(t *testing.T) {
	for _, want := range []float64{-2, 0.3, 5} {
		got := GoldenSection(func(x float64) float64 { return math.Abs(x - want) }, -2, 5, 40)
		if width := 7 * math.Pow(0.6180339887498949, 40); !(math.Abs(got-want) <= width) {
			t.Errorf("the minimum at %v was found at %v", want, got)
		}
	}
}
