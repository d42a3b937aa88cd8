package cpu

import (
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/simd"
)

const (
	patchOutputs = 16 // the fewest outputs that fill vectors of a result's channels
	rowPad       = 16 // floats between rows, which avoid cache conflicts
)

// patched is a convolution with channels last. The windows of a picture are the rows of a
// matrix, [area, taps]. The result is rows·Wᵀ plus a bias per column, the gradient of the
// weight is Δ·rows, and that of the picture is Δᵀ·W folded back. Taps are in the order of
// memory: kernel rows, kernel columns, channels.
type patched struct {
	*convolution
	patches            *simd.Patches
	rows, padded       int  // floats
	kernel, pitch      int  // elements of a kernel plane; floats from one row of the weight to the next
	resultChannelsLast bool // results and their gradients have their channels last
}

// newPatched returns nil where patches do not pay. picture and result state whether
// pictures and results have their channels last already.
func newPatched(v *convolution, picture, result bool) *patched {
	if v.direct() || v.Groups != 1 || v.O < patchOutputs {
		return nil
	}
	g := &patched{convolution: v, patches: v.window.Patches(picture), kernel: v.KernelH * v.KernelW, resultChannelsLast: result}
	if g.patches == nil {
		return nil
	}
	rows, padded := g.patches.BufferSizes()
	g.rows, g.padded = roundToLines(rows), roundToLines(padded)
	g.pitch = roundToLines(v.taps) + rowPad
	return g
}

// roundToLines rounds a number of floats up to whole cache lines.
func roundToLines(floats int) int { return (floats + 15) &^ 15 }

// scratch returns how many floats of scratch memory each method needs: for the rows, a
// padded picture, and a result or a gradient.
func (g *patched) scratch() int {
	return g.rows + g.padded + max(g.area*g.O, g.O*g.taps)
}

// splitScratch returns the parts of the scratch memory.
func (g *patched) splitScratch(w *worker) (rows, padded, rest []float32) {
	memory := w.floats(g.scratch())
	return memory[:g.rows], memory[g.rows:][:g.padded], memory[g.rows+g.padded:]
}

// lowerPatchedConv computes results y from pictures x.
func lowerPatchedConv(l *lowering, g *patched, s op.Conv2D, y []float32, in [][]float32) func() {
	x, weight, bias := in[0], in[1], in[2]
	l.pool.reserve(g.scratch(), 0)
	transposed := make([]float32, g.taps*g.O)
	transpose := l.pool.forRanges(g.cg, g.kernel*g.O, func(from, to int, _ *worker) {
		if g.kernel == 1 {
			simd.Transpose(transposed[from*g.O:], g.O, weight[from:], g.taps, g.O, to-from)
			return
		}
		for ch := from; ch < to; ch++ {
			simd.Transpose(transposed[ch*g.O:], g.cg*g.O, weight[ch*g.kernel:], g.taps, g.O, g.kernel)
		}
	})
	f := activations[s.Act].apply
	product := simd.Gemm{M: g.area, N: g.O, K: g.taps, LDA: g.taps, LDB: g.O, LDC: g.O, ColBias: bias, ReLU: s.Act == op.ReLU}
	return sequence(transpose, l.pool.forRanges(len(y)/(g.O*g.area), g.O*g.taps*g.area/8, func(from, to int, w *worker) {
		rows, padded, result := g.splitScratch(w)
		for n := from; n < to; n++ {
			g.patches.Rows(rows, g.picture(x, n), padded)
			y := g.result(y, n)
			if g.resultChannelsLast {
				product.Run(y, rows, transposed, w.gemm, 0, 1)
			} else {
				product.Run(result, rows, transposed, w.gemm, 0, 1)
				simd.Transpose(y, g.area, result, g.O, g.area, g.O)
			}
			if s.Act != op.Identity && s.Act != op.ReLU {
				f(y, y)
			}
		}
	}))
}

// lowerPatchedGradInput computes the gradient of pictures x.
func lowerPatchedGradInput(l *lowering, g *patched, x, delta, weight []float32) func() {
	l.pool.reserve(g.scratch(), 0)
	transposed := make([]float32, g.O*g.pitch)
	transpose := l.pool.forRanges(g.O, g.taps, func(from, to int, _ *worker) {
		for o := from; o < to; o++ {
			simd.Transpose(transposed[o*g.pitch:], g.cg, weight[o*g.taps:], g.kernel, g.cg, g.kernel)
		}
	})
	product := simd.Gemm{TransA: true, M: g.area, N: g.taps, K: g.O, LDA: g.area, LDB: g.pitch, LDC: g.taps}
	if g.resultChannelsLast {
		product.TransA, product.LDA = false, g.O
	}
	return sequence(transpose, l.pool.forRanges(len(delta)/(g.O*g.area), g.O*g.taps*g.area/8, func(from, to int, w *worker) {
		rows, padded, _ := g.splitScratch(w)
		for n := from; n < to; n++ {
			product.Run(rows, g.result(delta, n), transposed, w.gemm, 0, 1)
			g.patches.Fold(g.picture(x, n), rows, padded)
		}
	}))
}

// operands are the operands of a weight's gradient, of records with this many pictures each.
type operands struct {
	x, delta []float32
	pictures int
}

