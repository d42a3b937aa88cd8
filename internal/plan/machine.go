package plan

import (
	"github.com/dptrain/dptrain/noise"
)

// Executable is a program made ready on a device. It serves one goroutine.
//
// A lot goes: for each microbatch fill the inputs, Forward, read the squared
// norms, fill the factors, Add; then Release once. The slices it gives are the
// host's view: they stay the same for the machine's life and are valid after the
// call that computes them.
type Executable interface {
	// Input is where column k of the next microbatch is put.
	Input(k int) []float32
	// ExampleWeights is where the examples' weights are put; nil where records are
	// examples.
	ExampleWeights() []float32
	// MaskSeed is where the examples' tickets are put, as op.WriteTicket writes them;
	// nil where the program takes none.
	MaskSeed() []float32
	// Forward runs the program's Front.
	Forward() error
	// SquaredNorms are the squared norms of vector v, one a record.
	SquaredNorms(v int) []float32
	// ClipFactors is where the factors of vector v are put, one a record.
	ClipFactors(v int) []float32
	// AddClippedSums runs the program's Back: clipped sums join the accumulators.
	AddClippedSums() error
	// Output and Losses are what the network answered; nil where it keeps none.
	Output() []float32
	Losses() []float32
	// Release turns the accumulators into a step and sets them to zero.
	Release(r *Release) error
	// State gives the host's view of what a checkpoint keeps, after Sync.
	State() State
	// SyncState brings State up to date, and Load takes it back.
	SyncState() error
	LoadState() error
	// WorkspaceBytes is how many bytes the program takes beside its buffers.
	WorkspaceBytes() int
	Close() error
}

// State is what training has made of each vector.
type State struct {
	Weights []([]float32)
	Average []([]float32) // nil where no average is kept
	Slots   [][][]float32 // [vector][slot]: the optimiser's memory
}

// Release says how a lot's sums become a step: to each element of vector v,
// noise of standard deviation Sigma[v] is added, the result is multiplied by
// Scale, and the optimiser moves the weight by it.
//
// Element i of vector v takes normal i of the source's stream (Release, Lot, v),
// on every device. That the ledger entry for the lot is on disk first is the
// caller's promise.
type Release struct {
	Source      *noise.Source
	Lot         uint64
	Sigma       []float64
	Scale       float64
	Optimizer   Optimizer
	Step        int
	Rate        float64
	ParamGroups []ParamGroup // of each vector; nil: all go as the optimiser and the rate say
	Average     Average      // Decay 0: none is kept
}

// ParamGroup is what a vector's learning rate and weight decay are multiplied by.
type ParamGroup struct{ RateMultiplier, DecayMultiplier float64 }

// OptimizerOf is the optimiser and the learning rate that move vector v.
func (r *Release) OptimizerOf(v int) (Optimizer, float64) {
	o, rate := r.Optimizer, r.Rate
	if r.ParamGroups != nil {
		o.WeightDecay *= r.ParamGroups[v].DecayMultiplier
		rate *= r.ParamGroups[v].RateMultiplier
	}
	return o, rate
}
