//go:build !noasm

package lattice

import "unsafe"

// assembly lists the implementations that this processor can run: every 64-bit processor has NEON.
func assembly() []*kernels {
	return []*kernels{{
		name: "neon", rounding: neon, wholeBlocks: true, lanes: 8, depth: 1, mr: 6, nr: 16,
		tile: tileNEON, transpose8: transpose8NEON, copyRuns: [2]copyRunsFunc{copyRuns4NEON, copyRuns8NEON},
		columns: func(dst *int16, ld int, rows *int16, n int) { transpose8NEON(dst, ld, rows, n, 1) },
		addInts: addInts, innerProduct: innerProduct, sumSquares: sumSquares, scaleInts: scaleIntsNEON,
		settle: settleNEON, readSums: readSumsNEON,
	}}
}

func (k *kernels) quantize(dst *int16, x *float32, n int, scale float32, start, step uint32) uint64 {
	if k.rounding == neon {
		return quantizeNEON(dst, x, n/blockSize, scale, start, step)
	}
	return quantizeGo(dst, x, n, scale, start, step)
}

func (k *kernels) round(dst *int32, x *float32, n int, scale float32, start, step uint32) (sum uint64, largest uint32) {
	if k.rounding == neon {
		var results [2]uint64
		roundNEON(dst, x, n/blockSize, scale, start, step, &results)
		return results[0], uint32(results[1])
	}
	return roundGo(dst, x, n, scale, start, step)
}

// The assembly of the functions below handles a multiple of 8 elements, pure Go the rest.

func addInts(sum, part *int32, n int) {
	whole := n &^ 7
	if whole > 0 {
		addIntsNEON(sum, part, whole)
	}
	if whole < n {
		addIntsGo(&unsafe.Slice(sum, n)[whole], &unsafe.Slice(part, n)[whole], n-whole)
	}
}

func innerProduct(x, y *int32, n int) (sum int64) {
	whole := n &^ 7
	if whole > 0 {
		sum = innerProductNEON(x, y, whole)
	}
	if whole < n {
		sum += innerProductGo(&unsafe.Slice(x, n)[whole], &unsafe.Slice(y, n)[whole], n-whole)
	}
	return sum
}

func sumSquares(x *int16, n int) (sum int64) {
	whole := n &^ 7
	if whole > 0 {
		sum = sumSquaresNEON(x, whole)
	}
	if whole < n {
		sum += sumSquaresGo(&unsafe.Slice(x, n)[whole], n-whole)
	}
	return sum
}

// There is no AVX-512.

func (*kernels) quantizeAll([]int16, []float32, int, []float32, []Key, []int64) {}

func roundAll([]int32, []float32, int, []float32, []Key, []int64) {}
