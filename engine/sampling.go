package engine

import (
	"cmp"
	"fmt"
	"math"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/sample"
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
	return s.Policy == sample.PolicyPoisson || s.Policy == sample.PolicyTruncated
}

func (s *Sampling) checkTruncation() error {
	switch {
	case s.MaxLot < 0:
		return fmt.Errorf("lots of at most %d records: give at least 1, or 0 for the default", s.MaxLot)
	case s.MaxLot > 0 && s.Policy != sample.PolicyTruncated:
		return fmt.Errorf("a largest lot (%d records) with %s lots: use %s sampling, or drop the limit", s.MaxLot, s.Policy, sample.PolicyTruncated)
	case s.ConstantWork && s.Policy != sample.PolicyTruncated:
		return fmt.Errorf("constant work with %s lots: only %s lots have a largest size; use them, or drop constant work", s.Policy, sample.PolicyTruncated)
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

func (s *Sampling) checkPopulation() error {
	switch {
	case s.Population < 0:
		return fmt.Errorf("a population of %d records: give at least 1, or 0 where the number of records is public", s.Population)
	case s.Population > 0 && !s.isPoisson():
		return fmt.Errorf("a population of %d records with %s lots: their size makes the number of records public; use %s sampling, or drop the population", s.Population, s.Policy, sample.PolicyPoisson)
	}
	return nil
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
	switch q := s; {
	case q.Rate < 0 || q.Rate > 1 || math.IsNaN(q.Rate):
		return nil, fmt.Errorf("sampling rate %v: give a probability between 0 and 1", q.Rate)
	case q.Lot < 0 || q.Lot > public:
		return nil, fmt.Errorf("a lot of %d records from %d: give between 1 and %d", q.Lot, public, public)
	case q.Lot == 0 && q.Rate == 0:
		return nil, fmt.Errorf("neither a lot nor a sampling rate is set: set one of Sampling.Lot and Sampling.Rate")
	case q.Lot != 0 && q.Rate != 0:
		return nil, fmt.Errorf("both a lot (%d) and a sampling rate (%v) are set: set one of Sampling.Lot and Sampling.Rate", q.Lot, q.Rate)
	}
	lot, rate := s.lotAndRate(public)
	switch s.Policy {
	case sample.PolicyPoisson:
		return sample.NewPoissonOf(public, rate, records, source)
	case sample.PolicyTruncated:
		return sample.NewTruncated(public, rate, s.maxLot(public), records, source)
	case sample.PolicyFixed:
		return sample.NewFixed(lot, records, source)
	case sample.PolicyShuffle:
		return sample.NewShuffle(lot, records, source)
	}
	return nil, fmt.Errorf("sampling policy %q is unknown: use %s, %s, %s or %s", s.Policy, sample.PolicyPoisson, sample.PolicyTruncated, sample.PolicyFixed, sample.PolicyShuffle)
}
