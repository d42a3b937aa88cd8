package plan

import (
	"fmt"
	"math"
	"testing"
)

// A record's integers in all parts of a group have at most the squared norm of its own bound, which is
// what they take of its budget, for every factor.
func TestAdmission_BoundsOfRecords(t *testing.T) {
	gradient := make([]float32, BuiltBlock+9)
	norm := 0.0
	for i := range gradient {
		gradient[i] = float32(i%5) - 1.75
		norm += float64(gradient[i]) * float64(gradient[i])
	}
	norm = math.Sqrt(norm)
	bounds := []int64{0, 3000, Bound / 2, Bound, 3 * Bound}
	for _, factor := range []float64{0.5, 0.99, 1.5, 1e4, 1e30, math.Inf(1), math.NaN()} {
		a := &Admission{Contributions: &Contributions{Seeds: make([]uint64, len(bounds)), Steps: make([]float64, 2), Group: []int{0, 0}, Bounds: bounds}}
		a.Begin()
		for r, bound := range bounds {
			bound = min(bound, Bound)
			var squares int64
			for v := range a.Steps {
				a.Steps[v] = float64(bound) / norm / math.Sqrt2
				p := Part{Admission: a, Parameter: v, Number: v + 1, First: 0, Factors: make([]float32, len(bounds))}
				p.Factors[r] = float32(factor)
				ints := make([]int32, len(gradient))
				if how := p.Choose(r, func(how Rounding) (int64, bool) { return p.Round(ints, gradient, how) }); how.Scale > 0 {
					for _, x := range ints {
						squares += int64(x) * int64(x)
					}
				}
			}
			what := fmt.Sprintf("factor %v, bound %d: squared norm %d", factor, bound, squares)
			if squares > bound*bound || a.Taken(0, r) != squares {
				t.Errorf("%s, %d taken", what, a.Taken(0, r))
			}
			if factor == 0.5 && bound > 0 && math.Abs(math.Sqrt(float64(squares))/float64(bound)-0.5) > 0.05 {
				t.Errorf("%s: a part was left out", what)
			}
		}
	}
}
