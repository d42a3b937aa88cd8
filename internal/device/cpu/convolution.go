package cpu

import (
	"math"

	"github.com/dptrain/dptrain/internal/device/cpu/gram"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/simd"
)

// lowerConvolutionOp makes the step of convolutions and pooling.
func lowerConvolutionOp(l *lowering, spec op.Operation, k call) func() {
	switch s := spec.(type) {
	case op.Conv2D:
		return lowerConv2D(l, s, k)
	case op.ConvGradInput:
		return lowerConvGradInput(l, s, k)
	case op.ConvGradWeight:
		return lowerConvSum(l, op.ConvWeight(s), k, nil)
	case op.Im2Col:
		return lowerIm2Col(l, s, k)
	case op.Col2Im:
		return lowerCol2Im(l, s, k)
	case op.MaxPool2D:
		return lowerMaxPool(l, s, k)
	case op.MaxPoolGrad:
		return lowerMaxPoolGrad(l, s, k)
	case op.AvgPool2D:
		return lowerAvgPool(l, s, k)
	case op.AvgPoolGrad:
		return lowerAvgPoolGrad(l, s, k)
	}
	return nil
}

// simdWindow converts a window over pictures of c planes of height by width.
func simdWindow(w op.Window, c, height, width int) simd.Window {
	return simd.Window{
		C: c, H: height, W: width, KH: w.KernelH, KW: w.KernelW, StrideH: w.StrideH, StrideW: w.StrideW,
		PadH: w.PadH, PadW: w.PadW, DilH: w.DilationH, DilW: w.DilationW,
	}
}

// convolution is the geometry of a convolution. With the windows of a picture written as
// columns (im2col), [taps, area] for each group, the result is W·columns, the gradient of
// the weight is Δ·columnsᵀ, and that of the picture is Wᵀ·Δ folded back (col2im).
type convolution struct {
	op.ConvWeight
	window       simd.Window // over the channels of one group
	area         int         // positions in a plane of the result
	cg, og, taps int         // of a group: channels, outputs, elements of a window

	unfolding *simd.Unfolding
}

func newConvolution(f op.ConvWeight) *convolution {
	v := &convolution{ConvWeight: f, cg: f.C / f.Groups, og: f.O / f.Groups}
	v.window = simdWindow(f.Window, v.cg, f.H, f.W)
	oh, ow := v.window.OutputSize()
	v.area = oh * ow
	v.taps = v.cg * f.KernelH * f.KernelW
	v.unfolding = v.window.Unfolding()
	return v
}

// direct reports whether a picture is its own columns.
func (v *convolution) direct() bool {
	return v.KernelH == 1 && v.KernelW == 1 && v.StrideH == 1 && v.StrideW == 1 && v.PadH == 0 && v.PadW == 0
}

// patches returns the number of floats of one group's columns.
func (v *convolution) patches() int { return v.taps * v.area }

// scratch returns how many floats of scratch memory columns needs.
func (v *convolution) scratch() int {
	columns, phases := v.unfolding.BufferSizes()
	return columns + phases
}

// picture returns picture n of a batch.
func (v *convolution) picture(x []float32, n int) []float32 {
	size := v.C * v.H * v.W
	return x[n*size : (n+1)*size]
}

// result returns the result of picture n, or its gradient, of a batch.
func (v *convolution) result(y []float32, n int) []float32 {
	size := v.O * v.area
	return y[n*size : (n+1)*size]
}

// channels returns the channels of group g of a picture.
func (v *convolution) channels(picture []float32, g int) []float32 {
	size := v.cg * v.H * v.W
	return picture[g*size : (g+1)*size]
}

// columns returns the columns of group g of a picture: the picture itself, or columns in
// the worker's scratch memory.
func (v *convolution) columns(picture []float32, g int, w *worker) []float32 {
	if v.direct() {
		return v.channels(picture, g)
	}
	return v.unfold(v.channels(picture, g), w.floats(v.scratch()))
}

