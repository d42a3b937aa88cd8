package cpu

import (
	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/simd"
)

const (
	patchOutputs = 16 // fewer, and vectors of a result's channels would lie half idle
	rowPad       = 16 // floats between rows, against cache conflicts
)

// patched convolves with channels last: a picture's windows are the rows of a
// matrix, [area, taps], its result is rows·Wᵀ with the bias of a column, the
// weight's gradient Δ·rows, and the picture's Δᵀ·W folded back. Taps are in the
// order of memory, kernel rows, kernel columns, channels.
type patched struct {
	*convolution
	patches       *simd.Patches
	rows, padded  int  // floats
	kernel, pitch int  // places of the kernel; floats between the weight's rows
	last          bool // results, and what comes back to them, have their channels last
}

// newPatched is nil where that does not pay. Pictures and results may have their
// channels last already.
func newPatched(v *convolution, picture, result bool) *patched {
	if v.direct() || v.Groups != 1 || v.O < patchOutputs {
		return nil
	}
	g := &patched{convolution: v, patches: v.window.Patches(picture), kernel: v.KernelH * v.KernelW, last: result}
	if g.patches == nil {
		return nil
	}
	rows, padded := g.patches.Floats()
	g.rows, g.padded = roundToLines(rows), roundToLines(padded)
	g.pitch = roundToLines(v.taps) + rowPad
	return g
}

// lines rounds up to whole lines of the cache.
func roundToLines(floats int) int { return (floats + 15) &^ 15 }

// scratch is what each of the methods needs: windows, a padded picture, and a
// result or a gradient.
func (g *patched) scratch() int {
	return g.rows + g.padded + max(g.area*g.O, g.O*g.taps)
}

// cut gives the parts of scratch memory.
func (g *patched) cut(w *worker) (rows, padded, rest []float32) {
	memory := w.floats(g.scratch())
	return memory[:g.rows], memory[g.rows:][:g.padded], memory[g.rows+g.padded:]
}

// patchedForward makes the step from pictures x to results y.
func lowerPatchedConv(l *lowering, g *patched, s op.Conv2D, y, x, weight, bias []float32) func() {
	l.pool.reserve(g.scratch(), 0)
	turned := make([]float32, g.taps*g.O)
	turn := l.pool.forRanges(g.cg, g.kernel*g.O, func(from, to int, _ *worker) {
		if g.kernel == 1 {
			simd.Transpose(turned[from*g.O:], g.O, weight[from:], g.taps, g.O, to-from)
			return
		}
		for ch := from; ch < to; ch++ {
			simd.Transpose(turned[ch*g.O:], g.cg*g.O, weight[ch*g.kernel:], g.taps, g.O, g.kernel)
		}
	})
	f := activations[s.Act].apply
	product := simd.Gemm{M: g.area, N: g.O, K: g.taps, LDA: g.taps, LDB: g.O, LDC: g.O, ColBias: bias, ReLU: s.Act == op.ReLU}
	return sequence(turn, l.pool.forRanges(len(y)/(g.O*g.area), g.O*g.taps*g.area/8, func(from, to int, w *worker) {
		rows, padded, result := g.cut(w)
		for n := from; n < to; n++ {
			g.patches.Rows(rows, g.picture(x, n), padded)
			y := g.result(y, n)
			if g.last {
				product.Run(y, rows, turned, w.gemm, 0, 1)
			} else {
				product.Run(result, rows, turned, w.gemm, 0, 1)
				simd.Transpose(y, g.area, result, g.O, g.area, g.O)
			}
			if s.Act != op.Identity && s.Act != op.ReLU {
				f(y, y)
			}
		}
	}))
}

// patchedBack makes the step from what comes back to the pictures' gradient.
func lowerPatchedGradInput(l *lowering, g *patched, x, delta, weight []float32) func() {
	l.pool.reserve(g.scratch(), 0)
	turned := make([]float32, g.O*g.pitch)
	turn := l.pool.forRanges(g.O, g.taps, func(from, to int, _ *worker) {
		for o := from; o < to; o++ {
			simd.Transpose(turned[o*g.pitch:], g.cg, weight[o*g.taps:], g.kernel, g.cg, g.kernel)
		}
	})
	product := simd.Gemm{TransA: true, M: g.area, N: g.taps, K: g.O, LDA: g.area, LDB: g.pitch, LDC: g.taps}
	if g.last {
		product.TransA, product.LDA = false, g.O
	}
	return sequence(turn, l.pool.forRanges(len(delta)/(g.O*g.area), g.O*g.taps*g.area/8, func(from, to int, w *worker) {
		rows, padded, _ := g.cut(w)
		for n := from; n < to; n++ {
			product.Run(rows, g.result(delta, n), turned, w.gemm, 0, 1)
			g.patches.Fold(g.picture(x, n), rows, padded)
		}
	}))
}

// gradient sets dst to outputs o0 to o1 of the weight's gradient for one record's
// pictures, their taps in the order of patched.
func (g *patched) gradient(dst, x, delta []float32, first, pictures, o0, o1 int, w *worker) {
	rows, padded, _ := g.cut(w)
	product := simd.Gemm{M: o1 - o0, N: g.taps, K: g.area, LDA: g.area, LDB: g.taps, LDC: g.taps}
	from := o0 * g.area
	if g.last {
		product.TransA, product.LDA, from = true, g.O, o0
	}
	for n := first; n < first+pictures; n++ {
		g.patches.Rows(rows, g.picture(x, n), padded)
		product.Run(dst, g.result(delta, n)[from:], rows, w.gemm, 0, 1)
		product.Accumulate = true
	}
}

