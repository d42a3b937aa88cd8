package release

import (
	"math"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/internal/setting"
)

// The limits of noise.RoundedGaussian: sums in lattice steps and in steps of the grid, with room
// for the noise.
const (
	maxLatticeSum   = 0x1p61
	maxLatticeNoise = 0x1p56
)

// Arithmetic is how the sums of a run are added and noised.
type Arithmetic struct {
	Exact        bool // integers, and rounded Gaussian noise; otherwise floating-point numbers
	PrivateCount bool // the number of records is private
}

// contributors bounds the records that contribute to a sum, given their number. It is public.
func (a Arithmetic) contributors(records int) float64 {
	if a.PrivateCount {
		return math.MaxInt32 // a device counts records in 32 bits
	}
	return float64(records)
}

// Query returns the query of a sum over records of which each contributes a vector of norm at most
// sensitivity. With exact arithmetic the vectors are integers, with as many lattice steps in the
// sensitivity as lattice permits, the sum and the noise: a power of two.
func (a Arithmetic) Query(group string, sensitivity, noise float64, lattice int64, records int) ledger.Query {
	if !a.Exact {
		return ledger.Query{Group: group, Mechanism: ledger.Gaussian, Sensitivity: sensitivity, Noise: noise}
	}
	for lattice > 1 && (a.contributors(records)*float64(lattice) > maxLatticeSum || noise/sensitivity*float64(lattice) > maxLatticeNoise) {
		lattice /= 2
	}
	return ledger.RoundedQuery(group, sensitivity, noise, lattice)
}

// Check returns an error if integers of 64 bits cannot represent a sum over records and its noise.
func (a Arithmetic) Check(q ledger.Query, records int) error {
	if q.Mechanism != ledger.RoundedGaussian {
		return nil
	}
	if err := (ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.FullBatch}, Queries: []ledger.Query{q}}).Validate(); err != nil {
		return setting.Errorf("Mechanism.Arithmetic", "%w; choose noise nearer to the sensitivity, or float arithmetic (%v)", err, setting.With("Mechanism.Arithmetic", "float"))
	}
	if sum := a.contributors(records) * float64(q.Lattice); max(sum, math.Ldexp(sum, -q.Grid)) > maxLatticeSum {
		return setting.Errorf("Mechanism.NoiseMultiplier", "group %q: noise of %v is too small for a sensitivity of %v and up to %.0f records; raise it, or use float arithmetic (%v)",
			q.Group, q.Noise, q.Sensitivity, a.contributors(records), setting.With("Mechanism.Arithmetic", "float"))
	}
	return nil
}
