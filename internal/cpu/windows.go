package cpu

import (
	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/simd"
)

// windows writes each window of a picture out as a row: its columns, transposed.
func (c compiler) windows(s op.Im2Col, k call) func() {
	x := k.shapes[0]
	v := newConvolution(op.ConvWeight{Window: s.Window, Groups: 1, C: x[1], H: x[2], W: x[3]})
	out, in := k.out, k.in[0]
	c.reserve(v.scratch(), 0)
	return c.over(x[0], v.patches(), func(from, to int, w *worker) {
		for n := from; n < to; n++ {
			columns := v.columns(v.picture(in, n), 0, w)
			simd.Transpose(out[n*v.patches():][:v.patches()], v.taps, columns, v.area, v.taps, v.area)
		}
	})
}

// foldWindows adds rows back to the pictures that they came from.
func (c compiler) foldWindows(s op.Col2Im, k call) func() {
	v := newConvolution(op.ConvWeight{Window: s.Window, Groups: 1, C: s.C, H: s.H, W: s.W})
	out, rows := k.out, k.in[0]
	c.reserve(v.patches(), 0)
	return c.over(k.shape[0], v.patches(), func(from, to int, w *worker) {
		for n := from; n < to; n++ {
			columns := w.floats(v.patches())
			simd.Transpose(columns, v.area, rows[n*v.patches():][:v.patches()], v.taps, v.area, v.taps)
			v.window.Col2im(v.picture(out, n), columns, v.area)
		}
	})
}
