package load

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// PrincipalDirections returns the eigenvectors of a symmetric matrix, given by its upper
// triangle, for the count largest eigenvalues in descending order, one after the other. The sign
// of each makes its entry of largest absolute value positive.
func PrincipalDirections(upper []float64, width, count int) ([]float32, error) {
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
