package plan

import (
	"slices"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Role is the purpose of a buffer.
type Role uint8

const (
	RoleTemporary      Role = iota // its memory is in the arena, between its first and last instruction
	RoleInput                      // a column of the microbatch, then running statistics and outputs of frozen layers; Index counts all
	RoleParameter                  // Index is the parameter
	RoleConstant                   // Value is its content, or Draw writes it
	RoleExampleWeights             // each example's weight within its record
	RoleSquaredNorms               // squared gradient norms of parameter Index, one per record
	RoleClipFactors                // clip factors of parameter Index, one per record
	RoleClippedSum                 // the accumulator of parameter Index; of an exact program: integers
	RoleOutput                     // the network's output
	RoleLosses                     // each example's loss
	RoleMaskSeed                   // the examples' mask seeds, which op.WriteMaskSeed writes
	RoleObserved                   // perexample.BatchNorm.Observed, two for each layer; of LowerFrozen: the outputs of frozen layers
)

// Buffer is a contiguous row-major float32 tensor.
type Buffer struct {
	Name     string
	Shape    tensor.Shape
	Role     Role
	Index    int
	Value    []float32                // RoleConstant: the elements; RoleParameter: the initial values
	Draw     func(into []float32)     // RoleParameter: writes Value, which is then nil
	Shared   *perexample.InitialValue // RoleConstant: has Value, which is then nil; the CPU computes with its numbers
	Half     bool                     // RoleConstant: the device computes with the numbers of 16 bits of Shared: see KeepHalf
	Borrowed bool                     // RoleParameter: the device computes with Value itself and only reads it
	Base     int                      // the buffer that owns the memory: the buffer itself, unless it is a reshaped view
	Offset   int                      // RoleTemporary: the place in the arena
}

// Size is the number of elements.
func (b Buffer) Size() int { return b.Shape.TotalSize() }

// Instruction computes one buffer from others.
type Instruction struct {
	Spec       op.Operation // nil for a Foreign instruction
	Foreign    G.Op         // an operation that only Gorgonia implements
	In         []int
	Out        int
	Accumulate bool // the result is added to what Out contains

	// At maps elements of a contribution to elements of Out; nil is the identity. FirstRecord
	// is the first of the records that a part of a program computes together. Both belong to
	// the sums of exact programs.
	At          *op.Map
	FirstRecord int

	Annotation // of [Program.Annotated]

	// FuseLSTM sets these. Before computes operand 0, which is not stored anywhere. After
	// reads the result and is run together with this instruction.
	Before, After *Instruction
}

// Program is what a device runs. Front is the forward and backward pass, and ends with
// the squared norms. Back turns clip factors into clipped sums, which it adds to the
// accumulators. An evaluation program has no Back.
//
// The size of a buffer depends on the microbatch and not on the lot.
type Program struct {
	Batch      int // examples in a microbatch
	Records    int // records in a microbatch
	PerRecord  int // examples in a record
	Buffers    []Buffer
	Front      []Instruction
	Back       []Instruction
	Arena      int  // elements that the temporaries share
	Exact      bool // Back adds integers: see Contributions
	L1         bool // norms are ℓ₁ norms and not squared, also those of contributions; only the device cpu compiles it
	Warning    string
	Parameters []Parameter
	Network    *perexample.PrivateNetwork // the graph of a training program; the device gorgonia runs it
}

// Parameter is one parameter of the program. Value, SquaredNorms, ClipFactors and
// ClippedSum are buffers; −1 means none.
type Parameter struct {
	Name         string
	Shape        tensor.Shape
	Value        int
	SquaredNorms int
	ClipFactors  int
	ClippedSum   int
	Kind         string
	Method       string
}

// FindBuffer returns the first buffer of a role and index, or -1.
func (p *Program) FindBuffer(role Role, index int) int {
	for i, b := range p.Buffers {
		if b.Role == role && b.Index == index {
			return i
		}
	}
	return -1
}

// Bytes is the memory of the program's buffers.
func (p *Program) Bytes() int {
	n := p.Arena
	for _, b := range p.Buffers {
		if b.Role != RoleTemporary && !b.Borrowed {
			n += p.words(b)
		}
	}
	return 4 * n
}

// words is the memory of a buffer in words of 32 bits.
func (p *Program) words(b Buffer) int {
	switch {
	case b.Role == RoleClippedSum && p.Exact:
		return 2 * b.Size()
	case b.Half:
		return (b.Size() + 1) / 2
	}
	return b.Size()
}

// MicrobatchBytes is the part of Bytes that grows with the microbatch: everything except
// weights and accumulators.
func (p *Program) MicrobatchBytes() int {
	n := p.Bytes()
	for _, b := range p.Buffers {
		if b.Role == RoleClippedSum || b.Role == RoleParameter && !b.Borrowed {
			n -= 4 * p.words(b)
		}
	}
	return n
}

// Content returns a buffer's initial content, which the caller must not change. A copy is made only if Draw writes it.
func (b Buffer) Content() []float32 {
	switch {
	case b.Shared != nil:
		return b.Shared.Shared()
	case b.Draw == nil:
		return b.Value
	}
	values := make([]float32, b.Size())
	b.Draw(values)
	return values
}

// EachPart passes a buffer's initial content in parts. It makes no copy of numbers that are in memory.
func (b Buffer) EachPart(yield func(part []float32)) {
	if b.Shared != nil {
		b.Shared.EachShared(yield)
	} else {
		yield(b.Content())
	}
}

// Initialize writes a buffer's initial content.
func (b Buffer) Initialize(into []float32) {
	if b.Draw != nil {
		b.Draw(into)
		return
	}
	copy(into, b.Content())
}

// Stripped is the program without the graph and the initial values of parameters.
func (p *Program) Stripped() *Program {
	q := *p
	q.Network = nil
	q.Buffers = slices.Clone(p.Buffers)
	for i, b := range q.Buffers {
		if b.Role == RoleParameter {
			q.Buffers[i].Value, q.Buffers[i].Draw = nil, nil
		}
	}
	return &q
}

// WithoutValues is the program without the initial values, the constants and the graph. It cannot be compiled.
func (p *Program) WithoutValues() *Program {
	q := p.Stripped()
	for i := range q.Buffers {
		q.Buffers[i].Value, q.Buffers[i].Draw, q.Buffers[i].Shared = nil, nil, nil
	}
	return q
}

// WithBorrowedWeights is an evaluation program that computes with the given weights, one
// slice per parameter, instead of memory of its own. A device with its own memory copies
// them.
func (p *Program) WithBorrowedWeights(weights [][]float32) *Program {
	q := p.Stripped()
	for v, w := range weights {
		b := &q.Buffers[q.Parameters[v].Value]
		b.Value, b.Borrowed = w, true
	}
	return q
}