// unfold writes the columns of some channels to memory.
func (v *convolution) unfold(channels, memory []float32) []float32 {
	columns, _ := v.unfolding.BufferSizes()
	v.unfolding.Columns(memory[:columns], channels, memory[columns:])
	return memory[:v.patches()]
}

// lowerConv2D computes W·columns + b for each picture, unless Winograd transforms or
// patches pay.
func lowerConv2D(l *lowering, s op.Conv2D, k call) func() {
	x, y := k.shapes[0], k.shape
	v := newConvolution(op.ConvWeight{Window: s.Window, Groups: s.Groups, C: x[1], H: x[2], W: x[3], O: y[1]})
	out, in, weight, bias := k.out, k.in[0], k.in[1], k.in[2]
	f := activations[s.Act].apply
	if g := newWinograd(l, v, x[0], false); g != nil {
		g.bias, g.relu = bias, s.Act == op.ReLU
		if s.Act != op.Identity && s.Act != op.ReLU {
			g.activate = f
		}
		return lowerWinograd(l, g, out, in, weight)
	}
	if g := newPatched(v, k.inChannelsLast[0], k.outChannelsLast); g != nil {
		return lowerPatchedConv(l, g, s, out, [][]float32{in, weight, bias})
	}
	products := make([]simd.Gemm, v.Groups)
	for g := range products {
		products[g] = simd.Gemm{
			M: v.og, N: v.area, K: v.taps, LDA: v.taps, LDB: v.area, LDC: v.area,
			RowBias: bias[g*v.og : (g+1)*v.og], ReLU: s.Act == op.ReLU,
		}
	}
	l.pool.reserve(v.scratch(), 0)
	return l.pool.forRanges(x[0], v.O*v.taps*v.area/8, func(from, to int, w *worker) {
		for n := from; n < to; n++ {
			y := v.result(out, n)
			for g := range products {
				columns := v.columns(v.picture(in, n), g, w)
				products[g].Run(y[g*v.og*v.area:], weight[g*v.og*v.taps:], columns, w.gemm, 0, 1)
			}
			if s.Act != op.Identity && s.Act != op.ReLU {
				f(y, y)
			}
		}
	})
}

// lowerConvGradInput folds Wᵀ·Δ back into pictures.
func lowerConvGradInput(l *lowering, s op.ConvGradInput, k call) func() {
	v := newConvolution(op.ConvWeight(s))
	out, delta, weight := k.out, k.in[0], k.in[1]
	if g := newWinograd(l, v, k.shape[0], true); g != nil {
		return lowerWinograd(l, g, out, delta, weight)
	}
	if g := newPatched(v, k.outChannelsLast, k.inChannelsLast[0]); g != nil {
		return lowerPatchedGradInput(l, g, out, delta, weight)
	}
	product := simd.Gemm{TransA: true, M: v.taps, N: v.area, K: v.og, LDA: v.taps, LDB: v.area, LDC: v.area}
	l.pool.reserve(v.scratch(), 0)
	return l.pool.forRanges(k.shape[0], v.O*v.taps*v.area/8, func(from, to int, w *worker) {
		for n := from; n < to; n++ {
			x, d := v.picture(out, n), v.result(delta, n)
			for g := range v.Groups {
				columns := v.channels(x, g)
				if !v.direct() {
					columns = w.floats(v.patches())
				}
				product.Run(columns, weight[g*v.og*v.taps:], d[g*v.og*v.area:], w.gemm, 0, 1)
				if !v.direct() {
					v.window.Col2im(v.channels(x, g), columns, v.area)
				}
			}
		}
	})
}

// gradWeight writes the weight's gradient of one picture to dst, or adds it.
func (v *convolution) gradWeight(dst, picture, delta []float32, accumulate bool, w *worker) {
	product := simd.Gemm{
		TransB: true, M: v.og, N: v.taps, K: v.area, LDA: v.area, LDB: v.area, LDC: v.taps, Accumulate: accumulate,
	}
	for g := range v.Groups {
		columns := v.columns(picture, g, w)
		product.Run(dst[g*v.og*v.taps:], delta[g*v.og*v.area:], columns, w.gemm, 0, 1)
	}
}

