package release

import (
	"math"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/noise"
)

// AddSymmetricNoise adds noise to an upper triangle: independent normals of deviation σ on the
// diagonal and σ/√2 off it, as if each entry of the whole matrix had its own normal of deviation
// σ and the matrix were averaged with its transpose. In the coordinates (diagonal, √2·the rest),
// whose Euclidean norm is the matrix's Frobenius norm, the deviation is σ in each.
func AddSymmetricNoise(upper []float64, width int, sigma float64, source *noise.Source, stream noise.Stream) error {
	drawn := uint64(0)
	normals := make([]float64, width)
	for i := range width {
		row := upper[i*width+i : (i+1)*width]
		if err := source.Normals64(normals[:len(row)], stream, drawn); err != nil {
			return err
		}
		drawn += uint64(len(row))
		for j := range row {
			deviation := sigma
			if j > 0 {
				deviation /= math.Sqrt2
			}
			row[j] += deviation * normals[j]
		}
	}
	return nil
}

// ReleaseSymmetric returns an upper triangle of sums of integers with the noise of a query, in
// the unit of its sensitivity. Noise has the deviation σ on the diagonal and at least σ/√2 off
// it. In the coordinates (diagonal, √2·the rest) the Euclidean norm is the Frobenius norm of the
// matrix and the deviation is σ: this is the Gaussian mechanism for matrices of integers,
// each entry rounded to a public grid.
func ReleaseSymmetric(upper []int64, width int, q ledger.Query, source *noise.Source, stream noise.Stream) ([]float64, error) {
	diagonal := noise.RoundedGaussian{Sigma: q.LatticeNoise()}
	rest := noise.RoundedGaussian{Sigma: OffDiagonal(diagonal.Sigma)}
	noised := make([]float64, len(upper))
	step := q.Sensitivity / float64(q.Lattice)
	drawn := uint64(0)
	for i := range width {
		row := upper[i*width+i : (i+1)*width]
		if err := diagonal.Add(source, row[:1], stream, drawn); err != nil {
			return nil, err
		}
		if err := rest.Add(source, row[1:], stream, drawn+1); err != nil {
			return nil, err
		}
		drawn += uint64(len(row))
		grid := diagonal.Grid()
		for j, rounded := range row {
			noised[i*width+i+j] = math.Ldexp(float64(rounded), grid) * step
			grid = rest.Grid()
		}
	}
	return noised, nil
}

// OffDiagonal returns σ/√2, rounded up.
func OffDiagonal(sigma float64) float64 { return sigma / math.Sqrt2 * (1 + 0x1p-50) }
