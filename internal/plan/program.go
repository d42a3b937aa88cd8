package plan

import (
	"slices"

	"github.com/dptrain/dptrain/internal/op"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Role says what a buffer is for.
type Role uint8

const (
	Temporary Role = iota // lives in the arena between its first and last instruction
	Input                 // a column of the microbatch; Index is the column
	Parameter             // Index is the vector
	Constant              // Value is what it holds
	Weights               // each example's weight within its record
	Squared               // squared norms of vector Index, one a record
	Factors               // factors of vector Index, one a record
	Sum                   // the accumulator of vector Index
	Output                // the network's answers
	Losses                // each example's loss
	Ticket                // what tells each example's masks, as op.WriteTicket writes it
)

// Buffer is a contiguous row-major float32 tensor.
type Buffer struct {
	Name   string
	Shape  tensor.Shape
	Role   Role
	Index  int
	Value  []float32            // Constant: its elements; Parameter: the starting values, where they are in memory
	Draw   func(into []float32) // Parameter: writes the starting values; nil where they are in memory
	Lent   bool                 // Parameter: Value is the memory to compute with, and only read
	Base   int                  // the buffer whose memory this is: its own number, unless it is a reshaped view
	Offset int                  // Temporary: where in the arena it lies
}

// Size is the number of elements.
func (b Buffer) Size() int { return b.Shape.TotalSize() }

// Instruction computes one buffer from others.
type Instruction struct {
	Spec       op.Spec // nil for a Foreign instruction
	Foreign    G.Op    // an operation known only to Gorgonia, run by its own Do
	In         []int
	Out        int
	Accumulate bool // the result is added to what Out holds
}

// Program is what a device runs. Front goes forward and backward through the
// network and ends with the squared norms; Back turns factors into clipped sums,
// added to the accumulators. An evaluating program has a Front alone.
//
// No buffer is larger than the microbatch makes it and none depends on the lot.
type Program struct {
	Batch     int // examples in a microbatch
	Records   int // records in a microbatch
	PerRecord int // examples in a record
	Buffers   []Buffer
	Front     []Instruction
	Back      []Instruction
	Arena     int // elements that the temporaries share
	Warning   string
	Vectors   []Vector
}

// Vector is one parameter of the program.
type Vector struct {
	Name      string
	Shape     tensor.Shape
	Parameter int // its buffer
	Squared   int // its buffer; -1 where norms are not computed
	Factors   int
	Sum       int
	Kind      string
	Method    string
}

// Find gives the first buffer of a role and index, or -1.
func (p *Program) Find(role Role, index int) int {
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
		if b.Role != Temporary && !b.Lent {
			n += b.Size()
		}
	}
	return 4 * n
}

// Working is the part of Bytes that grows with the microbatch: all but weights and sums.
func (p *Program) Working() int {
	n := p.Bytes()
	for _, b := range p.Buffers {
		if b.Role == Sum || b.Role == Parameter && !b.Lent {
			n -= 4 * b.Size()
		}
	}
	return n
}

// Begin fills memory with what a buffer holds at first.
func (b Buffer) Begin(into []float32) {
	if b.Draw != nil {
		b.Draw(into)
		return
	}
	copy(into, b.Value)
}

// Started is the program without the values that its parameters start with, which a
// machine has once it is ready.
func (p *Program) Started() *Program {
	q := *p
	q.Buffers = slices.Clone(p.Buffers)
	for i, b := range q.Buffers {
		if b.Role == Parameter {
			q.Buffers[i].Value, q.Buffers[i].Draw = nil, nil
		}
	}
	return &q
}

// Lent is an evaluating program that computes with weights where they lie, one slice a
// parameter, instead of having its own. A device with memory of its own copies them.
func (p *Program) Lent(weights [][]float32) *Program {
	q := p.Started()
	for v, w := range weights {
		b := &q.Buffers[q.Vectors[v].Parameter]
		b.Value, b.Lent = w, true
	}
	return q
}

// Large tells whether half the records would be computed as fast on a CPU, or faster,
// and in less memory: more than a cache shared by cores holds, most of it not weights
// and sums, which each half would go through again; or temporaries that a core's cache
// could hold of a network with few weights. Measured on the workloads of package bench.
func (p *Program) Large() bool {
	if all := p.Bytes(); all > 72<<20 && p.Working() > all/2 {
		return p.Records >= 16
	}
	weights := 0
	for _, v := range p.Vectors {
		weights += p.Buffers[v.Parameter].Size()
	}
	return p.Records >= 128 && p.Arena > max(1<<20, 16*weights)
}
