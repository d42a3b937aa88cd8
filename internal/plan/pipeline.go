package plan

import (
	"errors"

	"github.com/dptrain/dptrain/clip"
)

// ErrNoPipeline says that a program has operations that the host computes.
var ErrNoPipeline = errors.New("the host computes a part of the program")

// Pipeline is a Machine that computes factors itself and takes the next
// microbatch while it works on this one: nothing comes back before the lot's end.
//
// A lot goes: for each microbatch put its rows (or inputs) and weights, Push;
// then Tally and Release once. What Input, RecordWeights, Ticket and Rows
// give changes with every Push.
type Pipeline interface {
	Executable
	// Configure makes the pipeline ready. Read copies rows of the data set, which has
	// so many examples; where they fit they stay on the device, unless read is nil, as it
	// is where they are other ones in every lot. It fails with
	// ErrNoPipeline where the program cannot run without the host, and the machine
	// is then as it was.
	Configure(f clip.Formula, examples int, read func(dst [][]float32, rows []int) error) error
	// Rows is where the data-set rows of the next microbatch's examples are put;
	// nil where the data set is not on the device and Input takes the examples.
	Rows() []int32
	// Push queues the microbatch, of which the first so many records count, with
	// the bound of each group.
	Push(records int, bounds []float64) error
	// FinishLot waits for the lot's microbatches and gives what they counted.
	FinishLot(t *LotCounts) error
}

// LotCounts is what a lot's records did. It is private.
type LotCounts struct {
	NonFinite int     // records of a norm that is not a finite number
	Unclipped int     // records whose factors are all at least 1
	Within    []int   // of each group: records whose norm is within the bound
	Loss      float64 // Σ of the records' mean losses; 0 where the program keeps none
}
