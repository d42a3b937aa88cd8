//go:build gpu

package compile

import (
	"fmt"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/op"
	"gorgonia.org/tensor"
)

// lowerSequenceOp queues operations along the steps of sequences.
func lowerSequenceOp(c *compiler, spec op.Operation, k call) bool {
	switch s := spec.(type) {
	case op.LSTM:
		c.launch("lstm_states", blocks(k.results()), threads, k.out, k.in[2], int32(k.results()), int32(k.shape[2]))
	case op.LSTMTrace:
		launchRecurrentForward(c, "lstm_trace", k, 4, s.Reverse)
	case op.LSTMGrad:
		launchRecurrentBackward(c, "lstm_gradient", k, 4, s.Reverse)
	case op.GRU:
		n := k.results() / k.shape[1]
		c.launch("gru_states", blocks(n), threads, k.out, k.in[3], int32(n), int32(k.shape[2]), int32(k.shape[1]), boolArg(s.Reverse))
	case op.GRUTrace:
		launchRecurrentForward(c, "gru_trace", k, 3, s.Reverse)
	case op.GRUGrad:
		launchRecurrentBackward(c, "gru_gradient", k, 3, s.Reverse)
	case op.GRUHidden:
		c.launch("gru_hidden", blocks(k.results()), threads, k.out, k.in[0], k.in[1], int32(k.results()), int32(k.shape[2]/3))
	case op.Delay:
		c.launch("delay", blocks(k.results()), threads, k.out, k.in[0], int32(k.results()), int32(k.shape[2]),
			int32(k.shape[1]), boolArg(s.Reverse))
	case op.Join:
		outer, _ := op.OuterInner(k.shape, k.shape.Dims()-1)
		launchConcat(c, outer, k)
	case op.Attention:
		lowerAttention(c, s, k)
	case op.AttentionGrad:
		lowerAttentionGrad(c, s, k)
	case op.Rotary:
		lowerRotary(c, s, k)
	case op.LastStep:
		c.launch("last_step", blocks(k.results()), threads, k.out, k.in[0], int32(k.results()), int32(k.shape[1]))
	case op.BlockSteps:
		c.launch("block_steps", blocks(k.results()), threads, k.out, k.in[0], int32(k.results()), int32(k.shape[1]))
	case op.RepeatHeads:
		c.launch("repeat", blocks(k.results()), threads, k.out, k.in[0], int32(k.results()), int32(s.Size), int32(s.Times))
	case op.SumHeads:
		copies := k
		copies.shapes = []tensor.Shape{{k.results() / s.Size, s.Times, s.Size}}
		lowerSumAxes(c, op.SumAxes{Over: op.AxesOf(1)}, copies)
	default:
		return false
	}
	return true
}

// stepRange is struct StepRange of kernels/recurrent.cu: the steps of a sequence that a
// launch computes.
type stepRange struct{ Records, Steps, Hidden, Reverse, From, To int32 }

// recurrentGrid is how a recurrent layer is divided among blocks. If the weight fits in
// one block, a block computes all steps of some records; otherwise a block computes some
// hidden units for one step per launch.
type recurrentGrid struct {
	recordsPerBlock int // records of a block
	grid            dim
	block           dim
	allSteps        bool // a block computes all units and all steps
}

func newRecurrentGrid(c *compiler, records, hidden, gates int) recurrentGrid {
	const most = 128 // units of a block
	units := ceil(hidden, 64) * 64
	w := recurrentGrid{allSteps: hidden <= most, recordsPerBlock: 1}
	if !w.allSteps {
		units = 64
	}
	shares := ceil(hidden, units)
	for w.recordsPerBlock < 8 && ceil(records, w.recordsPerBlock)*shares > c.device.Multiprocessors() {
		w.recordsPerBlock *= 2
	}
	w.grid = dim{uint32(ceil(records, w.recordsPerBlock)), uint32(shares), 1}
	w.block = dim{uint32(gates * units / 2), 1, 1}
	return w
}

// stepRanges are the ranges of steps of the launches.
func (w recurrentGrid) stepRanges(steps int) (ranges [][2]int32) {
	if w.allSteps {
		return [][2]int32{{0, int32(steps)}}
	}
	for t := range int32(steps) {
		ranges = append(ranges, [2]int32{t, t + 1})
	}
	return ranges
}

// launchRecurrentForward queues the forward kernel. states and memory carry data between
// launches.
func launchRecurrentForward(c *compiler, kernel string, k call, gates int, reverse bool) {
	records, steps, hidden := k.shape[0], k.shape[1], k.shapes[1][0]
	w := newRecurrentGrid(c, records, hidden, gates)
	states, memory := c.allocScratch(8*records*hidden), c.allocScratch(4*records*hidden)
	args := []any{k.out}
	for _, x := range k.in {
		args = append(args, x)
	}
	for _, s := range w.stepRanges(steps) {
		q := stepRange{int32(records), int32(steps), int32(hidden), boolArg(reverse), s[0], s[1]}
		c.launch(fmt.Sprintf("%s_%d", kernel, w.recordsPerBlock), w.grid, w.block, append(args, states, memory, q)...)
	}
}

