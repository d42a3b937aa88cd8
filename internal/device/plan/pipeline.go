package plan

import (
	"errors"

	"github.com/dptrain/dptrain/internal/clipping"
)

// ErrNoPipeline means that the host computes some of a program's operations.
var ErrNoPipeline = errors.New("the host computes a part of the program")

// Pipeline is an Executable that computes clip factors itself. It accepts the next
// microbatch while it works on this one, and returns nothing before the end of the lot.
//
// For each lot the caller runs these steps. For each microbatch: fill the rows (or the
// inputs) and the weights, and call Push. Then call FinishLot and Release once. The
// slices that Input, ExampleWeights, MaskSeed and Rows return change with every Push.
type Pipeline interface {
	Executable
	// Configure prepares the pipeline. Read copies rows of the data set, which has the
	// given number of examples. If the data set fits the device's memory, it stays there.
	// Read is nil if every lot has other examples; then nothing stays. The error is
	// ErrNoPipeline if the program cannot run without the host, and the executable is
	// then unchanged.
	Configure(f clipping.Formula, examples int, read func(dst [][]float32, rows []int) error) error
	// Rows is the memory for the data-set rows of the next microbatch's examples; nil if
	// the data set is not on the device and Input takes the examples.
	Rows() []int32
	// Push queues the microbatch with the bound of each group. Only its first records
	// count.
	Push(records int, bounds []float64) error
	// FinishLot waits for the lot's microbatches and returns their counts.
	FinishLot(t *LotCounts) error
}

// LotCounts describes a lot's records. It is private.
type LotCounts struct {
	NonFinite int     // records whose norm is not finite
	Unclipped int     // records whose factors are all at least 1
	Within    []int   // [group]: records whose norm is within the bound
	Loss      float64 // Σ of the records' mean losses; 0 if the program keeps no losses
}
