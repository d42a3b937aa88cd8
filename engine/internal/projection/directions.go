package projection

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// SearchDirections returns the directions of the upper triangle of a symmetric matrix: the eigenvectors for
// the count largest eigenvalues in descending order, one after the other. The sign of each makes its entry
// of largest absolute value positive. For many features this takes minutes; the end of ctx interrupts it.
func SearchDirections(ctx context.Context, sum []float64, width, count int) ([]float32, error) {
	type result struct {
		directions []float32
		err        error
	}
	results := make(chan result, 1)
	go func() {
		directions, err := principalDirections(sum, width, count)
		results <- result{directions, err}
	}()
	var f result
	select {
	case f = <-results:
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return f.directions, f.err
}

func principalDirections(upper []float64, width, count int) ([]float32, error) {
	var eigen mat.EigenSym
	if !eigen.Factorize(mat.NewSymDense(width, upper), true) {
		return nil, errors.New("the eigenvectors of the second moments did not converge; use another projection noise")
	}
	var vectors mat.Dense
	eigen.VectorsTo(&vectors)
	directions := make([]float32, 0, count*width)
	for k := width - 1; k >= width-count; k-- { // eigenvalues ascend
		v := mat.Col(nil, k, &vectors)
		sign := 1.0
		if most := slices.MaxFunc(v, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) }); most < 0 {
			sign = -1
		}
		for _, x := range v {
			directions = append(directions, float32(sign*x))
		}
	}
	return directions, nil
}
