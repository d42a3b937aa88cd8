package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/noise"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
)

// momentRows is the minimum number of examples that are added to the moments together.
const momentRows = 256

// secondMoments returns the upper triangle, row by row, of a sum over all records of a symmetric
// matrix each: for a record with the examples x₁, x₂, …, the matrix Σ xₜxₜᵀ, divided by its
// Frobenius norm if normalize is set. The sum is private.
//
// With normalize, a record's matrix has norm at most 1 for every content of the record, and no
// negative eigenvalue: adding or removing a record changes the sum by at most 1 in that norm,
// replacing one by at most √2, up to the rounding of the sum itself. A record with a number that
// is not finite adds nothing, like a record of zeros. The sum has the same bits for any number
// of threads.
func secondMoments(ctx context.Context, s data.Set, index *recordIndex, column int, normalize bool, threads int) ([]float64, error) {
	width := s.Columns()[column].Size()
	sum := make([]float64, width*width)
	err := forEachBlock(ctx, s, index, column,
		func(block []float64, x []float32) []float64 { return appendRecord(block, x, width, normalize) },
		func(block []float64) { addOuterProducts(sum, block, width, threads) })
	return sum, err
}

// forEachBlock reads all records, appends the rows of each to a block, and calls
// add with each block.
func forEachBlock(ctx context.Context, s data.Set, index *recordIndex, column int,
	appendRows func(block []float64, x []float32) []float64, add func(block []float64)) error {
	width := s.Columns()[column].Size()
	read := make([][]float32, len(s.Columns()))
	for k, c := range s.Columns() {
		read[k] = make([]float32, index.perRecord*c.Size())
	}
	used := make([][]float32, len(read))
	rows, weights := make([]int, index.perRecord), make([]float32, index.perRecord)
	block := make([]float64, 0, (momentRows+index.perRecord)*width)
	for record := range index.records {
		index.writeRows(record, rows, weights)
		n := 0
		for n < index.perRecord && weights[n] > 0 {
			n++
		}
		for k := range read {
			used[k] = read[k][:n*len(read[k])/index.perRecord]
		}
		if err := s.Read(used, rows[:n]); err != nil {
			return fmt.Errorf("training data: %w", err)
		}
		block = appendRows(block, used[column])
		if len(block) >= momentRows*width || record == index.records-1 {
			if err := ctx.Err(); err != nil {
				return err
			}
			add(block)
			block = block[:0]
		}
	}
	return nil
}

// appendRecord appends a record's examples, scaled by the square root of the factor of its
// matrix; none where the norm is zero or not finite. It does not build the matrix: the squared
// norm is the sum of the squares of the examples' inner products.
//
// Products of float32 numbers neither overflow nor vanish in float64, and their rounding errors
// are smaller than the margin of 1e-12·(1+width).
func appendRecord(block []float64, x []float32, width int, normalize bool) []float64 {
	from := len(block)
	for _, v := range x {
		block = append(block, float64(v))
	}
	examples := block[from:]
	squared := 0.0
	for i := 0; i < len(examples); i += width {
		for j := 0; j <= i; j += width {
			product := 0.0
			for k, v := range examples[i : i+width] {
				product += v * examples[j+k]
			}
			if squared += product * product; j < i {
				squared += product * product
			}
		}
	}
	norm := math.Sqrt(squared)
	if !(norm > 0) || math.IsInf(norm, 1) {
		return block[:from]
	}
	if normalize {
		scale := math.Sqrt((1 - 1e-12*float64(1+width)) / norm)
		for i := range examples {
			examples[i] *= scale
		}
	}
	return block
}

// addOuterProducts adds the outer products of a block's rows with themselves to an upper
// triangle. One thread owns each row of the triangle and adds in the order of the block.
func addOuterProducts(sum, block []float64, width, threads int) {
	var all sync.WaitGroup
	for first := range threads {
		all.Go(func() {
			for i := first; i < width; i += threads {
				to := blas64.Vector{N: width - i, Inc: 1, Data: sum[i*width+i : (i+1)*width]}
				for x := block; len(x) > 0; x = x[width:] {
					if x[i] != 0 {
						blas64.Axpy(x[i], blas64.Vector{N: width - i, Inc: 1, Data: x[i:width]}, to)
					}
				}
			}
		})
	}
	all.Wait()
}

// addSymmetricNoise adds noise to an upper triangle: independent normals of deviation σ on the
// diagonal and σ/√2 off it, as if each entry of the whole matrix had its own normal of deviation
// σ and the matrix were averaged with its transpose. In the coordinates (diagonal, √2·the rest),
// whose Euclidean norm is the matrix's Frobenius norm, the deviation is σ in each.
func addSymmetricNoise(upper []float64, width int, sigma float64, source *noise.Source, stream noise.Stream) error {
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

// principalEigenvectors returns the eigenvectors of a symmetric matrix, given by its upper
// triangle, for the count largest eigenvalues in descending order, one after the other. The sign
// of each makes its entry of largest absolute value positive.
func principalEigenvectors(upper []float64, width, count int) ([]float32, error) {
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
	// Sums of products of integers are exact in float64 while they are at most 2^53. An entry of a
	// part of a record's matrix is at most the square root of the product of two entries on the
	// diagonal of its whole matrix, and thus at most lattice, which is at most 2^36. A record has at
	// least one row, so fewer than 2^17 rows add up to less than 2^53.
	const exactRows = 1 << 16
	partial, rows := make([]float64, width*width), 0
	widen := func() {
		for i, v := range partial {
			sum[i] += int64(v)
		}
		clear(partial)
		rows = 0
	}
	err := forEachBlock(ctx, s, index, column,
		func(block []float64, x []float32) []float64 { return appendIntegerRecord(block, x, width, lattice) },
		func(block []float64) {
			if rows += len(block) / width; rows > exactRows {
				widen()
				rows = len(block) / width
			}
			addOuterProducts(partial, block, width, threads)
		})
	widen()
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
