package ledger

import (
	"fmt"
	"math"
	"slices"
)

// MaxLots bounds the lots of one ledger, so that sums of counts stay exact in an int and
// in the float64 of any program that reads JSON.
const MaxLots = min(1<<53, math.MaxInt)

// sameLot reports whether two lots cost the same. It does not allocate.
func sameLot(a, b Lot) bool {
	return a.Sampling == b.Sampling && slices.Equal(a.Queries, b.Queries)
}

func cloneLot(lot Lot) Lot {
	lot.Queries = slices.Clone(lot.Queries)
	return lot
}

// Validate returns an error if the cost of the lot is undefined. It accepts what costs
// nothing, a query of sensitivity 0 and a lot without queries; a ledger does not.
func (l Lot) Validate() error {
	if err := l.Sampling.validate(); err != nil {
		return err
	}
	for _, q := range l.Queries {
		if l.Sampling.Policy == Truncated && q.Mechanism != Gaussian && q.Mechanism != RoundedGaussian {
			return fmt.Errorf("group %q: mechanism %q in a truncated lot, whose cost is known for %s and %s only", q.Group, q.Mechanism, Gaussian, RoundedGaussian)
		}
		if err := q.validate(); err != nil {
			return fmt.Errorf("group %q: %w", q.Group, err)
		}
	}
	return nil
}

func (s Sampling) validate() error {
	switch s.Policy {
	case Poisson:
		if !(s.Rate > 0 && s.Rate <= 1) {
			return fmt.Errorf("sampling rate %v must be above 0 and at most 1", s.Rate)
		}
	case FixedSize, Shuffle:
		if s.LotSize < 1 || s.LotSize > s.Records {
			return fmt.Errorf("%s sampling: lot size %d must be from 1 to the number of records, %d", s.Policy, s.LotSize, s.Records)
		}
	case Truncated:
		if !(s.Rate > 0 && s.Rate < 1) {
			return fmt.Errorf("truncated sampling: rate %v must be above 0 and below 1", s.Rate)
		}
		if s.Records < 1 || s.LotSize < 1 {
			return fmt.Errorf("truncated sampling: the largest lot, %d, and the number of records, %d, must be at least 1", s.LotSize, s.Records)
		}
	case FullBatch:
	default:
		return fmt.Errorf("sampling policy %q is unknown: use %s, %s, %s, %s or %s", s.Policy, Poisson, Truncated, FixedSize, Shuffle, FullBatch)
	}
	return nil
}

func (q Query) validate() error {
	switch q.Mechanism {
	case Gaussian, RoundedGaussian, DiscreteGaussian, Laplace, DiscreteLaplace, PermuteAndFlip:
	default:
		return fmt.Errorf("mechanism %q is unknown: use %s, %s, %s, %s, %s or %s", q.Mechanism, Gaussian, RoundedGaussian, DiscreteGaussian, Laplace, DiscreteLaplace, PermuteAndFlip)
	}
	if !(q.Sensitivity >= 0 && q.Sensitivity <= math.MaxFloat64) {
		return fmt.Errorf("sensitivity %v must be a finite number, 0 or more", q.Sensitivity)
	}
	if !(q.Noise > 0 && q.Noise <= math.MaxFloat64) {
		return fmt.Errorf("noise %v must be a finite number above 0", q.Noise)
	}
	if q.Mechanism.hasLattice() {
		return q.validateLattice()
	}
	if q.Lattice != 0 || q.Grid != 0 {
		return fmt.Errorf("mechanism %s has the lattice %d and the grid %d, which belong to %s and %s", q.Mechanism, q.Lattice, q.Grid, RoundedGaussian, DiscreteLaplace)
	}
	return nil
}

// maxLattice bounds the norm of integer contributions: a float64 represents each of their
// elements.
const maxLattice = 1 << 52

// The noise of a RoundedGaussian in lattice steps, as noise.RoundedGaussian limits it.
const (
	minLatticeNoise = 0x1p-20
	maxLatticeNoise = 0x1p60
)

func (q Query) validateLattice() error {
	if q.Lattice < 1 || q.Lattice > maxLattice {
		return fmt.Errorf("lattice %d must be from 1 to 2^52", q.Lattice)
	}
	if q.Sensitivity == 0 {
		return nil
	}
	if q.Mechanism == DiscreteLaplace {
		return q.validateScale()
	}
	if sigma := q.LatticeNoise(); !(sigma >= minLatticeNoise && sigma <= maxLatticeNoise) {
		return fmt.Errorf("the noise is %v lattice steps and must be from 2^-20 to 2^60", sigma)
	}
	if grid := q.roundingGrid(); q.Grid != grid {
		return fmt.Errorf("grid %d must be %d, which is ⌊log₂(noise/sensitivity·lattice)⌋ − 8", q.Grid, grid)
	}
	return nil
}

// maxLatticeScale bounds the scale of discrete Laplace noise, as package noise limits it.
const maxLatticeScale = 1 << 49

// validateScale checks that the noise is an integer number of lattice steps, as a float64 states it.
func (q Query) validateScale() error {
	scale := q.LatticeScale()
	if !(scale >= 1 && scale <= maxLatticeScale) {
		return fmt.Errorf("the noise is %v lattice steps and must be from 1 to 2^49", scale)
	}
	if want := q.noiseOfScale(scale); q.Noise != want {
		return fmt.Errorf("noise %v is not a whole number of lattice steps; that of %.0f steps is %v", q.Noise, scale, want)
	}
	if q.Grid != 0 {
		return fmt.Errorf("grid %d must be 0 for %s", q.Grid, DiscreteLaplace)
	}
	return nil
}

// checkLot returns why a ledger cannot contain the lot, or "".
func checkLot(lot Lot) string {
	if err := lot.Validate(); err != nil {
		return err.Error()
	}
	s := lot.Sampling
	switch {
	case s.Records < 0:
		return fmt.Sprintf("sampling: the number of records, %d, is negative", s.Records)
	case s.Policy == Poisson && s.LotSize != 0:
		return "sampling: a poisson lot has a rate and no lot size"
	case (s.Policy == FixedSize || s.Policy == Shuffle) && s.Rate != 0:
		return fmt.Sprintf("sampling: a %s lot has a lot size and no rate", s.Policy)
	case s.Policy == FullBatch && (s.Rate != 0 || s.LotSize != 0):
		return "sampling: a lot of all records (policy none) has neither a rate nor a lot size"
	case len(lot.Queries) == 0:
		return "the lot has no queries: omit a lot that releases nothing"
	}
	for _, q := range lot.Queries {
		if q.Sensitivity == 0 {
			return fmt.Sprintf("group %q: sensitivity is 0 and must be above 0", q.Group)
		}
	}
	return ""
}

// checkHeader returns why a ledger cannot begin with the header, or "".
func checkHeader(h Header) string {
	switch {
	case h.Version > formatVersion:
		return fmt.Sprintf("its format version is %d, but this program supports versions up to %d: use a newer dptrain", h.Version, formatVersion)
	case h.Version < firstVersion:
		return fmt.Sprintf("its format version is %d, but this program supports versions from %d on", h.Version, firstVersion)
	case h.Unit == "":
		return "unit is empty: name the unit of privacy, such as example"
	case h.Records < 1:
		return fmt.Sprintf("records is %d: give the number of records, 1 or more", h.Records)
	}
	switch h.Adjacency {
	case AddRemove, ReplaceOne, ZeroOut:
		return ""
	}
	return fmt.Sprintf("adjacency %q is unknown: use %s, %s or %s", h.Adjacency, AddRemove, ReplaceOne, ZeroOut)
}
