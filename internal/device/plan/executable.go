package plan

import "github.com/dptrain/dptrain/internal/ranks"

// Executable is a program that a device has compiled. It serves one goroutine.
//
// For each lot the caller runs these steps. For each microbatch: fill the inputs, call
// Forward, read the squared norms, fill the clip factors, call AddClippedSums. After the
// last microbatch: call Release once. The slices that an executable returns are the host's
// view. They stay the same until Close, and are valid after the call that computes them.
type Executable interface {
	// Input is the memory for column k of the next microbatch or, after all columns, for running
	// statistics in the order of perexample.Network.BatchNorms, mean before variance, and then for
	// the outputs of frozen layers that TrainingOptions.Frozen asks for.
	Input(k int) []float32
	// ExampleWeights is the memory for each example's weight within its record; nil if
	// records are examples.
	ExampleWeights() []float32
	// MaskSeed is the memory for the examples' mask seeds, which op.WriteMaskSeed writes;
	// nil if the program reads none.
	MaskSeed() []float32
	// Forward runs the program's Front.
	Forward() error
	// SquaredNorms are the squared gradient norms of parameter i, one per record.
	SquaredNorms(i int) []float32
	// ClipFactors is the memory for the clip factors of parameter i, one per record.
	ClipFactors(i int) []float32
	// Contributions are what an exact program reads in addition to clip factors; nil if the
	// program adds floating-point numbers.
	Contributions() *Contributions
	// AddClippedSums runs the program's Back, which adds clipped sums to the accumulators.
	AddClippedSums() error
	// Output and Losses are the network's output and the examples' losses; nil if the
	// program does not keep them.
	Output() []float32
	Losses() []float32
	// Observed is what the i-th statistic behind running statistics reads, in their order, or the
	// i-th output of LowerFrozen; nil if the program does not keep it.
	Observed(i int) []float32
	// Release turns the accumulators into a step and sets them to zero.
	Release(r *Release) error
	// State is the host's view of what a checkpoint stores; SyncState updates it.
	State() State
	// SyncState copies the device's state to State; LoadState copies State to the device.
	SyncState() error
	LoadState() error
	// WorkspaceBytes is the memory that the executable takes in addition to the
	// program's buffers.
	WorkspaceBytes() int
	Close() error
}

// SumReader is an executable of an exact program whose sums the host can read, to add those of other
// ranks. Release then takes them from Release.Sums.
type SumReader interface {
	// ReadSum writes the sums of parameter i to dst. It is called after the last microbatch of a lot.
	ReadSum(i int, dst []int64) error
}

// RankSummer is an executable of an exact program that adds the sums of all ranks in its device's memory.
type RankSummer interface {
	// AddRanks returns a function that replaces the sums by those of all ranks, after the last microbatch of a
	// lot; nil where c does not reach the device. It adds the sums that this rank releases.
	AddRanks(c ranks.Communicator) func() error
	// RankEnds returns where the part that each rank releases ends: [parameter][rank]. This executable keeps the
	// optimiser's state of the part of its rank only: that is all that SyncState and LoadState copy. nil: every rank
	// releases all elements.
	RankEnds() [][]int
	// GatherWeights gives this rank the weights and averages of all parts. All ranks call it, after each has released
	// its part.
	GatherWeights() error
}

// PartReleaser is an executable that can release a part of the elements: of these it adds the noise, and updates
// weights and state. It clears the sums of all.
type PartReleaser interface {
	// ReadSums writes the sums of parameter i from an element on to dst, after the last microbatch of a lot.
	ReadSums(i, from int, dst []int64) error
	// PartEnds returns where each of a number of parts ends in the elements of parameter i. The parts of all
	// parameters together are of about one size. A parameter that is not trained has none.
	PartEnds(i, parts int) []int
	// SumOrder returns the trained parameters in the order in which a microbatch completes their sums.
	SumOrder() []int
	// AddLastClippedSums is AddClippedSums in the last microbatch of a lot. It calls final(n) when the sums of the first
	// n parameters of SumOrder are final: another goroutine may read them from then on.
	AddLastClippedSums(final func(n int)) error
}

// State is the training state of each parameter.
type State struct {
	Weights [][]float32
	Average [][]float32   // nil if no average is kept
	Slots   [][][]float32 // [parameter][slot]: the optimiser's state
}
