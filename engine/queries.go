package engine

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

// contributors bounds the records that contribute to a sum, given their number. It is public.
func (c *Config) contributors(records int) float64 {
	if c.Sampling.Population > 0 {
		return math.MaxInt32 // the number of records is private; a device counts them in 32 bits
	}
	return float64(records)
}

// query returns the query of a sum over the records of which each contributes a vector of norm at
// most sensitivity. With exact arithmetic the vectors are integers, with as many lattice steps in
// the sensitivity as lattice permits, the sum and the noise: a power of two.
func (c *Config) query(group string, sensitivity, noise float64, lattice int64, records int) ledger.Query {
	if c.Mechanism.Arithmetic != ExactArithmetic || c.Mechanism.NonPrivate {
		return ledger.Query{Group: group, Mechanism: ledger.Gaussian, Sensitivity: sensitivity, Noise: noise}
	}
	for lattice > 1 && (c.contributors(records)*float64(lattice) > maxLatticeSum || noise/sensitivity*float64(lattice) > maxLatticeNoise) {
		lattice /= 2
	}
	return ledger.RoundedQuery(group, sensitivity, noise, lattice)
}

// checkQueries checks the sums that a run releases other than gradients and counts.
func (c *Config) checkQueries(records int) error {
	for _, s := range c.Statistics {
		if err := c.checkQuery(c.statisticQuery(s, records), records); err != nil {
			return err
		}
	}
	if c.Validation.Set != nil {
		if lot := c.validationLot(); !c.Mechanism.NonPrivate {
			if err := c.checkQuery(lot.Queries[0], lot.Sampling.Records); err != nil {
				return err
			}
		}
	}
	if c.Projection.Directions > 0 && !c.Mechanism.NonPrivate {
		return c.checkQuery(c.projectionLot(records).Queries[0], records)
	}
	return nil
}

// checkQuery returns an error if integers of 64 bits cannot represent the sum and its noise.
func (c *Config) checkQuery(q ledger.Query, records int) error {
	if q.Mechanism != ledger.RoundedGaussian {
		return nil
	}
	if err := (ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.FullBatch}, Queries: []ledger.Query{q}}).Validate(); err != nil {
		return setting.Errorf("Mechanism.Arithmetic", "%w; choose noise nearer to the sensitivity, or float arithmetic (%v)", err, setting.With("Mechanism.Arithmetic", "float"))
	}
	if sum := c.contributors(records) * float64(q.Lattice); max(sum, math.Ldexp(sum, -q.Grid)) > maxLatticeSum {
		return setting.Errorf("Mechanism.NoiseMultiplier", "group %q: noise of %v is too small for a sensitivity of %v and up to %.0f records; raise it, or use float arithmetic (%v)",
			q.Group, q.Noise, q.Sensitivity, c.contributors(records), setting.With("Mechanism.Arithmetic", "float"))
	}
	return nil
}
