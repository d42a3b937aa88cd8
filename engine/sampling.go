package engine

import (
	"cmp"
	"math"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/setting"
	"github.com/dptrain/dptrain/noise"
)

// Sampling describes how lots are drawn. Set one of Rate and Lot.
type Sampling struct {
	Policy sample.Policy // default: Poisson
	Rate   float64       // probability of each record, or its share of a fixed-size lot
	Lot    int           // records in a lot; for Poisson the expected number

	// MaxLot is the largest number of records in a Truncated lot; 0: [accountant.DefaultMaxLot].
	MaxLot int
	// ConstantWork pads each Truncated lot to the same number of microbatches, so that a device
	// gets the same calls with the same shapes in each lot.
	ConstantWork bool

	// Population declares the number of records as a public constant N, which must not come
	// from the data; Poisson and Truncated only. The rate is then Lot/N and the normaliser q·N, everything
	// that is stated about the run uses N, and the number of records of Train is private:
	// neighbouring data sets differ by an added or removed record. Truncated lots require
	// that Train has at most N records. 0: the number of records is public.
	Population int

	// ReplaceOne states the guarantee for data sets in which a record is replaced by any other one, which
	// costs more than the relation that Adjacency states otherwise. Lots of a fixed size always have it.
	ReplaceOne bool
}

// Adjacency returns the relation between neighbouring data sets that the guarantee covers:
//
//   - Lots of a fixed size, and all lots with ReplaceOne: a record is replaced by another. A sum then
//     moves by the contributions of both, which the accountants count as twice the sensitivity.
//   - Shuffled lots, and Poisson and truncated lots without Population: a record is replaced by a null record,
//     which contributes nothing. The number of records is public, because the rate or the
//     normaliser q·N follows from it, so the data sets have equal numbers of records. The
//     dominating pairs of Poisson lots, and thus ε, are those of adding or removing a record
//     (arXiv 2605.15648).
//   - Poisson and truncated lots with Population: a record is added or removed. The rate and the normaliser
//     follow from a constant, which is assumed not to come from the data.
func (s Sampling) Adjacency() ledger.Adjacency {
	switch {
	case s.Policy == sample.PolicyFixed || s.ReplaceOne:
		return ledger.ReplaceOne
	case s.Policy == sample.PolicyShuffle || s.Population == 0:
		return ledger.ZeroOut
	}
	return ledger.AddRemove
}

func (s *Sampling) policy() sample.Policy { return cmp.Or(s.Policy, sample.PolicyPoisson) }

// isPoisson reports whether records are drawn independently.
func (s *Sampling) isPoisson() bool {
	return s.policy() == sample.PolicyPoisson || s.Policy == sample.PolicyTruncated
}

// Check refuses lots that are impossible for a public number of records: that of the data, or Population.
func (s Sampling) Check(records int) error {
	policy := s.policy()
	lot, rate, population := setting.With("Sampling.Lot", s.Lot), setting.With("Sampling.Rate", s.Rate), setting.With("Sampling.Population", s.Population)
	poisson, truncated := setting.With("Sampling.Policy", "poisson or truncated"), setting.With("Sampling.Policy", sample.PolicyTruncated)
	switch {
	case policy != sample.PolicyFixed && policy != sample.PolicyShuffle && !s.isPoisson():
		return setting.Errorf("Sampling.Policy", "%v is unknown: use %s, %s, %s or %s", setting.With("Sampling.Policy", policy),
			sample.PolicyPoisson, sample.PolicyTruncated, sample.PolicyFixed, sample.PolicyShuffle)
	case s.Population < 0 || s.Population > math.MaxInt32:
		return setting.Errorf("Sampling.Population", "%v: give the number of records, from 1 to %d; leave it out where the number of records is public", population, math.MaxInt32)
	case s.Population > 0 && !s.isPoisson():
		return setting.Errorf("Sampling.Population", "%v requires %v: with %v the size of a lot makes the number of records public; drop one of them", population, poisson, setting.With("Sampling.Policy", policy))
	case s.MaxLot < 0:
		return setting.Errorf("Sampling.MaxLot", "%v: give at least 1; leave it out for the default", setting.With("Sampling.MaxLot", s.MaxLot))
	case s.MaxLot > 0 && policy != sample.PolicyTruncated:
		return setting.Errorf("Sampling.MaxLot", "%v requires %v: lots of %v have no largest size; drop one of them", setting.Named("Sampling.MaxLot"), truncated, setting.With("Sampling.Policy", policy))
	case s.ConstantWork && policy != sample.PolicyTruncated:
		return setting.Errorf("Sampling.ConstantWork", "%v requires %v: lots of %v have no largest size; drop one of them", setting.Named("Sampling.ConstantWork"), truncated, setting.With("Sampling.Policy", policy))
	case s.Lot == 0 && s.Rate == 0:
		return setting.Errorf("Sampling.Lot", "no lot is given: set %v or %v", setting.Named("Sampling.Lot"), setting.Named("Sampling.Rate"))
	case s.Lot != 0 && s.Rate != 0:
		return setting.Errorf("Sampling.Lot", "%v and %v exclude each other: drop one of them", lot, rate)
	case s.Lot < 0 || s.Lot > records:
		return setting.Errorf("Sampling.Lot", "%v: give a number from 1 to %d, the number of records", lot, records)
	case s.Lot == 0 && !(s.Rate > 0 && s.Rate <= 1):
		return setting.Errorf("Sampling.Rate", "%v: give a probability above 0 and at most 1", rate)
	case policy == sample.PolicyTruncated && (s.Lot == records || s.Rate == 1):
		return setting.Errorf("Sampling.Policy", "%v requires a rate below 1, and this run uses every record in each lot: use %v, or a smaller %v or %v",
			truncated, setting.With("Sampling.Policy", sample.PolicyFixed), setting.Named("Sampling.Lot"), setting.Named("Sampling.Rate"))
	}
	return nil
}

// maxLot returns the largest number of records in a truncated lot.
func (s *Sampling) maxLot(records int) int {
	if s.MaxLot > 0 {
		return s.MaxLot
	}
	_, rate := s.lotAndRate(records)
	return accountant.DefaultMaxLot(rate, records)
}

// leastMicrobatches returns the number of microbatches of the given size that every lot has:
// with constant work as many as the largest lot needs.
func (s *Sampling) leastMicrobatches(e sample.Event, size int) int {
	if !s.ConstantWork {
		return 0
	}
	return (e.LotSize + size - 1) / size
}

// lotAndRate returns the expected lot size and the sampling rate for a number of records, of
// which one is set.
func (s *Sampling) lotAndRate(records int) (lot int, rate float64) {
	if s.Lot == 0 {
		return max(1, int(math.Round(s.Rate*float64(records)))), s.Rate
	}
	return s.Lot, float64(s.Lot) / float64(records)
}

// newSampler returns the sampler for a number of records, of which this number is public. No error
// depends on the number of records where it is private.
func (s *Sampling) newSampler(public, records int, source *noise.Source) (sample.Sampler, error) {
	if err := s.Check(public); err != nil {
		return nil, err
	}
	lot, rate := s.lotAndRate(public)
	switch s.Policy {
	case sample.PolicyPoisson:
		return sample.NewPoissonOf(public, rate, records, source)
	case sample.PolicyTruncated:
		return sample.NewTruncated(public, rate, s.maxLot(public), records, source)
	case sample.PolicyFixed:
		return sample.NewFixed(lot, records, source)
	}
	return sample.NewShuffle(lot, records, source)
}
