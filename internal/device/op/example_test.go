package op_test

import (
	"fmt"

	"github.com/dptrain/dptrain/internal/device/op"
	"gorgonia.org/tensor"
)

// Two records of two rows each go through a weight of shape [2, 3]. The norm of a record's gradient
// AᵀΔ equals the inner product of two Gram matrices, ⟨AAᵀ, ΔΔᵀ⟩, so it needs no gradient.
func Example() {
	f := op.Product{In: 2, Out: 3}
	a := []float64{1, 2, 0, 1 /* record 1: */, 3, 0, 1, 1}
	delta := []float64{1, 0, 1, 0, 2, 0 /* record 1: */, 1, 1, 0, 0, 0, 1}

	norms := make([]float64, 2)
	s := op.SquaredNorms{Form: f, Records: 2, Method: op.Gram}
	s.Do(norms, [][]float64{a, delta}, []tensor.Shape{{4, 2}, {4, 3}})
	fmt.Println("squared norms:", norms)

	for r := range 2 {
		inner := 0.0
		for t := range 2 {
			for u := range 2 {
				inner += dot(a[4*r+2*t:], a[4*r+2*u:], 2) * dot(delta[6*r+3*t:], delta[6*r+3*u:], 3)
			}
		}
		fmt.Println("Gram matrices:", inner)
	}

	// The sum with factors ½ and 0: the second record adds nothing.
	sum := make([]float64, f.Size())
	op.ClippedSum{Form: f, Records: 2}.Do(sum, [][]float64{a, delta, {0.5, 0}}, nil)
	fmt.Println("clipped sum:", sum)
	// Output:
	// squared norms: [14 20]
	// Gram matrices: 14
	// Gram matrices: 20
	// clipped sum: [0.5 0 0.5 1 1 1]
}

func dot(x, y []float64, n int) (sum float64) {
	for i := range n {
		sum += x[i] * y[i]
	}
	return sum
}
