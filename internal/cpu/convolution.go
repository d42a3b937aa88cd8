package cpu

import (
	"math"

	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/simd"
)

// conv2D computes picture by picture: W·columns + b.
func (c compiler) conv2D(s op.Conv2D, k call) func() {
	x, y := k.shapes[0], k.shape
	v := newConvolution(op.ConvWeight{Window: s.Window, Groups: s.Groups, C: x[1], H: x[2], W: x[3], O: y[1]})
	out, in, weight, bias := k.out, k.in[0], k.in[1], k.in[2]
	f := activations[s.Act].apply
	if g := c.newWinograd(v, x[0], false); g != nil {
		g.bias, g.relu = bias, s.Act == op.ReLU
		if s.Act != op.Identity && s.Act != op.ReLU {
			g.activate = f
		}
		return c.winograd(g, out, in, weight)
	}
	if g := newPatched(v, k.last[0], k.outLast); g != nil {
		return c.patchedForward(g, s, out, in, weight, bias)
	}
	products := make([]simd.Gemm, v.Groups)
	for g := range products {
		products[g] = simd.Gemm{
			M: v.og, N: v.area, K: v.taps, LDA: v.taps, LDB: v.area, LDC: v.area,
			RowBias: bias[g*v.og : (g+1)*v.og], ReLU: s.Act == op.ReLU,
		}
	}
	c.reserve(v.scratch(), 0)
	return c.over(x[0], v.O*v.taps*v.area/8, func(from, to int, w *worker) {
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

// convGradInput folds Wᵀ·Δ back into pictures.
func (c compiler) convGradInput(s op.ConvGradInput, k call) func() {
	v := newConvolution(op.ConvWeight(s))
	out, delta, weight := k.out, k.in[0], k.in[1]
	if g := c.newWinograd(v, k.shape[0], true); g != nil {
		return c.winograd(g, out, delta, weight)
	}
	if g := newPatched(v, k.outLast, k.last[0]); g != nil {
		return c.patchedBack(g, out, delta, weight)
	}
	product := simd.Gemm{TransA: true, M: v.taps, N: v.area, K: v.og, LDA: v.taps, LDB: v.area, LDC: v.area}
	c.reserve(v.scratch(), 0)
	return c.over(k.shape[0], v.O*v.taps*v.area/8, func(from, to int, w *worker) {
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

// gradWeight is the weight's gradient for one picture, or is added to it.
func (v *convolution) gradWeight(dst, picture, delta []float32, accumulate bool, w *worker) {
	product := simd.Gemm{
		TransB: true, M: v.og, N: v.taps, K: v.area, LDA: v.area, LDB: v.area, LDC: v.taps, Accumulate: accumulate,
	}
	for g := range v.Groups {
		columns := v.columns(picture, g, w)
		product.Run(dst[g*v.og*v.taps:], delta[g*v.og*v.area:], columns, w.gemm, 0, 1)
	}
}

// convSum adds up the weight's gradient over all pictures, each times the factor
// of its record where factors are given. A thread owns some of a group's
// channels, or where these are few some of its outputs, for all pictures in
// order: no sum depends on how many threads there are.
func (c compiler) convSum(f op.ConvWeight, k call, factors []float32) func() {
	v := newConvolution(f)
	out, x, delta := k.out, k.in[0], k.in[1]
	pictures := len(delta) / (v.O * v.area)
	if factors != nil && outright(v, pictures/len(factors)) { // as the norms are
		if g := newPatched(v, k.last[0], k.last[1]); g != nil {
			return c.patchedSum(g, k, factors)
		}
	}
	if s := c.newWinogradSum(v, x, delta, factors); s != nil {
		return c.winogradSum(s, out, k.accumulate)
	}
	each := pictures
	if factors != nil {
		each /= len(factors)
	}
	kernel, scaled := f.KernelH*f.KernelW, v.og*v.area
	c.reserve(v.scratch()+scaled, 0)
	return c.shards(pictures*v.area*f.Size()/8, func(shard, shards int, w *worker) {
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
				factor = factors[n/each]
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

// convGram: the rows of the product are the windows of a record's pictures, and
// groups are products of their own.
func (c compiler) convGram(f op.ConvWeight, records int, k call) func() {
	v := newConvolution(f)
	out, x, delta := k.out, k.in[0], k.in[1]
	pictures := len(delta) / (v.O * v.area) / records
	rows := pictures * v.area
	before := v.scratch() + rows*(v.taps+v.og)
	scratch := before + gramScratch(rows)
	c.reserve(scratch, 0)
	nx, nd, roundings := len(x)/records, len(delta)/records, c.convRoundings(v, pictures)
	return c.over(records, v.Groups*rows*rows*(v.taps+v.og)/16, func(from, to int, w *worker) {
		for r := from; r < to; r++ {
			var total float64
			for group := range v.Groups {
				first := r * pictures
				a := v.columns(v.picture(x, first), group, w)
				d := v.result(delta, first)[group*v.og*v.area:][:v.og*v.area]
				if pictures > 1 {
					a, d = v.together(x, delta, first, pictures, group, w)
				}
				g := newGram(w.floats(scratch)[before:], rows)
				square, _ := g.squared(vectors{a, v.taps, v.area}, vectors{d, v.og, v.area}, false)
				total += square
			}
			out[r] = float32(summed(total, roundings, v.lengths(x[r*nx:(r+1)*nx], delta[r*nd:(r+1)*nd])) + k.operands(r, records))
		}
	})
}

// lengths is at least the sum over a record's windows of ‖a_t‖‖δ_t‖: each place of its
// pictures lies in so many windows at most.
func (v *convolution) lengths(x, delta []float32) float64 {
	return math.Sqrt(float64(v.KernelH*v.KernelW) * simd.SumSquares(x) * simd.SumSquares(delta))
}

// convRoundings is how many roundings of lengths [compiler.convSum] leaves of a record
// of so many pictures.
func (c compiler) convRoundings(v *convolution, pictures int) int {
	if c.summingWinograd(v) != nil {
		return winogradRoundings(v, pictures)
	}
	return oneByOne(pictures * v.area)
}

// convMeanwhile is how many roundings of lengths the other records of so many pictures leave
// of what a record has added and another use of the weight takes back.
func (c compiler) convMeanwhile(v *convolution, pictures int) int {
	if c.summingWinograd(v) != nil {
		return winogradLength * (simd.Chain + chains(pictures*pictureTiles(v)))
	}
	return pictures * chains(v.area)
}

// together lays the columns and signals of a record's pictures out one after the
// other.
func (v *convolution) together(x, delta []float32, first, pictures, group int, w *worker) (a, d []float32) {
	na, nd := v.taps*v.area, v.og*v.area
	memory := w.floats(v.scratch() + pictures*(na+nd))[v.scratch():]
	a, d = memory[:pictures*na], memory[pictures*na:]
	for i := range pictures {
		copy(a[i*na:], v.columns(v.picture(x, first+i), group, w))
		copy(d[i*nd:], v.result(delta, first+i)[group*nd:][:nd])
	}
	return a, d
}
