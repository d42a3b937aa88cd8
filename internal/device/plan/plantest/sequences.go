package plantest

import (
	"github.com/dptrain/dptrain/internal/device/op"
)

// made is the reference result of an operation on operands of one block per record.
func made(s op.Operation, in ...operand) operand {
	shape, err := s.Shape(shapes(in))
	if err != nil {
		panic(err)
	}
	y := operand{shape: shape}
	for _, v := range (trial{spec: fixed(s), in: in}).reference(shape) {
		y.values = append(y.values, float32(v))
	}
	return y
}

// hidden draws a number of hidden units near the widths of SIMD vectors and blocks.
func (ts *trials) hidden() int { return []int{1, 3, 8, 17, 32, 67}[ts.r.IntN(6)] }

// steady draws a weight small enough that errors do not grow over the steps.
func (ts *trials) steady(rows, cols int) operand {
	w := normal(ts.r, rows, cols)
	for i := range w.values {
		w.values[i] /= float32(rows)
	}
	return weight(w)
}

func (ts *trials) recurrences() {
	r, T := ts.r, between(ts.r, 1, 9)
	for _, reverse := range []bool{false, true} {
		h := ts.hidden()
		x, w := normal(r, ts.b, T, 4*h), ts.steady(h, 4*h)
		trace := made(op.LSTMTrace{Reverse: reverse}, x, w)
		ts.apart(1e-5, op.LSTMTrace{Reverse: reverse}, x, w)
		ts.apart(1e-5, op.LSTM{Reverse: reverse}, x, w, trace)
		ts.apart(1e-5, op.LSTMGrad{Reverse: reverse}, w, trace, normal(r, ts.b, T, h))

		h = ts.hidden()
		x, w = normal(r, ts.b, T, 3*h), ts.steady(h, 3*h)
		b := weight(normal(r, h))
		trace = made(op.GRUTrace{Reverse: reverse}, x, w, b)
		ts.apart(1e-5, op.GRUTrace{Reverse: reverse}, x, w, b)
		ts.apart(1e-5, op.GRU{Reverse: reverse}, x, w, b, trace)
		states := made(op.GRU{Reverse: reverse}, x, w, b, trace)
		ts.apart(1e-5, op.GRUGrad{Reverse: reverse}, w, trace, states, normal(r, ts.b, T, h))
		ts.apart(1e-6, op.GRUHidden{}, trace, x)

		ts.apart(0, op.Delay{Reverse: reverse}, states)
		ts.apart(0, op.Join{}, x, states, trace)
	}
}

func (ts *trials) attentions() {
	r, T, heads := ts.r, between(ts.r, 1, 40), between(ts.r, 1, 4)
	width := heads * size(r)
	x, dy := normal(r, ts.b, T, 3*width), normal(r, ts.b, T, width)
	padding := whole(r, -1, 2, ts.b, T)
	for _, a := range []op.Attention{
		{Heads: heads}, {Heads: heads, Causal: true}, {Heads: heads, Scale: 0.2}, {Heads: heads, Cap: 0.5},
		{Heads: heads, Causal: true, Window: between(r, 1, 9)}, {Heads: heads, Causal: true, Window: between(r, 1, 9), Scale: 0.2, Cap: 2},
	} {
		ts.apart(1e-5, a, x)
		ts.apart(1e-5, a, x, padding)
		ts.apart(2e-5, op.AttentionGrad(a), x, dy)
		ts.apart(2e-5, op.AttentionGrad(a), x, dy, padding)
		a.Blocks = true
		ts.apart(1e-5, a, x, padding)
		ts.apart(2e-5, op.AttentionGrad(a), x, dy, padding)
	}
	h := ts.hidden()
	y := normal(r, ts.b, T, 6*h)
	ts.apart(1e-6, op.Rotary{HeadDim: 2 * h, RotaryDims: 4 * h}, y)
	ts.apart(1e-6, op.Rotary{HeadDim: 2 * h, RotaryDims: 6 * h, Inverse: true}, y)
	ts.apart(1e-6, op.Rotary{HeadDim: 2 * h, RotaryDims: 6 * h, Base: 5e5}, y)
	ts.apart(1e-6, op.Rotary{HeadDim: 2 * h, RotaryDims: 6 * h, Scaling: op.RotaryScaling{Factor: 8, Low: 1, High: 4, Steps: 20}}, y)
	ts.apart(0, op.RepeatHeads{Size: 2 * h, Times: 3}, y)
	ts.apart(1e-6, op.SumHeads{Size: h, Times: 3}, y)
	ts.apart(0, op.LastStep{}, padding)
	ts.apart(0, op.BlockSteps{}, padding)
	ts.apart(1e-6, op.ChannelShift{Channels: 6 * h, Inner: 1}, y, weight(normal(r, 6*h)))
	ts.apart(1e-6, op.ChannelShift{Channels: T * 6 * h, Inner: 1}, y, weight(normal(r, T, 6*h)))
	ts.apart(1e-6, op.ChannelShift{Channels: T, Inner: 6 * h}, y, weight(normal(r, T)))
}
