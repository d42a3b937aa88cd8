package simd

import "math"

// Dot returns Σ x·y. Dot, Sum and SumSquares add in float64, in 32 lanes whose pattern
// depends on the length alone; products of float32 are exact in float64. The error is at most
// n/32·2⁻⁵³ of the sum of the absolute terms. Every implementation gives the same bits.
func Dot(x, y []float32) float64 {
	if !sameLength(len(x), len(y)) {
		return 0
	}
	return active.dot(&x[0], &y[0], len(x))
}

// Sum returns Σ x.
func Sum(x []float32) float64 {
	if len(x) == 0 {
		return 0
	}
	return active.sum(&x[0], len(x))
}

// SumSquares returns Σ x².
func SumSquares(x []float32) float64 {
	if len(x) == 0 {
		return 0
	}
	return active.sumSquares(&x[0], len(x))
}

// SumSquaredDeviations returns Σ (x - mean)². It adds in the lanes of Sum, except for the last
// len(x) mod 32 elements, which it adds after them.
func SumSquaredDeviations(x []float32, mean float64) (sum float64) {
	n := len(x) &^ 31
	if n > 0 {
		sum = active.deviations(&x[0], n, mean)
	}
	for _, v := range x[n:] {
		d := float64(v) - mean
		sum += float64(d * d)
	}
	return sum
}

// Normalize sets dst = (x - mean)·scale. The difference is rounded before the product. dst
// may be x.
func Normalize(dst, x []float32, mean, scale float64) {
	if sameLength(len(dst), len(x)) {
		m := float32(mean)
		active.normalize(&dst[0], &x[0], len(x), m, float32(mean-float64(m)), float32(scale))
	}
}

// NormalizeGrad sets dst = (d - shift - (x - mean)·slope)·scale. dst may be d.
func NormalizeGrad(dst, x, d []float32, mean, slope, shift, scale float32) {
	if sameLength(len(dst), len(x), len(d)) {
		active.normalizeGrad(&dst[0], &x[0], &d[0], len(x), mean, slope, shift, scale)
	}
}

// Max returns the largest element, -Inf for an empty slice. It may ignore NaN.
func Max(x []float32) float32 {
	if len(x) == 0 {
		return float32(math.Inf(-1))
	}
	return active.maximum(&x[0], len(x))
}

// Softmax sets dst = exp(x)/Σ exp(x) and returns log Σ exp(x). If all elements are -Inf, it
// gives zeros and -Inf. If an element is NaN, it gives NaN everywhere.
func Softmax(dst, x []float32) float64 {
	if !sameLength(len(dst), len(x)) {
		return math.Inf(-1)
	}
	top := Max(x)
	if math.IsInf(float64(top), -1) {
		clear(dst)
		if sum := Sum(x); math.IsNaN(sum) {
			for i := range dst {
				dst[i] = float32(sum)
			}
			return sum
		}
		return math.Inf(-1)
	}
	active.exp(&dst[0], &x[0], len(dst), top)
	sum := Sum(dst)
	Scale(dst, dst, float32(1/sum))
	return float64(top) + math.Log(sum)
}

// SoftmaxGrad sets dst = p·(dp - Σ p·dp)·scale, the gradient with respect to the logits of a
// softmax p, and 0 where p is 0, even if dp is NaN there. dst may be dp.
func SoftmaxGrad(dst, p, dp []float32, scale float32) {
	if sameLength(len(dst), len(p), len(dp)) {
		active.softmaxGrad(&dst[0], &p[0], &dp[0], len(dst), float32(Dot(p, dp)), scale)
	}
}

// ExpRows sets each row of n floats to exp(x - top), where top is the row's largest element,
// and writes the tops. A row that contains NaN or Inf, or only -Inf, gets at least one NaN.
func ExpRows(dst, x []float32, n int, tops []float64) {
	if !sameLength(len(dst), len(x), n*len(tops)) {
		return
	}
	if n > 32 {
		for r := range tops {
			top := Max(x[r*n : (r+1)*n])
			tops[r] = float64(top)
			active.exp(&dst[r*n], &x[r*n], n, top)
		}
		return
	}
	for r := range tops {
		row, d := x[r*n:(r+1)*n], dst[r*n:(r+1)*n]
		top := row[0]
		for _, v := range row[1:] {
			top = max(top, v)
		}
		tops[r] = float64(top)
		for j, v := range row {
			d[j] = v - top
		}
	}
	Exp(dst, dst)
}

// ColSums sets dst[c] = Σ_r x[r·ldx+c]·factors[r], or adds the sums to dst if accumulate. It
// skips rows whose factor is 0, even if they contain NaN; nil factors count as 1. Each column
// is summed in blocks of 256 rows, in order.
func ColSums(dst, x []float32, ldx, rows, cols int, factors []float32, accumulate bool) {
	if len(dst) != cols || ldx < cols || factors != nil && len(factors) != rows {
		panic("simd: ColSums: dst needs one element per column, ldx must be at least the columns, and factors need one element per row")
	}
	if !accumulate {
		clear(dst)
	}
	if cols == 0 {
		return
	}
	// Long rows are read sequentially while the sums stay in the first-level cache.
	const long, most = 512, 6144
	if cols >= long && rows <= kBlock && factors == nil && !accumulate {
		for c := 0; c < cols; c += most {
			sums := dst[c:min(c+most, cols)]
			for r := range rows {
				Add(sums, sums, x[r*ldx+c:][:len(sums)])
			}
		}
		return
	}
	for r := 0; r < rows; r += kBlock {
		n := min(kBlock, rows-r)
		var f *float32
		if factors != nil {
			f = &factors[r]
		}
		block := x[r*ldx:][:(n-1)*ldx+cols]
		active.colSums(&dst[0], &block[0], ldx, n, cols, f)
	}
}

// SumRows sets dst to the sum of the rows of a table whose numbers are in rows, in that
// order. A row has len(dst) floats.
func SumRows(dst, table []float32, rows []int32) {
	clear(dst)
	if len(rows) > 0 && len(dst) > 0 {
		checkRows(rows, len(table)/len(dst))
		active.sumRows(&dst[0], &table[0], &rows[0], len(rows), len(dst))
	}
}

// AddToRows adds src to the rows of a table whose numbers are in rows. A number may occur
// several times.
func AddToRows(table []float32, rows []int32, src []float32) {
	if len(rows) > 0 && len(src) > 0 {
		checkRows(rows, len(table)/len(src))
		active.addToRows(&table[0], &rows[0], len(rows), &src[0], len(src))
	}
}

// checkRows panics unless every row number is below n.
func checkRows(rows []int32, n int) {
	for _, r := range rows {
		if uint32(r) >= uint32(n) {
			panic("simd: a row number is outside the table")
		}
	}
}
