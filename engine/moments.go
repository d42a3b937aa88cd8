package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/dptrain/dptrain/engine/data"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"
)

// momentRows is how many examples are added to the moments at a time, at least.
const momentRows = 256

// secondMoments is the sum over all records of a symmetric matrix each, its upper
// triangle, row by row: of a record with the examples x₁, x₂, …, Σ xₜxₜᵀ, where
// unit divided by its Frobenius norm. It is private.
//
// With unit a record's matrix has a norm of at most 1 whatever the record holds, and
// no negative eigenvalue: adding or removing a record moves the sum by at most 1 in
// that norm, replacing one by at most √2, up to the rounding of the sum itself. A
// record with a number that is not finite adds nothing, as one of zeros does. The
// sum has the same bits for any number of threads.
func secondMoments(ctx context.Context, s data.Set, d *deck, column int, unit bool, threads int) ([]float64, error) {
	width := s.Columns()[column].Size()
	sum := make([]float64, width*width)
	read := make([][]float32, len(s.Columns()))
	for k, c := range s.Columns() {
		read[k] = make([]float32, d.per*c.Size())
	}
	used := make([][]float32, len(read))
	rows, weights := make([]int, d.per), make([]float32, d.per)
	block := make([]float64, 0, (momentRows+d.per)*width)
	for record := range d.count {
		d.deal(record, rows, weights)
		n := 0
		for n < d.per && weights[n] > 0 {
			n++
		}
		for k := range read {
			used[k] = read[k][:n*len(read[k])/d.per]
		}
		if err := s.Read(used, rows[:n]); err != nil {
			return nil, fmt.Errorf("training data: %w", err)
		}
		block = appendRecord(block, used[column], width, unit)
		if len(block) >= momentRows*width || record == d.count-1 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			addMoments(sum, block, width, threads)
			block = block[:0]
		}
	}
	return sum, nil
}

// appendRecord appends a record's examples, all scaled by the root of what scales its
// matrix; none where that is zero or not finite. The matrix is not built: its squared
// norm is the sum of the squares of the examples' products with each other.
//
// What float32 holds neither overflows nor vanishes in these products, and they are
// off by less than the margin that is kept.
func appendRecord(block []float64, x []float32, width int, unit bool) []float64 {
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
	if unit {
		scale := math.Sqrt((1 - 1e-12*float64(1+width)) / norm)
		for i := range examples {
			examples[i] *= scale
		}
	}
	return block
}

// addMoments adds the products of a block's rows with themselves to an upper
// triangle. Each of its rows is one thread's, which adds in the order of the block.
func addMoments(sum, block []float64, width, threads int) {
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

// principal are the eigenvectors of a symmetric matrix, given by its upper triangle,
// to the count largest eigenvalues, one after the other, the first to the largest.
// Each has the sign that makes its entry of largest size positive.
func principal(upper []float64, width, count int) ([]float32, error) {
	var eigen mat.EigenSym
	if !eigen.Factorize(mat.NewSymDense(width, upper), true) {
		return nil, errors.New("the eigenvectors of the second moments were not found; release them with another noise")
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