// launchRecurrentBackward queues the backward kernel. It transposes the weight first, so
// that neighbouring threads read neighbouring elements.
func launchRecurrentBackward(c *compiler, kernel string, k call, gates int, reverse bool) {
	records, steps, hidden := k.shape[0], k.shape[1], k.shapes[0][0]
	w := newRecurrentGrid(c, records, hidden, gates)
	transposed, memory := c.allocScratch(4*k.size(0)), c.allocScratch(4*records*hidden)
	launchPermute(c, op.Permute{Order: op.AxesOf(1, 0)}, transposed, k.in[0], k.shapes[0])
	args := []any{k.out, transposed}
	for _, x := range k.in[1:] {
		args = append(args, x)
	}
	ranges := w.stepRanges(steps)
	for i := len(ranges) - 1; i >= 0; i-- {
		q := stepRange{int32(records), int32(steps), int32(hidden), boolArg(reverse), ranges[i][0], ranges[i][1]}
		c.launch(fmt.Sprintf("%s_%d", kernel, w.recordsPerBlock), w.grid, w.block, append(args, memory, q)...)
	}
}

// attentionShape is struct Heads of kernels/attention.cu.
type attentionShape struct {
	Steps, Heads, Size, Causal int32
	Scale                      float32
}

// generalAttention is struct General of kernels/attention.cu.
type generalAttention struct {
	attentionShape
	Window int32
	Cap    float32
	Begins driver.Pointer // of blocks, or 0
}

// launchAttention divides attention among blocks: a block computes 64 steps of one head of
// one example, and up to 128 of the head's columns. A kernel's name gives the number of
// 32-column chunks and the precision of products.
func launchAttention(c *compiler, kernel string, a op.Attention, x tensor.Shape, begins driver.Pointer, args ...any) {
	size := x[2] / 3 / a.Heads
	shape := attentionShape{int32(x[1]), int32(a.Heads), int32(size), boolArg(a.Causal), float32(a.ScaleOf(size))}
	chunks := 1
	for chunks < 4 && 32*chunks < size {
		chunks *= 2
	}
	name := fmt.Sprintf("%s_%d%s", kernel, chunks, map[Precision]string{TF32: "_tf32", BF16: "_bf16"}[c.options.Precision])
	grid := dim{uint32(x[0] * a.Heads), uint32(ceil(x[1], 64)), uint32(ceil(size, 32*chunks))}
	if a.Window == 0 && a.Cap == 0 && !a.Blocks {
		c.launch(name, grid, threads, append(args, shape)...)
		return
	}
	c.launch("general_"+name, grid, threads, append(args, generalAttention{shape, int32(min(a.Window, x[1])), float32(a.Cap), begins})...)
}

// attentionMarks returns the input that marks padding and blocks, and the first step of each step's block, which
// a kernel finds. Absent ones are 0.
func attentionMarks(c *compiler, a op.Attention, in []driver.Pointer, x tensor.Shape) (padding, begins driver.Pointer) {
	if len(in) == 0 {
		return 0, 0
	}
	if a.Blocks {
		n := x[0] * x[1]
		begins = c.allocScratch(4 * n)
		c.launch("block_begins", blocks(n), threads, begins, in[0], int32(n), int32(x[1]))
	}
	return in[0], begins
}

func lowerAttention(c *compiler, s op.Attention, k call) {
	padding, begins := attentionMarks(c, s, k.in[1:], k.shapes[0])
	launchAttention(c, "attention", s, k.shapes[0], begins, k.out, k.in[0], padding)
}

// lowerAttentionGrad computes the gradient of the queries and statistics of each row of
// attention weights, then the gradients of keys and values.
func lowerAttentionGrad(c *compiler, s op.AttentionGrad, k call) {
	x := k.shapes[0]
	rows := c.allocScratch(4 * 3 * x[0] * s.Heads * x[1])
	padding, begins := attentionMarks(c, op.Attention(s), k.in[2:], x)
	for _, kernel := range []string{"attention_queries", "attention_keys"} {
		launchAttention(c, kernel, op.Attention(s), x, begins, k.out, rows, k.in[0], k.in[1], padding)
	}
}

// lowerRotary rotates pairs of columns by angles that the host computes once, in float64.
func lowerRotary(c *compiler, s op.Rotary, k call) {
	steps, width := k.shape[1], k.shape[2]
	cos, sin := op.RotaryAngles[float32](s, steps)
	c.launch("rotary", blocks(k.results()), threads, k.out, k.in[0], c.constantBytes(bytesOf(cos)), c.constantBytes(bytesOf(sin)),
		int32(k.results()), int32(steps), int32(width), int32(s.HeadDim), int32(s.RotaryDims))
}
