package plan

import (
	"math"

	"github.com/dptrain/dptrain/internal/device/lattice"
)

// Bound is the largest norm of a record's contribution to a group, in lattice steps: the
// sensitivity of every group of an exact program.
const Bound = lattice.Bound

// MaxNarrowRecords is the largest number of records whose sums fit 32 bits: no element of a record's contribution
// exceeds Bound, so no sum of some of them exceeds MaxNarrowRecords·Bound < 2³¹.
const MaxNarrowRecords = math.MaxInt32 / Bound

// Bytes of a sum in a message between ranks. No sum of a number of records exceeds their number times Bound.
const (
	NarrowSum = 4
	MiddleSum = 5 // the low 4 bytes, and 1 byte above them
	WideSum   = 8
)

// maxMiddleRecords is the largest number of records whose sums take 5 bytes: their sums do not exceed
// maxMiddleRecords·Bound < 2³⁹.
const maxMiddleRecords = MaxNarrowRecords << 8

// PieceElements is the number of elements of each rank's part that one call of several ranks sends.
func PieceElements(ranks int) int {
	const ofAllParts, leastOfOnePart = 1 << 20, 1 << 14
	return max(ofAllParts/ranks, leastOfOnePart)
}

// SumBytes returns the bytes of a sum of at most this many records.
func SumBytes(records int) int {
	switch {
	case records <= MaxNarrowRecords:
		return NarrowSum
	case records <= maxMiddleRecords:
		return MiddleSum
	}
	return WideSum
}

// Contributions are what an exact program reads and counts in addition to clip factors.
//
// The contribution of record r to parameter i is an integer vector: the record's gradient
// times its clip factor times Steps[i], rounded to integers at random. AddClippedSums adds
// it only if the squared norms of the record's contributions to the parameters of a group
// add up to at most Bound². It determines the norms in integers, without rounding. In a program
// with L1, the sum of all absolute values is at most Bound instead.
//
// A part of a contribution that would exceed the bound is rounded again with a smaller
// factor, and is left out if it exceeds the bound again. This decision depends on the record alone.
type Contributions struct {
	Seeds []uint64  // [record] a random word; written for each microbatch
	Steps []float64 // [parameter] lattice steps in a unit of the gradient; written for each lot
	Group []int     // [parameter] its group; written once

	// Bounds are the largest norms of the records' contributions to a group, at most Bound, as
	// [group][record]; written for each microbatch. nil, also of a group: Bound, the only one that devices
	// other than the host have. No program with L1 has them.
	Bounds [][]int64

	// Reduced and Omitted count the parts that were rounded again with a smaller factor and
	// that were left out, since the caller set them to 0. A device may add to them as late as
	// in Release. They are private.
	Reduced, Omitted int
}

// NewContributions returns the contributions of a program's records.
func NewContributions(p *Program) *Contributions {
	return &Contributions{
		Seeds: make([]uint64, p.Records),
		Steps: make([]float64, len(p.Parameters)),
		Group: make([]int, len(p.Parameters)),
	}
}
