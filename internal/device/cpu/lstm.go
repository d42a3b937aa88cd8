package cpu

import (
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/simd"
	"github.com/dptrain/dptrain/internal/host/memory"
)

// linePad keeps rows of scratch memory in different sets of the cache.
const linePad = 16

// prefetchDistance is how many examples ahead a step prefetches operands, which lie a
// sequence apart. With a much larger distance the cache lines evict each other.
const prefetchDistance = 4

// lowerLSTMTrace computes a trace: the gates i, f, g, o of a step and its cell, one after
// the other. It also computes the gates' inputs and the hidden states of operations that
// are fused with it.
func lowerLSTMTrace(l *lowering, s op.LSTMTrace, k call) func() {
	steps, h := k.shape[1], k.shape[2]/5
	order := stepOrder{steps, s.Reverse}
	out, x := k.out, k.in[0]
	cellTanh := memory.Zeros[float32](len(out) / 5)
	l.saved.cellTanh[k.base] = cellTanh
	pack, weight := lowerPanels(l, k.in[1], h, 4*h, false)
	inputs := newGateInputs(l, k)
	if inputs != nil {
		pack = sequence(pack, inputs.pack)
	}
	var states []float32
	if k.after != nil {
		states = k.after.out
	}
	wide, wide4 := h+linePad, 4*h+linePad // floats from one row of scratch memory to the next
	l.pool.reserve(k.shape[0]*(wide+2*wide4)+4*h, 0)
	return sequence(pack, l.pool.forExamples(k.shape[0], steps*h*h, func(from, to int, w *worker) {
		n := to - from
		memory := w.floats(n*(wide+2*wide4) + 4*h)
		hidden, product := memory[:n*wide], memory[n*wide:][:n*wide4]
		fromInputs, zero := memory[n*(wide+wide4):][:n*wide4], memory[n*(wide+2*wide4):]
		clear(zero)
		prefetch := func(b, i int) {
			at := b*steps + order.at(i)
			simd.Prefetch(out[at*5*h:][:5*h])
			simd.Prefetch(cellTanh[at*h:][:h])
			if inputs == nil {
				simd.Prefetch(x[at*4*h:][:4*h])
			}
			if states != nil {
				simd.Prefetch(states[at*h:][:h])
			}
			if i > 0 {
				simd.Prefetch(out[(b*steps+order.at(i-1))*5*h+4*h:][:h])
			}
		}
		for i := range steps {
			t := order.at(i)
			if i > 0 {
				weight.Product(product, wide4, hidden, wide, n, nil)
			}
			if inputs != nil {
				inputs.product(fromInputs, wide4, from*steps+t, n)
			}
			for b := from; b < to; b++ {
				if b+prefetchDistance < to {
					prefetch(b+prefetchDistance, i)
				}
				at, sums, previous := b*steps+t, zero, zero[:h]
				if i > 0 {
					sums, previous = product[(b-from)*wide4:][:4*h], out[(b*steps+order.at(i-1))*5*h+4*h:][:h]
				}
				gates := fromInputs[(b-from)*wide4:][:4*h]
				if inputs == nil {
					gates = x[at*4*h:][:4*h]
				}
				state := hidden[(b-from)*wide:][:h]
				simd.LSTMStep(out[at*5*h:][:5*h], state, cellTanh[at*h:][:h], gates, sums, previous)
				if states != nil {
					copy(states[at*h:], state)
				}
			}
		}
	}))
}

// gateInputs are the operands of the product of an LSTM's inputs that is fused with it.
type gateInputs struct {
	pack    func()
	weight  *simd.Panels
	x, bias []float32
	width   int
	stride  int // from one example to the next
}

// newGateInputs returns the product that is fused with an LSTM's trace, nil if there is
// none.
func newGateInputs(l *lowering, trace call) *gateInputs {
	k := trace.before
	if k == nil {
		return nil
	}
	width := k.shapes[1][0]
	pack, weight := lowerPanels(l, k.in[1], width, k.shapes[1][1], false)
	return &gateInputs{pack, weight, k.in[0], k.in[2], width, trace.shape[1] * width}
}

// product computes the inputs' part of the gates for n examples. The first reads the given
// row, the others rows a sequence apart.
func (g *gateInputs) product(to []float32, wide, row, n int) {
	g.weight.Product(to, wide, g.x[row*g.width:], g.stride, n, g.bias)
}

