package forward

import (
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/network"
	"github.com/dptrain/dptrain/internal/device/plan"
)

// Batch is a network, lowered for a number of examples.
type Batch struct {
	Size       int
	Executable plan.Executable // nil before there are weights
	Columns    [][]float32     // the numbers of the examples that were read, for each input of the network

	program *plan.Program
	inputs  [][]float32 // of the executable
	rows    []int
}

func newBatch(program *plan.Program, size, inputs int) *Batch {
	return &Batch{Size: size, program: program, rows: make([]int, size), Columns: make([][]float32, inputs)}
}

// open opens the executable for weights.
func (b *Batch) open(device plan.Device, weights [][]float32) (err error) {
	b.Executable, err = network.Open(device, b.program.WithBorrowedWeights(weights), plan.Optimizer{Kind: plan.SGD}, false)
	if err != nil {
		b.Executable = nil // not an interface that contains nil
		return err
	}
	b.program = b.program.Stripped()
	b.inputs = nil
	for k := range b.Columns {
		b.inputs = append(b.inputs, b.Executable.Input(k))
	}
	return nil
}

func (b *Batch) close() error {
	if b.Executable == nil {
		return nil
	}
	open := b.Executable
	b.Executable = nil
	return open.Close()
}

// Read reads count examples of a set, at most Size.
func (b *Batch) Read(s data.Set, from, count int) error {
	for i := range count {
		b.rows[i] = from + i
	}
	for k, in := range b.inputs {
		b.Columns[k] = in[:count*(len(in)/b.Size)]
	}
	return s.Read(b.Columns[:len(s.Columns())], b.rows[:count])
}

// LossesPerExample is the number of losses of an example.
func (b *Batch) LossesPerExample() int { return len(b.Executable.Losses()) / b.Size }
