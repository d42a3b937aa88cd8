package engine

import (
	"context"
	"math"
	"math/bits"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/noise"
)

// integerSecondMoments returns the sum of secondMoments, normalized, in integers: for a record
// with the examples x₁, x₂, … it adds Σ x̂ₜx̂ₜᵀ, where x̂ₜ is a multiple of xₜ rounded toward zero to
// integers. The factor is such that the Frobenius norm of the matrix is about lattice.
//
// The norm is at most lattice for every content of a record. It is determined in integers:
// ‖Σ x̂ₜx̂ₜᵀ‖² = Σₜᵤ (x̂ₜ·x̂ᵤ)². The matrix depends on the record alone, and the sum is exact. So
// with and without a record the sums differ by a matrix of integers of norm at most lattice. A
// record with a number that is not finite adds nothing.
func integerSecondMoments(ctx context.Context, s data.Set, index *recordIndex, column int, lattice int64, threads int) ([]int64, error) {
	width := s.Columns()[column].Size()
	sum := make([]int64, width*width)
	// Products of rows of integers and their sums over a block are below 2^53, and so exact: an
	// entry of a part of a record's matrix is at most the square root of the product of two entries
	// on the diagonal of its whole matrix, and thus at most lattice.
	partial := make([]float64, width*width)
	err := forEachBlock(ctx, s, index, column,
		func(block []float64, x []float32) []float64 { return appendIntegerRecord(block, x, width, lattice) },
		func(block []float64) {
			addOuterProducts(partial, block, width, threads)
			for i, v := range partial {
				sum[i] += int64(v)
			}
			clear(partial)
		})
	return sum, err
}

// appendIntegerRecord appends a record's examples, times a factor and rounded to integers; none
// where their matrix is zero or not finite.
//
// Rounding toward zero does not lengthen an example. The norm of a matrix of several examples
// can grow where their products cancel, so smaller factors follow.
func appendIntegerRecord(block []float64, x []float32, width int, lattice int64) []float64 {
	from := len(block)
	block = appendRecord(block, x, width, true) // of norm 1, with a margin
	examples := block[from:]
	rounded := make([]int64, len(examples))
	for _, factor := range [...]float64{1, 0.99, 0.9, 0.5} {
		scale := math.Sqrt(float64(lattice)) * factor
		for i, v := range examples {
			rounded[i] = int64(v * scale) // at most about √lattice
		}
		if isMatrixWithin(rounded, width, lattice) {
			for i, v := range rounded {
				examples[i] = float64(v)
			}
			return block
		}
	}
	return block[:from]
}

// isMatrixWithin reports whether the Frobenius norm of the sum of the outer products of rows with
// themselves is at most lattice, which is at most 2^36.
func isMatrixWithin(rows []int64, width int, lattice int64) bool {
	const longest = 1 << 18 // the square of a larger element exceeds 2^36, and so does the norm
	for _, v := range rows {
		if v < -longest || v > longest {
			return false
		}
	}
	// Products of rows are at most 2^36 times the width. Their squares are added in 128 bits.
	var high, low, carry uint64
	for i := 0; i < len(rows); i += width {
		for j := 0; j < len(rows); j += width {
			product := int64(0)
			for k, v := range rows[i : i+width] {
				product += v * rows[j+k]
			}
			if product < -lattice || product > lattice {
				return false
			}
			h, l := bits.Mul64(uint64(max(product, -product)), uint64(max(product, -product)))
			low, carry = bits.Add64(low, l, 0)
			high += h + carry
		}
	}
	h, l := bits.Mul64(uint64(lattice), uint64(lattice))
	return high < h || high == h && low <= l
}

// releaseSymmetric returns an upper triangle of sums of integers with the noise of a query, in
// the unit of its sensitivity. Noise has the deviation σ on the diagonal and at least σ/√2 off
// it. In the coordinates (diagonal, √2·the rest) the Euclidean norm is the Frobenius norm of the
// matrix and the deviation is σ: this is the Gaussian mechanism for matrices of integers,
// each entry rounded to a public grid.
func releaseSymmetric(upper []int64, width int, q ledger.Query, source *noise.Source, stream noise.Stream) ([]float64, error) {
	diagonal := noise.RoundedGaussian{Sigma: q.LatticeNoise()}
	rest := noise.RoundedGaussian{Sigma: offDiagonal(diagonal.Sigma)}
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

// offDiagonal returns σ/√2, rounded up.
func offDiagonal(sigma float64) float64 { return sigma / math.Sqrt2 * (1 + 0x1p-50) }