// lowerConvSum adds the weight's gradients of all pictures. If factors is not nil, each is
// multiplied by the factor of its record. A thread owns some of a group's channels, or some
// of its outputs if channels are few, and reads all pictures in order, so that no sum
// depends on the number of threads.
func lowerConvSum(l *lowering, f op.ConvWeight, k call, factors []float32) func() {
	v := newConvolution(f)
	out, x, delta := k.out, k.in[0], k.in[1]
	pictures := len(delta) / (v.O * v.area)
	if factors != nil && v.BuildsGradient(pictures/len(factors)*v.area) { // lowerSquaredNorms makes the same choice
		if g := newPatched(v, k.inChannelsLast[0], k.inChannelsLast[1]); g != nil {
			return lowerPatchedSum(l, g, k, factors)
		}
	}
	if s := newWinogradSum(l, v, x, delta, factors); s != nil {
		return lowerWinogradSum(l, s, out, k.accumulate)
	}
	perRecord := pictures
	if factors != nil {
		perRecord /= len(factors)
	}
	kernel, scaled := f.KernelH*f.KernelW, v.og*v.area
	l.pool.reserve(v.scratch()+scaled, 0)
	return l.pool.forShards(pictures*v.area*f.Size()/8, func(shard, shards int, w *worker) {
		ch0, ch1, o0, o1 := 0, v.cg, 0, v.og
		if v.cg >= shards {
			ch0, ch1 = v.cg*shard/shards, v.cg*(shard+1)/shards
		} else {
			o0, o1 = v.og*shard/shards, v.og*(shard+1)/shards
		}
		if o0 == o1 {
			return
		}
		taps := (ch1 - ch0) * kernel
		product := simd.Gemm{
			TransB: true, M: o1 - o0, N: taps, K: v.area, LDA: v.area, LDB: v.area, LDC: v.taps, Accumulate: true,
		}
		if !k.accumulate {
			for o := range v.O {
				if o%v.og >= o0 && o%v.og < o1 {
					clear(out[o*v.taps+ch0*kernel:][:taps])
				}
			}
		}
		memory := w.floats(v.scratch() + scaled)
		for n := range pictures {
			factor := float32(1)
			if factors != nil {
				factor = factors[n/perRecord]
			}
			if factor == 0 {
				continue
			}
			for g := range v.Groups {
				columns := v.channels(v.picture(x, n), g)[ch0*v.H*v.W : ch1*v.H*v.W]
				if !v.direct() {
					columns = v.unfold(columns, memory)
				}
				d := v.result(delta, n)[(g*v.og+o0)*v.area:][:(o1-o0)*v.area]
				if factor != 1 {
					plain := d
					d = memory[v.scratch():][:len(plain)]
					simd.Scale(d, plain, factor)
				}
				product.Run(out[(g*v.og+o0)*v.taps+ch0*kernel:], d, columns, w.gemm, 0, 1)
			}
		}
	})
}

// lowerConvGramNorms computes norms from Gram matrices. The rows are the windows of a
// record's pictures, and each group is a product of its own.
func lowerConvGramNorms(l *lowering, f op.ConvWeight, records int, k call) func() {
	v := newConvolution(f)
	out, x, delta := k.out, k.in[0], k.in[1]
	pictures := len(delta) / (v.O * v.area) / records
	rows := pictures * v.area
	before := v.scratch() + rows*(v.taps+v.og)
	scratch := before + gram.Scratch(rows)
	l.pool.reserve(scratch, 0)
	nx, nd, roundings := len(x)/records, len(delta)/records, convSumRoundings(l, v, pictures)
	return l.pool.forRanges(records, v.Groups*rows*rows*(v.taps+v.og)/16, func(from, to int, w *worker) {
		for r := from; r < to; r++ {
			var total float64
			for group := range v.Groups {
				first := r * pictures
				a := v.columns(v.picture(x, first), group, w)
				d := v.result(delta, first)[group*v.og*v.area:][:v.og*v.area]
				if pictures > 1 {
					a, d = v.concatPictures(x, delta, first, pictures, group, w)
				}
				g := gram.New(w.floats(scratch)[before:], rows)
				square, _ := g.SquaredNorm(gram.Vectors{Data: a, Len: v.taps, Block: v.area},
					gram.Vectors{Data: d, Len: v.og, Block: v.area}, false)
				total += square
			}
			out[r] = float32(addRounding(total, roundings, v.lengths(x[r*nx:(r+1)*nx], delta[r*nd:(r+1)*nd])) + k.operandShare(r, records))
		}
	})
}