// gradient writes some outputs of the weight's gradient of the pictures of record r to dst. Taps are in the order of patched.
func (g *patched) gradient(dst []float32, o operands, r int, outputs channelRange, w *worker) {
	rows, padded, _ := g.splitScratch(w)
	product := simd.Gemm{M: outputs.to - outputs.from, N: g.taps, K: g.area, LDA: g.area, LDB: g.taps, LDC: g.taps}
	from := outputs.from * g.area
	if g.resultChannelsLast {
		product.TransA, product.LDA, from = true, g.O, outputs.from
	}
	for n := r * o.pictures; n < (r+1)*o.pictures; n++ {
		g.patches.Rows(rows, g.picture(o.x, n), padded)
		product.Run(dst, g.result(o.delta, n)[from:], rows, w.gemm, 0, 1)
		product.Accumulate = true
	}
}

// gradientBuilder makes a builder of records' gradients, with taps in the order of the
// weight.
func (g *patched) gradientBuilder(x, delta []float32, pictures int) gradientBuilder {
	o := operands{x, delta, pictures}
	return gradientBuilder{func(dst []float32, r int, w *worker) {
		if g.cg == 1 {
			g.gradient(dst, o, r, channelRange{0, g.O}, w)
			return
		}
		_, _, one := g.splitScratch(w)
		g.gradient(one, o, r, channelRange{0, g.O}, w)
		g.toWeightOrder(dst, one, g.O)
	}, pictures * g.area * g.Size() / 8}
}

// toWeightOrder copies outputs of a gradient, with taps in the order of the weight.
func (g *patched) toWeightOrder(dst, gradient []float32, outputs int) {
	if g.cg == 1 {
		copy(dst, gradient)
		return
	}
	for o := range outputs {
		simd.Transpose(dst[o*g.taps:], g.kernel, gradient[o*g.taps:], g.cg, g.kernel, g.cg)
	}
}

// gradientKey identifies records' gradients by the buffers that they are computed from.
type gradientKey struct {
	x, delta int
	form     op.ConvWeight
}

// maxSavedGradients is how many floats of gradients are saved from the norms to the clipped
// sum. That many stay in a cache near the core; computing more of them again is as fast.
const maxSavedGradients = 1 << 20

// saveGradients returns memory for records' gradients, nil if the clipped sum computes them
// again.
func saveGradients(l *lowering, g *patched, k call, records int) []float32 {
	n := records * g.Size()
	if n > maxSavedGradients {
		return nil
	}
	saved := make([]float32, n)
	l.saved.gradients[gradientKey{k.bases[0], k.bases[1], g.ConvWeight}] = saved
	return saved
}

// lowerPatchedNorms keeps the promise of clipping.Float32Accuracy for the gradients that
// lowerPatchedSum adds: the float32 results of the same products, whose bits depend on their
// record alone (simd.Gemm). It promises nothing about the gradients of exact arithmetic.
func lowerPatchedNorms(l *lowering, g *patched, records int, k call) func() {
	l.pool.reserve(g.scratch(), 0)
	out, x, delta := k.out, k.in[0], k.in[1]
	pictures := len(delta) / (g.O * g.area) / records
	saved, o := saveGradients(l, g, k, records), operands{x, delta, pictures}
	return l.pool.forRanges(records, pictures*g.area*g.Size()/8, func(from, to int, w *worker) {
		for r := from; r < to; r++ {
			_, _, one := g.splitScratch(w)
			if one = one[:g.Size()]; saved != nil {
				one = saved[r*g.Size():][:g.Size()]
			}
			g.gradient(one, o, r, channelRange{0, g.O}, w)
			out[r] = float32(simd.SumSquares(one))
		}
	})
}

// lowerPatchedSum adds the gradients of records, each times its factor, in the order of the
// records. Each task, or each thread if the norms did not save gradients, owns some outputs.
func lowerPatchedSum(l *lowering, g *patched, k call, factors []float32) func() {
	l.pool.reserve(g.scratch(), 0)
	out, x, delta := k.out, k.in[0], k.in[1]
	pictures := len(delta) / (g.O * g.area) / len(factors)
	sums, transposed := make([]float32, g.Size()), make([]float32, g.Size())
	finish := func(o0, o1 int) {
		sums, transposed, out := sums[o0*g.taps:o1*g.taps], transposed[o0*g.taps:o1*g.taps], out[o0*g.taps:o1*g.taps]
		if !k.accumulate {
			g.toWeightOrder(out, sums, o1-o0)
			return
		}
		g.toWeightOrder(transposed, sums, o1-o0)
		simd.Add(out, out, transposed)
	}
	if saved := l.saved.gradients[gradientKey{k.bases[0], k.bases[1], g.ConvWeight}]; saved != nil {
		return l.pool.forRanges(g.O, len(factors)*g.taps, func(from, to int, _ *worker) {
			at := from * g.taps
			simd.ColSums(sums[at:to*g.taps], saved[at:], g.Size(), len(factors), (to-from)*g.taps, factors, false)
			finish(from, to)
		})
	}
	o := operands{x, delta, pictures}
	return l.pool.forShards(len(factors)*pictures*g.area*g.Size()/8, func(shard, shards int, w *worker) {
		o0, o1 := g.O*shard/shards, g.O*(shard+1)/shards
		if o0 == o1 {
			return
		}
		sums := sums[o0*g.taps : o1*g.taps]
		clear(sums)
		_, _, one := g.splitScratch(w)
		one = one[:len(sums)]
		for r, factor := range factors {
			if factor != 0 {
				g.gradient(one, o, r, channelRange{o0, o1}, w)
				simd.Axpy(sums, one, factor)
			}
		}
		finish(o0, o1)
	})
}
