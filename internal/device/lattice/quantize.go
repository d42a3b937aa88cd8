package lattice

import (
	"fmt"
	"math"
)

// Bound is the number of lattice steps in a clip bound. No record's contribution to a group has
// a larger norm.
const Bound = 1 << 22

// MaxRowNorm is the largest norm of a row of int16, in lattice steps of the row.
const MaxRowNorm = 1 << 14

// QuantizeInt16 rounds a row to a lattice: element i becomes x[i]·scale rounded up or down at
// random, without bias (stochastic rounding). It returns the exact squared norm of the result.
//
// The random words are those of key: a rounding depends on x[i], i, scale and key, not on other
// elements. In detail, with w the word of element i as a signed integer,
//
//	dst[i] = RoundToEven(x[i]·scale + w/2^32)
//
// where the product, w/2^32 and the sum are rounded to float32 one after the other. Zero stays
// zero, because |w/2^32| ≤ ½. Over uniform words the mean is x[i]·scale up to the rounding errors
// of float32: it differs by at most 2^-23·(1+|x[i]·scale|).
//
// If an element is NaN or infinite, or if the norm of the result exceeds MaxRowNorm, it returns
// 0 and false and sets dst to zeros. scale 0 gives zeros and true without reading x.
func QuantizeInt16(dst []int16, x []float32, scale float32, key Key) (squares int64, ok bool) {
	return active.quantizeInt16(dst, x, scale, key)
}

func (k *kernels) quantizeInt16(dst []int16, x []float32, scale float32, key Key) (squares int64, ok bool) {
	scales, keys, sums := [1]float32{scale}, [1]Key{key}, [1]int64{}
	k.quantizeRows(dst, x, scales[:], keys[:], sums[:])
	return max(sums[0], 0), sums[0] >= 0
}

// QuantizeRows is QuantizeInt16 for several rows of equal length, one after the other. Row i has
// scales[i] and keys[i]. Its squared norm is written to squares[i], or -1 if QuantizeInt16 returns
// false.
func QuantizeRows(dst []int16, x []float32, scales []float32, keys []Key, squares []int64) {
	active.quantizeRows(dst, x, scales, keys, squares)
}

func (k *kernels) quantizeRows(dst []int16, x []float32, scales []float32, keys []Key, squares []int64) {
	width := rowWidth(len(dst), len(x), len(scales), len(keys), len(squares))
	if width == 0 {
		clear(squares)
		return
	}
	if k.rounding == avx512 {
		k.quantizeAll(dst, x, width, scales, keys, squares)
	}
	for i, scale := range scales {
		row := dst[i*width : (i+1)*width]
		if scale == 0 {
			clear(row)
			squares[i] = 0
			continue
		}
		if k.rounding != avx512 {
			squares[i] = k.quantizeRow(row, x[i*width:(i+1)*width], scale, keys[i])
		}
		if squares[i] > MaxRowNorm*MaxRowNorm {
			clear(row)
			squares[i] = -1
		}
	}
}

// rowWidth returns the length of each of some rows, which have n numbers together.
func rowWidth(dst, n, rows, keys, squares int) (width int) {
	checkLengths(dst, n)
	if rows > 0 {
		width = n / rows
	}
	if width*rows != n || keys != rows || squares != rows {
		panic(fmt.Sprintf("lattice: %d numbers, %d keys and %d results are not those of %d equal rows", n, keys, squares, rows))
	}
	return width
}

// quantizeRow rounds a row for quantizeRows.
func (k *kernels) quantizeRow(dst []int16, x []float32, scale float32, key Key) int64 {
	start, step := key.state()
	var sum uint64
	n := k.countAtOnce(len(x))
	if n > 0 {
		sum = k.quantize(&dst[0], &x[0], n, scale, start, step)
	}
	if n < len(x) {
		var from [blockSize]float32
		var to [blockSize]int16
		copy(from[:], x[n:])
		sum += k.quantize(&to[0], &from[0], blockSize, scale, wordOf(start, step, n), step)
		copy(dst[n:], to[:])
	}
	return int64(min(sum, tooLarge))
}

// countAtOnce returns how many of n elements quantize and round take.
func (k *kernels) countAtOnce(n int) int {
	if k.wholeBlocks {
		n &^= blockSize - 1
	}
	return n
}

// Round rounds x to integers as QuantizeInt16 does, and returns Σ v² of the integers v. It returns 0
// and false, and dst is undefined, if an element is not finite, if a v is outside [-Bound, Bound], or
// if the sum exceeds Bound². If it returns true, the sum is exact. dst may be the memory of x.
//
// No sum is used before the range of its elements is checked: four infinities, converted to
// −2^31, would have squares with the sum 0 modulo 2^64.
//
// scale 0 writes zeros, does not read x, and returns 0 and true.
func Round(dst []int32, x []float32, scale float32, key Key) (squares int64, ok bool) {
	return active.roundInts(dst, x, scale, key)
}

func (k *kernels) roundInts(dst []int32, x []float32, scale float32, key Key) (squares int64, ok bool) {
	checkLengths(len(dst), len(x))
	start, step := key.state()
	for len(x) > 0 {
		n := min(len(x), chunkSize)
		scales, keys, sums := [1]float32{scale}, [1]Key{newKey(start, step)}, [1]int64{}
		k.roundRows(dst[:n], x[:n], scales[:], keys[:], sums[:])
		if squares += sums[0]; sums[0] < 0 || squares > Bound*Bound {
			return 0, false
		}
		dst, x, start = dst[n:], x[n:], wordOf(start, step, n)
	}
	return squares, true
}