// builder makes a record's gradient in the order of the weight.
func (g *patched) gradientBuilder(x, delta []float32, pictures int) gradientBuilder {
	return gradientBuilder{func(dst []float32, r int, w *worker) {
		if g.cg == 1 {
			g.gradient(dst, x, delta, r*pictures, pictures, 0, g.O, w)
			return
		}
		_, _, one := g.cut(w)
		g.gradient(one, x, delta, r*pictures, pictures, 0, g.O, w)
		g.turnBack(dst, one, g.O)
	}, pictures * g.area * g.Size() / 8}
}

// turnBack writes outputs of a gradient in the order of the weight.
func (g *patched) turnBack(dst, gradient []float32, outputs int) {
	if g.cg == 1 {
		copy(dst, gradient)
		return
	}
	for o := range outputs {
		simd.Transpose(dst[o*g.taps:], g.kernel, gradient[o*g.taps:], g.cg, g.kernel, g.cg)
	}
}

// outright tells whether making a record's gradient, in float32, is less work than
// the Gram matrices of its rows, in float64. Its sums then add up the very
// gradients whose norms were taken.
func buildsGradients(v *convolution, pictures int) bool {
	return 4*v.Size() <= 5*pictures*v.area*(v.taps+v.O)
}

// gradientKey names the gradients of records: by the buffers they are made from.
type gradientKey struct {
	x, delta int
	form     op.ConvWeight
}

// keptGradients is how many floats of gradients are kept from the norms to the sum:
// what stays near a core. More, and making them again is as fast.
const keptGradients = 1 << 20

// keepGradients is memory for the gradients of records; nil where they are made again.
func saveGradients(l *lowering, g *patched, k call, records int) []float32 {
	n := records * g.Size()
	if n > keptGradients {
		return nil
	}
	kept := make([]float32, n)
	l.saved.gradients[gradientKey{k.bases[0], k.bases[1], g.ConvWeight}] = kept
	return kept
}

// patchedNorms keeps clip.Single's promise for what patchedSum adds up: the float32
// gradients of the same products, whose bits depend on their record alone
// (simd.Gemm). It says nothing of the gradients of exact arithmetic.
func lowerPatchedNorms(l *lowering, g *patched, records int, k call) func() {
	l.pool.reserve(g.scratch(), 0)
	out, x, delta := k.out, k.in[0], k.in[1]
	pictures := len(delta) / (g.O * g.area) / records
	kept := saveGradients(l, g, k, records)
	return l.pool.forRanges(records, pictures*g.area*g.Size()/8, func(from, to int, w *worker) {
		for r := from; r < to; r++ {
			_, _, one := g.cut(w)
			if one = one[:g.Size()]; kept != nil {
				one = kept[r*g.Size():][:g.Size()]
			}
			g.gradient(one, x, delta, r*pictures, pictures, 0, g.O, w)
			out[r] = float32(simd.SumSquares(one))
		}
	})
}

// patchedSum adds up the gradients of records, each times its factor, in the order of
// the records. A task, or a thread where no norms have left gradients, owns outputs.
func lowerPatchedSum(l *lowering, g *patched, k call, factors []float32) func() {
	l.pool.reserve(g.scratch(), 0)
	out, x, delta := k.out, k.in[0], k.in[1]
	pictures := len(delta) / (g.O * g.area) / len(factors)
	sums, turned := make([]float32, g.Size()), make([]float32, g.Size())
	finish := func(o0, o1 int) {
		sums, turned, out := sums[o0*g.taps:o1*g.taps], turned[o0*g.taps:o1*g.taps], out[o0*g.taps:o1*g.taps]
		if !k.accumulate {
			g.turnBack(out, sums, o1-o0)
			return
		}
		g.turnBack(turned, sums, o1-o0)
		simd.Add(out, out, turned)
	}
	if kept := l.saved.gradients[gradientKey{k.bases[0], k.bases[1], g.ConvWeight}]; kept != nil {
		return l.pool.forRanges(g.O, len(factors)*g.taps, func(from, to int, _ *worker) {
			at := from * g.taps
			simd.ColSums(sums[at:to*g.taps], kept[at:], g.Size(), len(factors), (to-from)*g.taps, factors, false)
			finish(from, to)
		})
	}
	return l.pool.forShards(len(factors)*pictures*g.area*g.Size()/8, func(shard, shards int, w *worker) {
		o0, o1 := g.O*shard/shards, g.O*(shard+1)/shards
		if o0 == o1 {
			return
		}
		sums := sums[o0*g.taps : o1*g.taps]
		clear(sums)
		_, _, one := g.cut(w)
		one = one[:len(sums)]
		for r, factor := range factors {
			if factor != 0 {
				g.gradient(one, x, delta, r*pictures, pictures, o0, o1, w)
				simd.Axpy(sums, one, factor)
			}
		}
		finish(o0, o1)
	})
}
