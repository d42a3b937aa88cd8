package cpu

import (
	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/simd"
)

// linePad keeps rows of scratch memory off the same lines of the cache.
const linePad = 16

// lstmTrace holds a step's gates i, f, g, o and its cell side by side.
func (c compiler) lstmTrace(s op.LSTMTrace, k call) func() {
	steps, h := k.shape[1], k.shape[2]/5
	order := walk{steps, s.Reverse}
	out, x := k.out, k.in[0]
	squashed := make([]float32, len(out)/5)
	c.tanhs[k.base] = squashed
	pack, weight := c.panels(k.in[1], h, 4*h, false)
	wide, wide4 := h+linePad, 4*h+linePad
	c.reserve(k.shape[0]*(wide+wide4)+4*h, 0)
	return sequence(pack, c.examples(k.shape[0], steps*h*h, func(from, to int, w *worker) {
		n := to - from
		memory := w.floats(n*(wide+wide4) + 4*h)
		hidden, product, none := memory[:n*wide], memory[n*wide:n*(wide+wide4)], memory[n*(wide+wide4):]
		clear(none)
		for i := range steps {
			t := order.at(i)
			if i > 0 {
				weight.Product(product, wide4, hidden, wide, n)
			}
			for b := from; b < to; b++ {
				at, sums, before := b*steps+t, none, none[:h]
				if i > 0 {
					sums, before = product[(b-from)*wide4:][:4*h], out[(b*steps+order.at(i-1))*5*h+4*h:][:h]
				}
				simd.LSTMStep(out[at*5*h:][:5*h], hidden[(b-from)*wide:][:h], squashed[at*h:][:h], x[at*4*h:][:4*h], sums, before)
			}
		}
	}))
}

// squashed is memory for tanh of the cells of a trace; the step fills it unless
// the step that makes the trace does.
func (c compiler) squashed(base int, trace []float32, h int) (step func(), to []float32) {
	if to, known := c.tanhs[base]; known {
		return func() {}, to
	}
	to = make([]float32, len(trace)/5)
	return c.over(len(to)/h, 4*h, func(from, end int, _ *worker) {
		for r := from; r < end; r++ {
			simd.Tanh(to[r*h:][:h], trace[r*5*h+4*h:][:h])
		}
	}), to
}

// lstm reads the hidden states off the trace.
func (c compiler) lstm(k call) func() {
	out, trace, h := k.out, k.in[2], k.shape[2]
	squash, squashed := c.squashed(k.bases[2], trace, h)
	return sequence(squash, c.over(len(out)/h, 2*h, func(from, to int, _ *worker) {
		for r := from; r < to; r++ {
			simd.Mul(out[r*h:][:h], squashed[r*h:][:h], trace[r*5*h+3*h:][:h])
		}
	}))
}

func (c compiler) lstmGrad(s op.LSTMGrad, k call) func() {
	steps, h := k.shape[1], k.shape[2]/4
	order := walk{steps, s.Reverse}
	out, trace, grad := k.out, k.in[1], k.in[2]
	squash, squashed := c.squashed(k.bases[1], trace, h)
	pack, weight := c.panels(k.in[0], 4*h, h, true)
	wide, wide4 := h+linePad, 4*h+linePad
	c.reserve(k.shape[0]*(wide+wide4+h)+h, 0)
	return sequence(squash, pack, c.examples(k.shape[0], steps*h*h, func(from, to int, w *worker) {
		n := to - from
		memory := w.floats(n*(wide+wide4+h) + h)
		hidden, signals := memory[:n*wide], memory[n*wide:n*(wide+wide4)]
		cell, none := memory[n*(wide+wide4):][:n*h], memory[n*(wide+wide4+h):]
		clear(hidden)
		clear(cell)
		clear(none)
		for i := steps - 1; i >= 0; i-- {
			t := order.at(i)
			if i+1 < steps {
				weight.Product(hidden, wide, signals, wide4, n)
			}
			for b := from; b < to; b++ {
				at, before := b*steps+t, none
				if i > 0 {
					before = trace[(b*steps+order.at(i-1))*5*h+4*h:][:h]
				}
				d := out[at*4*h:][:4*h]
				simd.LSTMSignals(d, cell[(b-from)*h:][:h], trace[at*5*h:][:5*h], squashed[at*h:][:h], before,
					grad[at*h:][:h], hidden[(b-from)*wide:][:h])
				copy(signals[(b-from)*wide4:], d)
			}
		}
	}))
}