// RoundRows is Round for several rows of equal length, at most 2^15, one after the other. Row i has
// scales[i] and keys[i]. Its squared norm is written to squares[i], or -1 if Round returns false.
func RoundRows(dst []int32, x []float32, scales []float32, keys []Key, squares []int64) {
	active.roundRows(dst, x, scales, keys, squares)
}

// chunkSize limits the elements between two checks: 2^15 squares of at most Bound² have a sum
// below 2^60.
const chunkSize = 1 << 15

func (k *kernels) roundRows(dst []int32, x []float32, scales []float32, keys []Key, squares []int64) {
	width := rowWidth(len(dst), len(x), len(scales), len(keys), len(squares))
	if width > chunkSize {
		panic(fmt.Sprintf("lattice: rows of %d elements, more than %d", width, chunkSize))
	}
	if width == 0 {
		clear(squares)
		return
	}
	if k.rounding == avx512 {
		roundAll(dst, x, width, scales, keys, squares)
	}
	for i, scale := range scales {
		row := dst[i*width : (i+1)*width]
		if scale == 0 {
			clear(row)
			squares[i] = 0
			continue
		}
		if k.rounding != avx512 {
			squares[i] = k.roundRow(row, x[i*width:(i+1)*width], scale, keys[i])
		}
		if squares[i] > Bound*Bound {
			squares[i] = -1
		}
	}
}

// largestInRange is the largest float32 that rounds to Bound: Bound + ½ rounds to even.
const largestInRange = Bound + 0.5

// roundRow rounds a row for roundRows.
func (k *kernels) roundRow(dst []int32, x []float32, scale float32, key Key) int64 {
	start, step := key.state()
	var sum uint64
	var largest uint32
	n := k.countAtOnce(len(x))
	if n > 0 {
		sum, largest = k.round(&dst[0], &x[0], n, scale, start, step)
	}
	if n < len(x) {
		var from [blockSize]float32
		var to [blockSize]int32
		copy(from[:], x[n:])
		more, size := k.round(&to[0], &from[0], blockSize, scale, wordOf(start, step, n), step)
		sum, largest = sum+more, max(largest, size)
		copy(dst[n:], to[:])
	}
	if largest > math.Float32bits(largestInRange) {
		return tooLarge
	}
	return int64(sum)
}

// Add adds x to sum modulo 2^32.
func Add(sum, x []int32) {
	checkLengths(len(sum), len(x))
	if len(sum) > 0 {
		active.addInts(&sum[0], &x[0], len(sum))
	}
}

// shortRow is the largest length of rows that are added 16 columns at a time: the other columns of the
// rows stay in the first-level cache until then.
const shortRow = 64

// AddRows adds rows of the length of sum, one after the other, modulo 2^32.
func AddRows(sum, rows []int32) { active.addAll(sum, rows) }

func (k *kernels) addAll(sum, rows []int32) {
	width := len(sum)
	if width == 0 || len(rows) == 0 {
		return
	}
	n := len(rows) / width
	checkLengths(n*width, len(rows))
	if k.addShortRows != nil && width <= shortRow {
		k.addShortRows(&sum[0], &rows[0], width, n)
		return
	}
	for i := range n {
		k.addInts(&sum[0], &rows[i*width], width)
	}
}

// ScaleInts writes the numbers of x times scale. A number is rounded to float64, its product with
// scale to float64, and the result to float32.
func ScaleInts(dst []float32, x []int64, scale float64) { active.scale(dst, x, scale) }

func (k *kernels) scale(dst []float32, x []int64, scale float64) {
	checkLengths(len(dst), len(x))
	whole := len(x) &^ 7
	if whole > 0 {
		k.scaleInts(&dst[0], &x[0], whole, scale)
	}
	if whole < len(x) {
		scaleIntsGo(&dst[whole], &x[whole], len(x)-whole, scale)
	}
}

// AddToRows adds x modulo 2^32 to rows of a table of rows of its length. A row occurs as often as its
// number.
func AddToRows(table, x, rows []int32) { active.addRows(table, x, rows) }

func (k *kernels) addRows(table, x, rows []int32) {
	if len(x) == 0 || len(rows) == 0 {
		return
	}
	for _, row := range rows {
		if row < 0 || (int(row)+1)*len(x) > len(table) {
			panic(fmt.Sprintf("lattice: row %d of %d elements is not in a table of %d", row, len(x), len(table)))
		}
	}
	if k.addToRows != nil {
		k.addToRows(&table[0], &x[0], len(x), &rows[0], len(rows))
		return
	}
	for _, row := range rows {
		k.addInts(&table[int(row)*len(x)], &x[0], len(x))
	}
}

// SumSquares returns Σ x² exactly.
func SumSquares(x []int16) int64 {
	if len(x) == 0 {
		return 0
	}
	return active.sumSquares(&x[0], len(x))
}

func checkLengths(dst, x int) {
	if dst != x {
		panic(fmt.Sprintf("lattice: slices of %d and %d elements must have the same length", dst, x))
	}
}
