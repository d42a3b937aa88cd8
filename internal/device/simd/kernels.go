package simd

// tileFunc computes C[0:m, 0:n] = op(A)·B over k steps. It reads m rows of op(A), k rows of
// B and, if a flag asks for them, C and the bias; ld is the distance between stored rows.
// Each element of the product is one chain of multiply-adds in the order of k, starting
// from zero. Assembly fuses each multiply-add; pure Go rounds the product first. The flags
// state what happens to an element before it is stored.
type tileFunc func(m, n, k int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int, flags int, bias *float32)

// Operations on a tile's sums before they are stored, in this order.
const (
	flagAdd     = 1 << iota // add the value in C
	flagColBias             // add bias[j]
	flagRowBias             // add bias[i]
	flagReLU                // max(0, x); NaN stays NaN
)

type (
	// copyTapFunc writes, for each of some rows, what one tap of a window sees:
	// dst[r*cols+j] = img[offset+r*lds+w+j*stride] where 0 ≤ w+j*stride < width, else 0.
	copyTapFunc = func(dst *float32, cols int, img *float32, offset, lds, rows, w, width int)
	// maxPoolRowsFunc writes, for each column j of each output row r, the maximum of
	// khs×kws positions and its index in img: position (kh, kw) is
	// img[offset+r*step+kh*lds+w+j*stride+kw*dil] where 0 ≤ w+j*stride+kw*dil < width. Of
	// equal values the first counts; NaN exceeds every number. Without a position, the
	// index is −1.
	maxPoolRowsFunc = func(dst *float32, arg *int32, cols int, img *float32, offset, lds, khs, kws, w, dil, width, rows, step int)
)

