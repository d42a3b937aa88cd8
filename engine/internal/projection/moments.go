// Package projection computes the directions of a projection (Abadi et al. 2016, section 4):
//
//	records ──Moments.Integers──▶ Σ over records of their matrix of norm 1
//	                                │ noise (package release), after the ledger
//	                                ▼
//	                              SearchDirections ──▶ eigenvectors of the largest eigenvalues
//
// The matrix of a record is Σ xₜxₜᵀ of its examples, divided by its Frobenius norm. That norm, 1, is the
// sensitivity. The directions are a function of the noisy sum.
package projection

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"sync"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/load"
	"gonum.org/v1/gonum/blas/blas64"
)

// momentRows is the minimum number of examples that are added to the moments together.
const momentRows = 256

// Moments are the second moments of a column of the records.
type Moments struct {
	Train   data.Set
	Index   *load.Index
	Column  int
	Threads int
	// Rank of Ranks adds its own records only; Ranks 0: one process adds all.
	Rank, Ranks int
}

// Sum returns the upper triangle, row by row, of a sum over the records of a symmetric
// matrix each: for a record with the examples x₁, x₂, …, the matrix Σ xₜxₜᵀ, divided by its
// Frobenius norm if normalize is set. The sum is private.
//
// With normalize, a record's matrix has norm at most 1 for every content of the record, and no
// negative eigenvalue: adding or removing a record changes the sum by at most 1 in that norm,
// replacing one by at most √2, up to the rounding of the sum itself. A record with a number that
// is not finite adds nothing, like a record of zeros. The sum has the same bits for any number
// of threads.
func (m *Moments) Sum(ctx context.Context, normalize bool) ([]float64, error) {
	width := m.Width()
	sum := make([]float64, width*width)
	err := m.forEachBlock(ctx,
		func(block []float64, x []float32) []float64 { return appendRecord(block, x, width, normalize) },
		func(block []float64) { addOuterProducts(sum, block, width, m.Threads) })
	return sum, err
}

// Width returns the number of features of an example.
func (m *Moments) Width() int { return m.Train.Columns()[m.Column].Size() }

// forEachBlock reads the records, appends the rows of each to a block, and calls
// add with each block.
func (m *Moments) forEachBlock(ctx context.Context,
	appendRows func(block []float64, x []float32) []float64, add func(block []float64)) error {
	s, index, width := m.Train, m.Index, m.Width()
	read := make([][]float32, len(s.Columns()))
	for k, c := range s.Columns() {
		read[k] = make([]float32, index.PerRecord*c.Size())
	}
	used := make([][]float32, len(read))
	rows, weights := make([]int, index.PerRecord), make([]float32, index.PerRecord)
	block := make([]float64, 0, (momentRows+index.PerRecord)*width)
	flush := func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		add(block)
		block = block[:0]
		return nil
	}
	for record := m.Rank; record < index.Records; record += max(1, m.Ranks) {
		index.WriteRows(record, rows, weights)
		n := 0
		for n < index.PerRecord && weights[n] > 0 {
			n++
		}
		for k := range read {
			used[k] = read[k][:n*len(read[k])/index.PerRecord]
		}
		if err := s.Read(used, rows[:n]); err != nil {
			return fmt.Errorf("training data: %w", err)
		}
		block = appendRows(block, used[m.Column])
		if len(block) >= momentRows*width {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
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

// Integers returns the normalized sum in integers, which the sums of all ranks add up to: for a record
// with the examples x₁, x₂, … it adds Σ x̂ₜx̂ₜᵀ, where x̂ₜ is a multiple of xₜ rounded toward zero to
// integers. The factor is such that the Frobenius norm of the matrix is about lattice.
//
// The norm is at most lattice for every content of a record. It is determined in integers:
// ‖Σ x̂ₜx̂ₜᵀ‖² = Σₜᵤ (x̂ₜ·x̂ᵤ)². The matrix depends on the record alone, and the sum is exact. So
// with and without a record the sums differ by a matrix of integers of norm at most lattice. A
// record with a number that is not finite adds nothing.
func (m *Moments) Integers(ctx context.Context, lattice int64) ([]int64, error) {
	width := m.Width()
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
	err := m.forEachBlock(ctx,
		func(block []float64, x []float32) []float64 { return appendIntegerRecord(block, x, width, lattice) },
		func(block []float64) {
			if rows += len(block) / width; rows > exactRows {
				widen()
				rows = len(block) / width
			}
			addOuterProducts(partial, block, width, m.Threads)
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
