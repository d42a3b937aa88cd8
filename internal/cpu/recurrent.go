package cpu

import (
	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/simd"
)

// A recurrent layer must take its steps one after the other, but its examples
// know nothing of each other: every thread walks through all steps with some of
// the examples, and none waits for another in between.

func (c compiler) sequence(spec op.Spec, k call) func() {
	switch s := spec.(type) {
	case op.LSTM:
		return c.lstm(k)
	case op.LSTMTrace:
		return c.lstmTrace(s, k)
	case op.LSTMGrad:
		return c.lstmGrad(s, k)
	case op.GRU:
		return c.gru(s, k)
	case op.GRUTrace:
		return c.gruTrace(s, k)
	case op.GRUGrad:
		return c.gruGrad(s, k)
	case op.GRUHidden:
		return c.gruHidden(k)
	case op.Delay:
		return c.delay(s, k)
	case op.Join:
		return c.concat(op.Concat{Axis: k.shape.Dims() - 1}, k)
	case op.Attention:
		return c.attention(s, k)
	case op.AttentionGrad:
		return c.attentionGrad(s, k)
	case op.Rotary:
		return c.rotary(s, k)
	case op.ChannelShift:
		return c.channelShift(s, k)
	}
	return nil
}

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

// examples makes a step that runs f once a thread on some of n examples; cost is
// what one takes.
func (c compiler) examples(n, cost int, f func(from, to int, w *worker)) func() {
	return c.shards(n*cost, func(shard, shards int, w *worker) {
		if from, to := n*shard/shards, n*(shard+1)/shards; from < to {
			f(from, to, w)
		}
	})
}

// transposed makes a step that writes a weight [rows, cols] transposed, and gives
// where.
func (c compiler) transposed(weight []float32, rows, cols int) (step func(), to []float32) {
	to = make([]float32, len(weight))
	return func() { simd.Transpose(to, rows, weight, cols, rows, cols) }, to
}

// panels makes a step that lays out a weight, k rows of n columns or, where it is
// stored so, n rows of k, for many products with it.
func (c compiler) panels(weight []float32, k, n int, transposed bool) (step func(), to *simd.Panels) {
	ld := n
	if transposed {
		ld = k
	}
	to = simd.NewPanels(k, n)
	return c.over(to.Count(), k*16, func(from, end int, _ *worker) { to.Pack(weight, ld, transposed, from, end) }), to
}

func (c compiler) delay(s op.Delay, k call) func() {
	steps, d := k.shape[1], k.shape[2]
	order := walk{steps, s.Reverse}
	out, x := k.out, k.in[0]
	return c.over(k.shape[0], steps*d, func(from, to int, _ *worker) {
		for b := from; b < to; b++ {
			y := out[b*steps*d:][:steps*d]
			clear(y[order.at(0)*d:][:d])
			for i := 1; i < steps; i++ {
				copy(y[order.at(i)*d:][:d], x[(b*steps+order.at(i-1))*d:][:d])
			}
		}
	})
}
