package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/internal/device/lattice"
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
		a := &Admission{Contributions: &Contributions{Seeds: make([]uint64, len(bounds)), Steps: make([]float64, 2), Group: []int{0, 0}, Bounds: [][]int64{bounds}}}
		a.Begin()
		for r, bound := range bounds {
			bound = min(bound, Bound)
			var squares int64
			for v := range a.Steps {
				a.Steps[v] = float64(bound) / norm / math.Sqrt2
				p := Contribution{Admission: a, Parameter: v, Number: v + 1, First: 0, Factors: make([]float32, len(bounds))}
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

// The estimate of errors contains the mean of ‖Ĝ − G‖² and bounds the variance of ‖Ĝ‖², for rows in all
// directions, for equal rows and for rows that cancel.
func TestRowErrors_CoverRounding(t *testing.T) {
	const in, out, rows, trials = 30, 20, 5, 3000
	for name, sign := range map[string]func(row int) float32{
		"other rows":       nil,
		"equal rows":       func(int) float32 { return 1 },
		"rows that cancel": func(row int) float32 { return float32(1-row%2*2) + 0.01*float32(row) },
	} {
		r := rand.New(rand.NewPCG(1, 7))
		a, delta := make([]float32, rows*in), make([]float32, rows*out)
		for i := range a {
			if a[i] = float32(r.NormFloat64() * 40); sign != nil && i >= in {
				a[i] = a[i%in] * sign(i/in)
			}
		}
		for i := range delta {
			if delta[i] = float32(r.NormFloat64() * 40); sign != nil && i >= out {
				delta[i] = delta[i%out]
			}
		}
		exact, errors := sumOfProducts(a, delta, in, out), NewRowErrors(in, out, 1)
		roundedA, roundedD := make([]int16, len(a)), make([]int16, len(delta))
		var distance, mean, squares, expected, variance float64
		for range trials {
			squaresA, _ := lattice.QuantizeInt16(roundedA, a, 1, lattice.Key(r.Uint64()))
			squaresD, _ := lattice.QuantizeInt16(roundedD, delta, 1, lattice.Key(r.Uint64()))
			more, product := 0.0, int64(0)
			for i, v := range sumOfProducts(roundedA, roundedD, in, out) {
				distance += (v - exact[i]) * (v - exact[i]) / trials
				more += v*v - exact[i]*exact[i]
				product += int64(v * v)
			}
			mean += more / trials
			squares += more * more / trials
			expected += float64(RowErrors{A: errors.A, Delta: errors.Delta}.Of(squaresA, squaresD, product)) / trials
			variance += errors.Both * float64(product) * float64(squaresA+squaresD) * (Room * Bound * Bound / 9) / trials
		}
		if math.Abs(distance-expected) > 0.1*expected {
			t.Errorf("%s: the squared distance is %.3g, and the estimate %.3g", name, distance, expected)
		}
		deviation, bound := math.Sqrt(squares-mean*mean), math.Sqrt(variance)
		if deviation > 1.05*bound || deviation < 0.8*bound && name != "other rows" {
			t.Errorf("%s: the deviation is %.3g, and the bound %.3g", name, deviation, bound)
		}
	}
}

// sumOfProducts is Σ_t a_t ⊗ δ_t.
func sumOfProducts[T int16 | float32](a, delta []T, in, out int) []float64 {
	sum := make([]float64, in*out)
	for i := range sum {
		for t := 0; t*in < len(a); t++ {
			sum[i] += float64(a[t*in+i/out]) * float64(delta[t*out+i%out])
		}
	}
	return sum
}