// lowerCellTanh returns memory for tanh of a trace's cells, and a step that fills it unless
// the step that computes the trace does.
func lowerCellTanh(l *lowering, base int, trace []float32, h int) (step func(), to []float32) {
	if to, known := l.saved.cellTanh[base]; known {
		return func() {}, to
	}
	to = memory.Zeros[float32](len(trace) / 5)
	return l.pool.forRanges(len(to)/h, 4*h, func(from, end int, _ *worker) {
		for r := from; r < end; r++ {
			simd.Tanh(to[r*h:][:h], trace[r*5*h+4*h:][:h])
		}
	}), to
}

// lowerLSTM computes the hidden states from the trace.
func lowerLSTM(l *lowering, k call) func() {
	out, trace, h := k.out, k.in[2], k.shape[2]
	computeTanh, cellTanh := lowerCellTanh(l, k.bases[2], trace, h)
	return sequence(computeTanh, l.pool.forRanges(len(out)/h, 2*h, func(from, to int, _ *worker) {
		for r := from; r < to; r++ {
			simd.Mul(out[r*h:][:h], cellTanh[r*h:][:h], trace[r*5*h+3*h:][:h])
		}
	}))
}

// lowerLSTMGrad computes the signals at the gates, step by step from the last one. It also
// computes the gradient of the LSTM's input if that product is fused with it.
func lowerLSTMGrad(l *lowering, s op.LSTMGrad, k call) func() {
	steps, h := k.shape[1], k.shape[2]/4
	order := stepOrder{steps, s.Reverse}
	out, trace, grad := k.out, k.in[1], k.in[2]
	computeTanh, cellTanh := lowerCellTanh(l, k.bases[1], trace, h)
	pack, weight := lowerPanels(l, k.in[0], 4*h, h, true)
	var width int
	var inputs *simd.Panels
	var inputGrad []float32 // the gradient of the LSTM's input
	if k.after != nil {
		inputGrad, width = k.after.out, k.after.shape[1]
		packInputs, p := lowerPanels(l, k.after.in[1], 4*h, width, true)
		pack, inputs = sequence(pack, packInputs), p
	}
	wide, wide4 := h+linePad, 4*h+linePad // floats from one row of scratch memory to the next
	l.pool.reserve(k.shape[0]*(wide+wide4+h)+h, 0)
	return sequence(computeTanh, pack, l.pool.forExamples(k.shape[0], steps*h*h, func(from, to int, w *worker) {
		n := to - from
		memory := w.floats(n*(wide+wide4+h) + h)
		hidden, signals := memory[:n*wide], memory[n*wide:n*(wide+wide4)]
		cell, zero := memory[n*(wide+wide4):][:n*h], memory[n*(wide+wide4+h):]
		clear(hidden)
		clear(cell)
		clear(zero)
		prefetch := func(b, i int) {
			at := b*steps + order.at(i)
			simd.Prefetch(out[at*4*h:][:4*h])
			simd.Prefetch(trace[at*5*h:][:5*h])
			simd.Prefetch(cellTanh[at*h:][:h])
			simd.Prefetch(grad[at*h:][:h])
			if i > 0 {
				simd.Prefetch(trace[(b*steps+order.at(i-1))*5*h+4*h:][:h])
			}
		}
		for i := steps - 1; i >= 0; i-- {
			t := order.at(i)
			if i+1 < steps {
				weight.Product(hidden, wide, signals, wide4, n, nil)
			}
			for b := from; b < to; b++ {
				if b+prefetchDistance < to {
					prefetch(b+prefetchDistance, i)
				}
				at, previous := b*steps+t, zero
				if i > 0 {
					previous = trace[(b*steps+order.at(i-1))*5*h+4*h:][:h]
				}
				d := out[at*4*h:][:4*h]
				simd.LSTMSignals(d, cell[(b-from)*h:][:h], trace[at*5*h:][:5*h], cellTanh[at*h:][:h], previous,
					grad[at*h:][:h], hidden[(b-from)*wide:][:h])
				copy(signals[(b-from)*wide4:], d)
			}
			if inputs != nil {
				inputs.Product(inputGrad[(from*steps+t)*width:], steps*width, signals, wide4, n, nil)
			}
		}
	}))
}