// kernels is one implementation of all code that depends on the processor. The comments
// are the contract of every implementation. Where no rounding is stated, each operation is
// rounded by itself, in the order of the formula, and all implementations give the same
// bits. n is at least 1 unless stated otherwise.
type kernels struct {
	name string

	mr, nr    int      // rows and columns of the largest tile
	exactRead bool     // a tile never reads B beyond column n; otherwise the last panel of B is padded
	tileRows  tileFunc // A is stored by rows: op(A)[i][p] is a[i*lda+p]
	tileCols  tileFunc // A is stored transposed or packed: op(A)[i][p] is a[p*lda+i]

	// packRows copies rows of cols floats, lds apart, to rows of width floats, a multiple
	// of 8, and fills the rest of each row with zeros. If factors is not nil, it multiplies
	// row r by factors[r]; a factor of 0 writes zeros, even for NaN and infinities.
	packRows func(dst *float32, width int, src *float32, lds, rows, cols int, factors *float32)
	// prefetchRows prefetches lines of 16 floats of each of some rows, ld floats apart. It
	// may be nil.
	prefetchRows func(p *float32, ld, rows, lines int)
	// transpose8 writes dst[c*ldd+r] = src[r*lds+c] for r < 8 and c < 8*blocks. blocks may
	// be 0.
	transpose8 func(dst *float32, ldd int, src *float32, lds, blocks int)

	// widenBFloat16 and widenFloat16 set dst[r*ldd+c] to the number of 16 bits src[r*lds+c] for r < rows and c < 8*blocks.
	// rows and blocks are at least 1.
	widenBFloat16, widenFloat16 func(dst *float32, ldd int, src *uint16, lds, rows, blocks int)

	// Elementwise functions of n floats, documented with the exported function of the same
	// name. dst may be an input. exp, tanh, sigmoid, gelu and geluGrad are as accurate as the
	// exported functions state; their bits may differ between implementations.
	add, mul, reluGrad, tanhGrad, sigmoidGrad, geluGrad func(dst, x, y *float32, n int)
	relu, tanh, sigmoid, gelu                           func(dst, x *float32, n int)
	scale, axpy                                         func(dst, x *float32, n int, alpha float32)
	exp                                                 func(dst, x *float32, n int, shift float32) // dst = exp(x - shift)
	// softmaxGrad sets dst = p·(dp - mean)·scale, and 0 where p is 0.
	softmaxGrad func(dst, p, dp *float32, n int, mean, scale float32)
	// normalize sets dst = (x - mean - rest)·scale.
	normalize func(dst, x *float32, n int, mean, rest, scale float32)
	// normalizeGrad sets dst = (d - shift - (x - mean)·slope)·scale.
	normalizeGrad func(dst, x, d *float32, n int, mean, slope, shift, scale float32)

	// sumRows adds n rows of a table, of dim floats each, to dst in the order of rows.
	sumRows func(dst, table *float32, rows *int32, n, dim int)
	// addToRows adds src, of dim floats, to n rows of a table in the order of rows.
	addToRows func(table *float32, rows *int32, n int, src *float32, dim int)

	// lstmStep and lstmSignals are documented with LSTMStep and LSTMSignals; n is the
	// number of units.
	lstmStep    func(trace, hidden, cellTanh, x, p, previousCell *float32, n int)
	lstmSignals func(d, cell, trace, cellTanh, previousCell, grad, recurrentGrad *float32, n int)

	// Sums of n terms in 32 lanes of float64: term i is added to lane i mod 32. Then lane l
	// adds lane l+16, l+8, l+4, l+2 and l+1. Assembly fuses products with additions, which
	// rounds the same, since products of float32 are exact in float64.
	dot             func(x, y *float32, n int) float64
	sum, sumSquares func(x *float32, n int) float64
	// deviations is the sum of (x - mean)² in the same lanes, without fusing; n is a
	// multiple of 32.
	deviations func(x *float32, n int, mean float64) float64
	// maximum is the largest of n floats. It may ignore NaN.
	maximum func(x *float32, n int) float32
	// colSums adds to dst[c] the sum over r < rows of x[r*ldx+c]·factors[r], added from zero
	// in the order of the rows. It skips rows whose factor is 0. nil factors count as 1.
	colSums func(dst, x *float32, ldx, rows, cols int, factors *float32)

	// Kernels of windows. nil where pure-Go loops serve. The index is the stride minus 1.
	copyTaps    [2]copyTapFunc
	maxPoolRows [2]maxPoolRowsFunc
	// unfold copies rows of cols floats, lds apart, from starts[t] on for each of the taps,
	// one row after the other. It reads and writes whole vectors: up to 7 floats past a row.
	unfold func(dst *float32, cols, rows int, src *float32, lds int, starts *int32, taps int)
	// fold adds rows of cols floats, a multiple of 8, to the places from which unfold copies
	// them, for n starts in order.
	fold func(dst *float32, lds int, starts *int32, n int, src *float32, cols, rows int)
	// maxTaps takes, for each of some places, step floats apart in img, and each channel, a
	// multiple of 8 of them, the maximum over n taps, and the tap that it comes from: of
	// equal values the first tap, of NaN the last.
	maxTaps func(dst *float32, arg *uint8, img *float32, channels, places, step int, taps *int32, n int)
	// addToMaxTaps adds dy to the elements of img from which maxTaps took its maxima.
	addToMaxTaps func(img, dy *float32, arg *uint8, channels, places, step int, taps *int32, n int)
	// sumTaps is the adjoint of unfold's copies for stride 1: dst[j] is the sum over
	// kh < khs, kw < kws, in order, of p[offset+kh*next+kw*ldp+j+w-kw*dil] where
	// 0 ≤ j+w-kw*dil < width.
	sumTaps func(dst *float32, cols int, p *float32, offset, ldp, next, khs, kws, w, dil, width int)
	// sumTaps2 is the same for stride 2. For phase q, 0 or 1: dst[2j+q] is the sum over
	// kh < khs, kw < kws_q of p[offset_q+kh*next+kw*ldp+j+w_q-kw] where 0 ≤ j+w_q-kw < width.
	sumTaps2 func(dst *float32, cols int, p *float32, offset0, offset1, ldp, next, khs, kws0, kws1, w0, w1, width int)

	winograd [2]winogradKernels // for 3 and 5 taps; empty if Im2col is used instead

	fmaPeak func(rounds int) // runs rounds of fused multiply-adds of 12·nr/2 floats; nil in pure Go
}

// supported lists the implementations that this processor can run, the fastest last. Pure
// Go is the first.
var supported = append([]*kernels{&pureGo}, assembly()...)

var active = supported[len(supported)-1]

// ISA names the instruction set in use: "go", "avx2", "avx512" or "neon".
func ISA() string { return active.name }

// copyTap returns the kernel for a stride and a number of columns, or nil.
func (k *kernels) copyTap(stride, cols int) copyTapFunc {
	if stride > 2 || cols < 4 {
		return nil
	}
	return k.copyTaps[stride-1]
}

// maxPool returns the kernel for a stride and a number of columns, or nil.
func (k *kernels) maxPool(stride, cols int) maxPoolRowsFunc {
	if stride > 2 || cols < 4 {
		return nil
	}
	return k.maxPoolRows[stride-1]
}

// RunFMA runs rounds of independent fused multiply-adds in registers, the fastest
// arithmetic of the processor, and returns the number of floating-point operations. Kernels
// are measured against it. In pure Go it does nothing and returns 0.
func RunFMA(rounds int) (operations float64) { return active.fma(rounds) }

func (k *kernels) fma(rounds int) float64 {
	if k.fmaPeak == nil || rounds < 1 {
		return 0
	}
	k.fmaPeak(rounds)
	const chains = 12
	lanes := k.nr / 2 // a tile is two vectors wide
	return float64(rounds) * chains * float64(lanes) * 2
}
