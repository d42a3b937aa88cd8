package cpu

import (
	"fmt"
	"slices"

	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/plan"
	"github.com/dptrain/dptrain/internal/simd"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// compiler turns instructions into functions over fixed memory.
type compiler struct {
	*Machine
	chosen map[winners][]int32    // cells that maxima came from
	grams  map[rowsIn]int         // how many Gram norms read rows as Δ
	kept   map[rowsIn][]float32   // ΔΔᵀ of such rows
	norms  map[rowsIn][]float64   // log Σ exp of the rows of logits
	tanhs  map[int][]float32      // tanh of the cells of an LSTM's trace
	seen   map[attended][]float32 // weights of an attention
	left   map[int]call           // products left to an LSTM, by the buffers of their results
	early  map[int]bool           // results that an operation before has made

	places map[winners][]uint8 // taps that maxima over channels came from
	last   map[int]bool        // buffers of pictures with their channels last

	gradients map[gradientOf][]float32 // of records, from the norms to the sum

	filters *[]float32 // of a Winograd convolution, transformed; one at a time
}

// rowsIn names the rows of a buffer, which others may read in rows of another width.
type rowsIn struct{ base, width int }

// call is one instruction with its memory.
type call struct {
	bases      []int // of the inputs: the buffers whose memory they are
	in         [][]float32
	shapes     []tensor.Shape
	last       []bool // pictures with their channels last
	base       int    // of the result
	out        []float32
	shape      tensor.Shape
	outLast    bool
	accumulate bool
	next       []plan.Instruction // what follows
}

// trains tells whether the program finds gradients, or only answers.
func (c compiler) trains() bool {
	return slices.ContainsFunc(c.program.Parameters, func(v plan.Parameter) bool { return v.ClippedSum >= 0 })
}

func (c compiler) all(code []plan.Instruction) []func() {
	var steps []func()
	for n, i := range code {
		k := c.call(i)
		k.next = code[n+1:]
		steps = append(steps, c.step(i, k))
	}
	return steps
}

// step is an instruction made ready: by a kernel where there is one for it.
func (c compiler) step(i plan.Instruction, k call) func() {
	if i.Spec == nil {
		return foreign(i.Foreign, k)
	}
	if native := c.native(i.Spec, k); native != nil {
		return native
	}
	return reference(i.Spec, k)
}

// call looks up the memory of an instruction.
func (c compiler) call(i plan.Instruction) call {
	out := c.program.Buffers[i.Out]
	k := call{base: out.Base, out: c.memory[i.Out], shape: out.Shape, outLast: c.last[i.Out], accumulate: i.Accumulate}
	for _, id := range i.In {
		k.in = append(k.in, c.memory[id])
		k.shapes = append(k.shapes, c.program.Buffers[id].Shape)
		k.bases = append(k.bases, c.program.Buffers[id].Base)
		k.last = append(k.last, c.last[id])
	}
	return k
}

// native is the kernel for an operation; nil where there is none for these
// shapes and the reference serves.
func (c compiler) native(spec op.Spec, k call) func() {
	switch s := spec.(type) {
	case op.ClippedSum:
		return c.clippedSum(s, k)
	case op.WeightedRows:
		return c.weightedRows(k)
	}
	if k.accumulate {
		return nil
	}
	switch s := spec.(type) {
	case op.MatMul:
		return c.matmul(s, k)
	case op.MatVec:
		return c.matvec(s, k)
	case op.Dot:
		return func() { k.out[0] = float32(simd.Dot(k.in[0], k.in[1])) }
	case op.Linear:
		return c.linear(s, k)
	case op.Activate:
		return c.activated(s.Act, k.out, k.in[0])
	case op.ActivationGrad:
		return c.activationGrad(s.Act, k)
	case op.Dropout:
		return c.dropout(s, k)

	case op.Conv2D:
		return c.conv2D(s, k)
	case op.ConvGradInput:
		return c.convGradInput(s, k)
	case op.ConvGradWeight:
		return c.convSum(op.ConvWeight(s), k, nil)
	case op.Im2Col:
		return c.windows(s, k)
	case op.Col2Im:
		return c.foldWindows(s, k)
	case op.MaxPool2D:
		return c.maxPool(s, k)
	case op.MaxPoolGrad:
		return c.maxPoolGrad(s, k)
	case op.AvgPool2D:
		return c.avgPool(s, k)
	case op.AvgPoolGrad:
		return c.avgPoolGrad(s, k)

	case op.Normalize:
		return c.normalize(s, k)
	case op.NormalizeGrad:
		return c.normalizeGrad(s, k)
	case op.ScaleShift:
		return c.scaleShift(s, k)
	case op.ChannelScale:
		return c.channelScale(s, k)
	case op.ChannelSum:
		return c.channelSums(s.Channels, s.Inner, k, nil, k.in[0], nil)
	case op.ChannelDot:
		return c.channelSums(s.Channels, s.Inner, k, k.in[0], k.in[1], nil)

	case op.Embed:
		return c.embed(k)
	case op.EmbedBag:
		return c.embedBag(s, k)
	case op.EmbedGrad:
		return c.gatherSum(op.Gather(s), k, k.in[0], k.in[1], nil)

	case op.Softmax:
		return c.softmax(s, k)
	case op.SoftmaxGrad:
		return c.softmaxGrad(s, k)
	case op.Total:
		return c.total(s, k)
	case op.Spread:
		return c.spread(s, k)

	case op.Add:
		return c.binary(op.Binary{Kind: "+"}, k)
	case op.Binary:
		return c.binary(s, k)
	case op.Unary:
		return c.unary(s, k)

	case op.Reshape:
		return c.copied(k)
	case op.Permute:
		return c.permute(s, k)
	case op.Repeat:
		return c.repeat(s, k)
	case op.Slice:
		return c.slice(s, k)
	case op.SliceGrad:
		return c.sliceGrad(s, k)
	case op.Concat:
		return c.concat(s, k)
	case op.SumAxes:
		return c.sumAxes(s, k)

	case op.SquaredNorms:
		return c.squaredNorms(s, k)
	case op.RecordGradients:
		return c.recordGradients(s, k)
	case op.RowSquares:
		return c.rowSquares(k)
	case op.MultiUseNorms:
		return c.mixed(s, k)
	case op.Scatter:
		return c.scattered(s, k)
	case op.ScaleRows:
		return c.scaleRows(k)
	case op.StackRows:
		return c.joined(s.Blocks, k)
	}
	if step := c.sequence(spec, k); step != nil {
		return step
	}
	return c.loss(spec, k)
}

// reference runs an operation's own Do, in float64, on one thread.
func reference(spec op.Spec, k call) func() {
	in := make([][]float64, len(k.in))
	for i, x := range k.in {
		in[i] = make([]float64, len(x))
	}
	out := make([]float64, len(k.out))
	return func() {
		for i, x := range k.in {
			for j, v := range x {
				in[i][j] = float64(v)
			}
		}
		spec.Do(out, in, k.shapes)
		for i, v := range out {
			if k.accumulate {
				k.out[i] += float32(v)
			} else {
				k.out[i] = float32(v)
			}
		}
	}
}

// foreign runs an operation that only Gorgonia knows. It allocates.
func foreign(f G.Op, k call) func() {
	values := make([]G.Value, len(k.in))
	for i, x := range k.in {
		if k.shapes[i].Dims() > 0 {
			values[i] = tensor.New(tensor.WithShape(k.shapes[i]...), tensor.WithBacking(x))
		}
	}
	return func() {
		args := make([]G.Value, len(values))
		for i, v := range values {
			if args[i] = v; v == nil {
				args[i] = G.NewF32(k.in[i][0])
			}
		}
		result, err := f.Do(args...)
		if err == nil {
			err = op.CopyValue(k.out, result)
		}
		if err != nil {
			panic(fmt.Errorf("%v: %w", f, err))
		}
	}
}

// recalled is memory for what several steps read, made for the first of them; filled
// tells whether an earlier step of the program writes it.
func recalled[K comparable, V any](kept map[K][]V, key K, n int) (memory []V, filled bool) {
	if memory, filled = kept[key]; !filled {
		memory = make([]V, n)
		kept[key] = memory
	}
	return memory, filled
}
