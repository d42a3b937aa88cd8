package plan

import (
	"slices"

	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Role says what a buffer is for.
type Role uint8

const (
	RoleTemporary      Role = iota // lives in the arena between its first and last instruction
	RoleInput                      // a column of the microbatch; Index is the column
	RoleParameter                  // Index is the vector
	RoleConstant                   // Value is what it holds
	RoleExampleWeights             // each example's weight within its record
	RoleSquaredNorms               // squared norms of vector Index, one a record
	RoleClipFactors                // factors of vector Index, one a record
	RoleClippedSum                 // the accumulator of vector Index
	RoleOutput                     // the network's answers
	RoleLosses                     // each example's loss
	RoleMaskSeed                   // what tells each example's masks, as op.WriteTicket writes it
)

// Buffer is a contiguous row-major float32 tensor.
type Buffer struct {
	Name     string
	Shape    tensor.Shape
	Role     Role
	Index    int
	Value    []float32            // Constant: its elements; Parameter: the starting values, where they are in memory
	Draw     func(into []float32) // Parameter: writes the starting values; nil where they are in memory
	Borrowed bool                 // Parameter: Value is the memory to compute with, and only read
	Base     int                  // the buffer whose memory this is: its own number, unless it is a reshaped view
	Offset   int                  // Temporary: where in the arena it lies
}

// Size is the number of elements.
func (b Buffer) Size() int { return b.Shape.TotalSize() }

// Instruction computes one buffer from others.
type Instruction struct {
	Spec       op.Spec // nil for a Foreign instruction
	Foreign    G.Op    // an operation known only to Gorgonia, run by its own Do
	In         []int
	Out        int
	Accumulate bool // the result is added to what Out contains

	// FuseLSTM sets these. Before computes operand 0, which is not stored anywhere. After
	// reads the result and is run together with this instruction.
	Before, After *Instruction
}

// Program is what a device runs. Front goes forward and backward through the
// network and ends with the squared norms; Back turns factors into clipped sums,
// added to the accumulators. An evaluating program has a Front alone.
//
// No buffer is larger than the microbatch makes it and none depends on the lot.
type Program struct {
	Batch      int // examples in a microbatch
	Records    int // records in a microbatch
	PerRecord  int // examples in a record
	Buffers    []Buffer
	Front      []Instruction
	Back       []Instruction
	Arena      int // elements that the temporaries share
	Warning    string
	Parameters []Parameter
	Network    *perexample.PrivateNetwork // the graph of a training program; the device gorgonia runs it
}

// Parameter is one parameter of the program.
type Parameter struct {
	Name         string
	Shape        tensor.Shape
	Value        int // its buffer
	SquaredNorms int // its buffer; -1 where norms are not computed
	ClipFactors  int
	ClippedSum   int
	Kind         string
	Method       string
}

// FindBuffer gives the first buffer of a role and index, or -1.
func (p *Program) FindBuffer(role Role, index int) int {
	for i, b := range p.Buffers {
		if b.Role == role && b.Index == index {
			return i
		}
	}
	return -1
}

// Bytes is the memory that the program's buffers take.
func (p *Program) Bytes() int {
	n := p.Arena
	for _, b := range p.Buffers {
		if b.Role != RoleTemporary && !b.Borrowed {
			n += b.Size()
		}
	}
	return 4 * n
}

// MicrobatchBytes is the part of Bytes that grows with the microbatch: all but weights and sums.
func (p *Program) MicrobatchBytes() int {
	n := p.Bytes()
	for _, b := range p.Buffers {
		if b.Role == RoleClippedSum || b.Role == RoleParameter && !b.Borrowed {
			n -= 4 * b.Size()
		}
	}
	return n
}

// Initialize fills memory with what a buffer holds at first.
func (b Buffer) Initialize(into []float32) {
	if b.Draw != nil {
		b.Draw(into)
		return
	}
	copy(into, b.Value)
}

// Stripped is the program without the values that its parameters start with, which a
// machine has once it is ready.
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

// WithBorrowedWeights is an evaluating program that computes with weights where they lie, one slice a
// parameter, instead of having its own. A device with memory of its own copies them.
func (p *Program) WithBorrowedWeights(weights [][]float32) *Program {
	q := p.Stripped()
	for v, w := range weights {
		b := &q.Buffers[q.Parameters[v].Value]
		b.Value, b.Borrowed = w, true
	}
	return q
}