// lengths returns an upper bound on the sum over a record's windows of ‖a_t‖‖δ_t‖: each
// element of its pictures lies in at most KernelH·KernelW windows.
func (v *convolution) lengths(x, delta []float32) float64 {
	return math.Sqrt(float64(v.KernelH*v.KernelW) * simd.SumSquares(x) * simd.SumSquares(delta))
}

// convSumRoundings returns how many roundings, relative to lengths, lowerConvSum leaves in
// the gradient of a record of this many pictures.
func convSumRoundings(l *lowering, v *convolution, pictures int) int {
	if newSumWinograd(l, v) != nil {
		return winogradRoundings(v, pictures)
	}
	return sequentialRoundings(pictures * v.area)
}

// convSumCrossRoundings returns how many roundings, relative to lengths, a microbatch of
// this many pictures leaves in the gradient of a record, between the use that adds it and
// another use of the weight that cancels it.
func convSumCrossRoundings(l *lowering, v *convolution, pictures int) int {
	if newSumWinograd(l, v) != nil {
		return winogradLength * (simd.Chain + countChains(pictures*pictureTiles(v)))
	}
	return pictures * countChains(v.area)
}

// concatPictures writes the columns and signals of a record's pictures one after the
// other.
func (v *convolution) concatPictures(x, delta []float32, first, pictures, group int, w *worker) (a, d []float32) {
	na, nd := v.taps*v.area, v.og*v.area
	memory := w.floats(v.scratch() + pictures*(na+nd))[v.scratch():]
	a, d = memory[:pictures*na], memory[pictures*na:]
	for i := range pictures {
		copy(a[i*na:], v.columns(v.picture(x, first+i), group, w))
		copy(d[i*nd:], v.result(delta, first+i)[group*nd:][:nd])
	}
	return a, d
}

// lowerIm2Col writes each window of a picture as a row: the transpose of its columns.
func lowerIm2Col(l *lowering, s op.Im2Col, k call) func() {
	x := k.shapes[0]
	v := newConvolution(op.ConvWeight{Window: s.Window, Groups: 1, C: x[1], H: x[2], W: x[3]})
	out, in := k.out, k.in[0]
	l.pool.reserve(v.scratch(), 0)
	return l.pool.forRanges(x[0], v.patches(), func(from, to int, w *worker) {
		for n := from; n < to; n++ {
			columns := v.columns(v.picture(in, n), 0, w)
			simd.Transpose(out[n*v.patches():][:v.patches()], v.taps, columns, v.area, v.taps, v.area)
		}
	})
}

// lowerCol2Im adds rows to the windows of the pictures that they belong to.
func lowerCol2Im(l *lowering, s op.Col2Im, k call) func() {
	v := newConvolution(op.ConvWeight{Window: s.Window, Groups: 1, C: s.C, H: s.H, W: s.W})
	out, rows := k.out, k.in[0]
	l.pool.reserve(v.patches(), 0)
	return l.pool.forRanges(k.shape[0], v.patches(), func(from, to int, w *worker) {
		for n := from; n < to; n++ {
			columns := w.floats(v.patches())
			simd.Transpose(columns, v.area, rows[n*v.patches():][:v.patches()], v.taps, v.area, v.taps)
			v.window.Col2im(v.picture(out, n), columns, v.area)
		}
	})
}
