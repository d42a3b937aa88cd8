package accountant

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/accountant/ledger"
)

// spending is a history as the accountants see it.
type spending struct {
	events    []counted
	adjacency ledger.Adjacency
	proven    bool // lots of a fixed size by the symmetric curve: see fixed.go
	shuffled  bool // some lots were a shuffled pass and got no amplification
	note      string
	answered  map[pldQuestion]Guarantee
}

// unsampled tells that no event is amplified by sampling.
func (s spending) unsampled() bool {
	return !slices.ContainsFunc(s.events, func(e counted) bool { return e.sampled() })
}

// pureGaussian tells that every event is a Gaussian.
func (s spending) pureGaussian() bool {
	return !slices.ContainsFunc(s.events, func(e counted) bool { return !e.pureGaussian() })
}

// spend reads a history. The adjacency of the result is the header's (add or
// remove one, if it says none), made the one that holds for the weakest lot:
//
//   - a fixed-size lot without replacement is accounted under replace-one, as the
//     size of the data is public: every sensitivity counts twice;
//   - shuffled passes are accounted under zero-out: one unsampled mechanism a
//     pass, whose noise is the least of that pass.
func spend(h ledger.History) (spending, error) {
	s := spending{adjacency: h.Header.Adjacency, answered: map[pldQuestion]Guarantee{}}
	switch s.adjacency {
	case "":
		s.adjacency = ledger.AddRemove
	case ledger.AddRemove, ledger.ReplaceOne, ledger.ZeroOut:
	default:
		return s, badArgument("adjacency %q is unknown: use %s, %s or %s", s.adjacency, ledger.AddRemove, ledger.ReplaceOne, ledger.ZeroOut)
	}
	if err := checkSpent(h.Lots); err != nil {
		return s, err
	}
	fixed := false
	for _, run := range h.Lots {
		fixed = fixed || run.Lot.Sampling.Policy == ledger.FixedSize && run.Lot.Sampling.LotSize < run.Lot.Sampling.Records
		s.shuffled = s.shuffled || run.Lot.Sampling.Policy == ledger.Shuffle
	}
	switch {
	case fixed && s.adjacency != ledger.ReplaceOne:
		s.adjacency = ledger.ReplaceOne
		s.note = fixedNote
	case s.shuffled && s.adjacency == ledger.AddRemove:
		s.adjacency = ledger.ZeroOut
	}
	scale := 1.0
	if s.adjacency == ledger.ReplaceOne {
		scale = 2
	}
	all := tally{make([]counted, 0, len(h.Lots)), make(map[eventKey]int, len(h.Lots))}
	var pass shufflePass
	for _, run := range h.Lots {
		e := eventOf(run.Lot, scale)
		e.replace = s.adjacency == ledger.ReplaceOne
		e.fixed = run.Lot.Sampling.Policy == ledger.FixedSize && e.sampled()
		if run.Lot.Sampling.Policy == ledger.Shuffle {
			pass.lots(e, run, all.add)
		} else {
			all.add(e, run.Count)
		}
	}
	pass.end(all.add)
	s.events = all.events
	return s, nil
}

// checkSpent refuses lots that are none, and more of them than can be counted.
func checkSpent(spent []ledger.RepeatedLot) error {
	left := ledger.MaxLots
	for i, run := range spent {
		if err := checkLot(run); err != nil {
			return fmt.Errorf("entry %d: %w", i+1, err)
		}
		each := max(1, len(run.Lot.Queries)) // equal ones count together
		if run.Count > left/each {           // counts are added up: they must not wrap around
			return badArgument("entry %d: a run of %d lots: with those before it there are more than 2^53 lots, or queries", i+1, run.Count)
		}
		left -= run.Count * each
	}
	return nil
}

func checkLot(run ledger.RepeatedLot) error {
	if run.Count < 0 {
		return badArgument("a run of %d lots: the count cannot be negative", run.Count)
	}
	s := run.Lot.Sampling
	switch s.Policy {
	case ledger.Poisson:
		if !(s.Rate > 0 && s.Rate <= 1) {
			return badArgument("sampling rate %v: must be above 0 and at most 1", s.Rate)
		}
	case ledger.FixedSize, ledger.Shuffle:
		if s.Records < 1 || s.LotSize < 1 || s.LotSize > s.Records {
			return badArgument("%s lots of %d from %d records: the lot must be between 1 and the number of records", s.Policy, s.LotSize, s.Records)
		}
	case ledger.FullBatch:
	default:
		names := []string{string(ledger.Poisson), string(ledger.FixedSize), string(ledger.Shuffle), string(ledger.FullBatch)}
		return badArgument("sampling %q is unknown: use one of %s", s.Policy, strings.Join(names, ", "))
	}
	for _, q := range run.Lot.Queries {
		if !(q.Sensitivity >= 0) || math.IsInf(q.Sensitivity, 0) {
			return badArgument("group %q: sensitivity %v must be a finite number, 0 or more", q.Group, q.Sensitivity)
		}
		if !(q.Noise > 0) || math.IsInf(q.Noise, 0) {
			return badArgument("group %q: noise %v must be a finite number above 0", q.Group, q.Noise)
		}
		switch q.Mechanism {
		case ledger.Gaussian, ledger.Laplace, ledger.DiscreteGaussian:
		default:
			return badArgument("group %q: mechanism %q is unknown: use %s, %s or %s", q.Group, q.Mechanism, ledger.Gaussian, ledger.DiscreteGaussian, ledger.Laplace)
		}
	}
	return nil
}
