package cpu

import (
	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/simd"
)

// A recurrent layer must take its steps one after the other, but its examples
// know nothing of each other: every thread walks through all steps with some of
// the examples, and none waits for another in between.

// walk is the order in which a recurrent layer reads the steps of a sequence.
type walk struct {
	steps   int
	reverse bool
}

// at is when the k-th step is.
func (w walk) at(k int) int {
	if w.reverse {
		return w.steps - 1 - k
	}
	return k
}

// transposed makes a step that writes a weight [rows, cols] transposed, and gives
// where.
func lowerTranspose(l *lowering, weight []float32, rows, cols int) (step func(), to []float32) {
	to = make([]float32, len(weight))
	return func() { simd.Transpose(to, rows, weight, cols, rows, cols) }, to
}

// panels makes a step that lays out a weight, k rows of n columns or, where it is
// stored so, n rows of k, for many products with it.
func lowerPanels(l *lowering, weight []float32, k, n int, transposed bool) (step func(), to *simd.Panels) {
	ld := n
	if transposed {
		ld = k
	}
	to = simd.NewPanels(k, n)
	return l.pool.forRanges(to.Count(), k*16, func(from, end int, _ *worker) { to.Pack(weight, ld, transposed, from, end) }), to
}

func lowerDelay(l *lowering, s op.Delay, k call) func() {
	steps, d := k.shape[1], k.shape[2]
	order := walk{steps, s.Reverse}
	out, x := k.out, k.in[0]
	return l.pool.forRanges(k.shape[0], steps*d, func(from, to int, _ *worker) {
		for b := from; b < to; b++ {
			y := out[b*steps*d:][:steps*d]
			clear(y[order.at(0)*d:][:d])
			for i := 1; i < steps; i++ {
				copy(y[order.at(i)*d:][:d], x[(b*steps+order.at(i-1))*d:][:d])
			}
		}
	})
}
