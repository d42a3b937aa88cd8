package cpu

import (
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/simd"
)

// lowerSequenceOp makes the step of recurrent layers and attention.
func lowerSequenceOp(l *lowering, spec op.Operation, k call) func() {
	switch s := spec.(type) {
	case op.LSTM:
		return lowerLSTM(l, k)
	case op.LSTMTrace:
		return lowerLSTMTrace(l, s, k)
	case op.LSTMGrad:
		return lowerLSTMGrad(l, s, k)
	case op.GRU:
		return lowerGRU(l, s, k)
	case op.GRUTrace:
		return lowerGRUTrace(l, s, k)
	case op.GRUGrad:
		return lowerGRUGrad(l, s, k)
	case op.GRUHidden:
		return lowerGRUHidden(l, k)
	case op.Delay:
		return lowerDelay(l, s, k)
	case op.Attention:
		return lowerAttention(l, s, k)
	case op.AttentionGrad:
		return lowerAttentionGrad(l, s, k)
	case op.Rotary:
		return lowerRotary(l, s, k)
	case op.RepeatHeads:
		return lowerRepeatHeads(l, s, k)
	case op.SumHeads:
		return lowerSumHeads(l, s, k)
	}
	return nil
}

// The steps of a recurrent layer depend on each other; its examples do not. Every thread
// computes all steps of some examples, so that threads do not wait for each other between
// steps.

// stepOrder is the order in which a recurrent layer reads the steps of a sequence.
type stepOrder struct {
	steps   int
	reverse bool
}

// at returns the index of the step that is read k-th.
func (w stepOrder) at(k int) int {
	if w.reverse {
		return w.steps - 1 - k
	}
	return k
}

// lowerTranspose makes a step that transposes a weight [rows, cols], and returns the
// destination.
func lowerTranspose(l *lowering, weight []float32, rows, cols int) (step func(), to []float32) {
	to = make([]float32, len(weight))
	return func() { simd.Transpose(to, rows, weight, cols, rows, cols) }, to
}

// lowerPanels makes a step that packs a weight for many products, and returns the packed
// weight. It has k rows of n columns or, if transposed, n rows of k columns.
func lowerPanels(l *lowering, weight []float32, k, n int, transposed bool) (step func(), to *simd.Panels) {
	ld := n
	if transposed {
		ld = k
	}
	to = simd.NewPanels(k, n)
	return l.pool.forRanges(to.Count(), k*16, func(from, end int, _ *worker) { to.Pack(weight, ld, transposed, from, end) }), to
}

// lowerDelay shifts a sequence by one step. The first step becomes 0.
func lowerDelay(l *lowering, s op.Delay, k call) func() {
	steps, d := k.shape[1], k.shape[2]
	order := stepOrder{steps, s.Reverse}
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
