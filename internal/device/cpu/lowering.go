package cpu

import (
	"fmt"
	"slices"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/half"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// lowering turns the instructions of one program into steps: functions without
// arguments that read and write fixed memory. The functions lowerX make the step of
// operation X; they allocate everything that the step needs.
type lowering struct {
	program *plan.Program
	memory  [][]float32    // of the program's buffers
	halves  []half.Numbers // of those with numbers of 16 bits
	pool    *pool

	channelsLast map[int]bool // buffers whose pictures have their channels last in memory
	saved        savedResults

	computedEarly map[int]bool // buffers whose result an earlier step has computed

	contributions *contributions // nil unless the program is exact

	winogradMemory *[]float32 // transformed filters or sums of one layer; the layers share it
}

// savedResults are intermediate results that one step saves for later steps.
type savedResults struct {
	maxCells    map[poolKey][]int32        // the cell that each maximum comes from
	maxTaps     map[poolKey][]uint8        // the same with channels last, as a tap of the window
	logSumExp   map[rowsKey][]float64      // of rows of logits
	signalGrams map[rowsKey][]float32      // ΔΔᵀ of every record
	cellTanh    map[int][]float32          // tanh of the cells of an LSTM's trace, by buffer
	attention   map[attentionKey][]float32 // attention weights
	gradients   map[gradientKey][]float32  // records' gradients, from the norms to the clipped sum
	squares     map[[2]rowsKey][]float64   // squared norms of records' rows of A and of Δ, in turn
	pairs       map[pairsKey][]float64     // of the records' bags: see groups.pairs
	vocabulary  map[vocabularyKey]vocabularyRows
}

// pairsKey names the bags of some records in a table.
type pairsKey struct {
	index *float32 // the first index
	table op.Gather
}

// rowsKey names the rows of a buffer. The same buffer may have rows of another width
// in another operation.
type rowsKey struct{ base, width int }

// newLowering prepares the lowering of a program whose buffers have this memory.
func newLowering(p *plan.Program, memory [][]float32, threads *pool) *lowering {
	l := &lowering{
		program: p, memory: memory, halves: make([]half.Numbers, len(p.Buffers)), pool: threads,
		saved: savedResults{
			maxCells: map[poolKey][]int32{}, maxTaps: map[poolKey][]uint8{},
			logSumExp: map[rowsKey][]float64{}, signalGrams: map[rowsKey][]float32{},
			cellTanh: map[int][]float32{}, attention: map[attentionKey][]float32{},
			gradients: map[gradientKey][]float32{}, squares: map[[2]rowsKey][]float64{}, pairs: map[pairsKey][]float64{},
			vocabulary: map[vocabularyKey]vocabularyRows{},
		},
		computedEarly:  map[int]bool{},
		winogradMemory: new([]float32),
	}
	l.channelsLast = planChannelsLast(l)
	return l
}

// saveFor returns the memory of n elements that several steps share under a key. The
// first request allocates it; saved reports whether an earlier step of the program
// fills it.
func saveFor[K comparable, V any](results map[K][]V, key K, n int) (memory []V, saved bool) {
	if memory, saved = results[key]; !saved {
		memory = make([]V, n)
		results[key] = memory
	}
	return memory, saved
}

// call is one instruction with the memory of its operands.
type call struct {
	plan.Annotation
	bases           []int // of the inputs: the buffers that own their memory
	in              [][]float32
	halves          []half.Numbers // of the inputs with numbers of 16 bits, where in has nil
	shapes          []tensor.Shape
	inChannelsLast  []bool // whether an input has its channels last
	base            int    // of the result
	out             []float32
	shape           tensor.Shape
	outChannelsLast bool
	accumulate      bool               // the step adds its result to out
	next            []plan.Instruction // the instructions that follow
	before          *call              // the fused instruction that computes operand 0, or nil
	after           *call              // the fused instruction that reads the result, or nil
}

// trains reports whether a program computes gradients.
func trains(p *plan.Program) bool {
	return slices.ContainsFunc(p.Parameters, func(v plan.Parameter) bool { return v.ClippedSum >= 0 })
}

// lowerAll makes the steps of a sequence of instructions.
func (l *lowering) lowerAll(code []plan.Instruction) []func() {
	var steps []func()
	for n, i := range code {
		k := l.call(i)
		k.next = code[n+1:]
		steps = append(steps, l.lower(i, k))
	}
	return steps
}

// lower makes the step of one instruction. It uses the reference implementation where
// there is no kernel.
func (l *lowering) lower(i plan.Instruction, k call) func() {
	switch i.Path {
	case plan.ByGorgonia:
		return lowerForeign(i.Foreign, k)
	case plan.ByContribution:
		return l.lowerContribution(i, k)
	case plan.ByKernel:
		if native := l.lowerNative(i.Spec, k); native != nil {
			return native
		}
	}
	return lowerReference(i.Spec, k)
}

// call binds an instruction to the memory of its operands.
func (l *lowering) call(i plan.Instruction) call {
	out := l.program.Buffers[i.Out]
	k := call{
		Annotation: i.Annotation, base: out.Base, out: l.memory[i.Out], shape: out.Shape,
		outChannelsLast: l.channelsLast[i.Out], accumulate: i.Accumulate,
	}
	for _, id := range i.In {
		k.in = append(k.in, l.memory[id])
		k.halves = append(k.halves, l.halves[id])
		k.shapes = append(k.shapes, l.program.Buffers[id].Shape)
		k.bases = append(k.bases, l.program.Buffers[id].Base)
		k.inChannelsLast = append(k.inChannelsLast, l.channelsLast[id])
	}
	if i.Before != nil {
		before := l.call(*i.Before)
		k.before = &before
	}
	if i.After != nil {
		after := l.call(*i.After)
		k.after = &after
	}
	return k
}

// base returns the buffer that owns a buffer's memory.
func (l *lowering) base(id int) int { return l.program.Buffers[id].Base }

// lowerNative makes the step of an operation from kernels. It returns nil if there is no kernel for these
// shapes. One family handles each operation.
func (l *lowering) lowerNative(spec op.Operation, k call) func() {
	for _, family := range []func(*lowering, op.Operation, call) func(){lowerRecordOp, lowerProductOp, lowerConvolutionOp, lowerChannelOp,
		lowerLossOp, lowerSequenceOp, lowerEmbeddingOp, lowerElementwiseOp, lowerLayoutOp} {
		if step := family(l, spec, k); step != nil {
			return step
		}
	}
	return nil
}

// lowerReference makes a step that runs an operation's own Do, in float64, on one
// thread.
func lowerReference(spec op.Operation, k call) func() {
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

// lowerForeign makes a step that runs an operation that only Gorgonia implements. The
// step allocates.
func lowerForeign(f G.Op, k call) func() {
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

// sequence makes one step of several.
func sequence(steps ...func()) func() {
	return func() {
		for _, s := range steps {
			s()
		}
	}
}
