package simd

// tileFunc computes C[0:m, 0:n] over k steps, each element one chain of
// multiply-adds in the order of k. See the flags for what happens at the end.
type tileFunc func(m, n, k int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int, flags int, bias *float32)

// What a tile does with its sums before it stores them, in this order.
const (
	flagAdd     = 1 << iota // add what C holds
	flagColBias             // add bias[j]
	flagRowBias             // add bias[i]
	flagReLU                // max(0, x), NaN kept
)

type (
	copyTapFunc     = func(dst *float32, cols int, img *float32, offset, lds, rows, w, width int)
	maxPoolRowsFunc = func(dst *float32, arg *int32, cols int, img *float32, offset, lds, khs, kws, w, dil, width, rows, step int)
)

// kernels is one implementation of everything whose code depends on the
// processor.
type kernels struct {
	name string

	mr, nr    int  // the largest tile
	exactRead bool // a tile never reads B beyond column n; else B's last panel is padded
	tileRows  tileFunc
	tileCols  tileFunc

	packRows     func(dst *float32, width int, src *float32, lds, rows, cols int, factors *float32)
	prefetchRows func(p *float32, ld, rows, lines int) // a hint; nil where it is not given
	transpose8   func(dst *float32, ldd int, src *float32, lds, blocks int)

	add, mul, reluGrad, tanhGrad, sigmoidGrad, geluGrad func(dst, x, y *float32, n int)
	relu, tanh, sigmoid, gelu                           func(dst, x *float32, n int)
	scale, axpy                                         func(dst, x *float32, n int, alpha float32)
	exp                                                 func(dst, x *float32, n int, shift float32)
	softmaxGrad                                         func(dst, p, dp *float32, n int, mean, scale float32)
	normalize                                           func(dst, x *float32, n int, mean, rest, scale float32)
	normalizeGrad                                       func(dst, x, d *float32, n int, mean, slope, shift, scale float32)

	sumRows   func(dst, table *float32, rows *int32, n, dim int)
	addToRows func(table *float32, rows *int32, n int, src *float32, dim int)

	lstmStep    func(trace, hidden, squashed, x, p, before *float32, n int)
	lstmSignals func(d, cell, trace, squashed, before, grad, back *float32, n int)

	dot             func(x, y *float32, n int) float64
	sum, sumSquares func(x *float32, n int) float64
	deviations      func(x *float32, n int, mean float64) float64 // n a multiple of 32
	maximum         func(x *float32, n int) float32
	colSums         func(dst, x *float32, ldx, rows, cols int, factors *float32)

	// Windows; nil where plain loops do. The index is stride-1.
	copyTaps     [2]copyTapFunc
	maxPoolRows  [2]maxPoolRowsFunc
	unfold       func(dst *float32, cols, rows int, src *float32, lds int, starts *int32, taps int)
	fold         func(dst *float32, lds int, starts *int32, n int, src *float32, cols, rows int)
	maxTaps      func(dst *float32, arg *uint8, img *float32, channels, places, step int, taps *int32, n int)
	addToMaxTaps func(img, dy *float32, arg *uint8, channels, places, step int, taps *int32, n int)
	sumTaps      func(dst *float32, cols int, p *float32, offset, ldp, next, khs, kws, w, dil, width int)
	sumTaps2     func(dst *float32, cols int, p *float32, offset0, offset1, ldp, next, khs, kws0, kws1, w0, w1, width int)

	winograd [2]winogradKernels // for three and for five taps; empty where Im2col does

	fmaPeak func(rounds int) // nil in pure Go
}

// supported lists what this processor can run, the best last; pure Go is first.
var supported = append([]*kernels{&pureGo}, assembly()...)

var active = supported[len(supported)-1]

// ISA names the instructions in use: "go", "avx2", "avx512" or "neon".
func ISA() string { return active.name }

// copyTap and maxPool are the kernels for a stride and a number of columns,
// or nil.
func (k *kernels) copyTap(stride, cols int) copyTapFunc {
	if stride > 2 || cols < 4 {
		return nil
	}
	return k.copyTaps[stride-1]
}

func (k *kernels) maxPool(stride, cols int) maxPoolRowsFunc {
	if stride > 2 || cols < 4 {
		return nil
	}
	return k.maxPoolRows[stride-1]
}

// RunFMA runs rounds of independent fused multiply-adds in registers, the fastest
// arithmetic that the processor has, and gives the number of floating-point
// operations that they were. It is what kernels are measured against. In pure Go,
// which has no such kernel, it does nothing and gives 0.
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
