package dpevent

import (
	"slices"

	"github.com/dptrain/dptrain/accountant/ledger"
)

// Sequence is a ledger's history as privacy events.
type Sequence struct {
	Events    []RepeatedEvent
	Adjacency ledger.Adjacency
	Shuffled  bool   // some lots are shuffled passes, which are not amplified by sampling
	Note      string // why Adjacency is not that of the ledger's header, for the user
}

// AnySubsampled reports whether some event is amplified by sampling.
func AnySubsampled(events []RepeatedEvent) bool {
	return slices.ContainsFunc(events, func(e RepeatedEvent) bool { return e.Subsampled() })
}

// AllGaussian reports whether every event has Gaussian noise alone.
func AllGaussian(events []RepeatedEvent) bool {
	return !slices.ContainsFunc(events, func(e RepeatedEvent) bool { return !e.GaussianOnly() })
}

// AnyFixedSize reports whether some event is a lot of a fixed size.
func AnyFixedSize(events []RepeatedEvent) bool {
	return slices.ContainsFunc(events, func(e RepeatedEvent) bool { return e.FixedSize })
}

// AnyTruncated reports whether some event has truncated lots.
func AnyTruncated(events []RepeatedEvent) bool {
	return slices.ContainsFunc(events, func(e RepeatedEvent) bool { return e.Truncation.Probability > 0 })
}

// EquivalentGaussian returns the shift of the one Gaussian mechanism to which unsampled
// Gaussian events compose, rounded up, and whether the events are of this kind.
func EquivalentGaussian(events []RepeatedEvent) (shift float64, ok bool) {
	if AnySubsampled(events) || !AllGaussian(events) {
		return 0, false
	}
	if len(events) == 1 && events[0].Count == 1 {
		return events[0].GaussianShift, true
	}
	squares := 0.0
	for _, e := range events {
		squares = AddUp(squares, MultiplyUp(float64(e.Count), MultiplyUp(e.GaussianShift, e.GaussianShift)))
	}
	return SqrtUp(squares), true
}

const fixedNote = "Lots of a fixed size are accounted under replace-one adjacency, because they make the number of records public."

// FromHistory converts a history. The adjacency of the result is the header's
// (add-or-remove-one if the header has none), changed where a lot needs it:
//
//   - A fixed-size lot without replacement makes the number of records public, so it is
//     accounted under replace-one: every sensitivity counts twice.
//   - Shuffled passes are accounted under zero-out: each pass is one unsampled mechanism
//     whose noise is the least of that pass.
func FromHistory(h ledger.History) (Sequence, error) {
	s := Sequence{Adjacency: h.Header.Adjacency}
	switch s.Adjacency {
	case "":
		s.Adjacency = ledger.AddRemove
	case ledger.AddRemove, ledger.ReplaceOne, ledger.ZeroOut:
	default:
		return s, InvalidArgument("adjacency %q is unknown: use %s, %s or %s", s.Adjacency, ledger.AddRemove, ledger.ReplaceOne, ledger.ZeroOut)
	}
	if err := checkLots(h.Lots); err != nil {
		return s, err
	}
	fixed := false
	for _, run := range h.Lots {
		fixed = fixed || run.Lot.Sampling.Policy == ledger.FixedSize && run.Lot.Sampling.LotSize < run.Lot.Sampling.Records
		s.Shuffled = s.Shuffled || run.Lot.Sampling.Policy == ledger.Shuffle
	}
	switch {
	case fixed && s.Adjacency != ledger.ReplaceOne:
		s.Adjacency = ledger.ReplaceOne
		s.Note = fixedNote
	case s.Shuffled && s.Adjacency == ledger.AddRemove:
		s.Adjacency = ledger.ZeroOut
	}
	all := eventCounter{make([]RepeatedEvent, 0, len(h.Lots)), make(map[roundedEventKey]int, len(h.Lots))}
	var pass shufflePass
	for _, run := range h.Lots {
		e := newEvent(run.Lot, s.Adjacency)
		if run.Lot.Sampling.Policy == ledger.Shuffle {
			pass.add(e, run, all.add)
		} else {
			all.add(e, run.Count)
		}
	}
	pass.flush(all.add)
	s.Events = all.events
	return s, nil
}

// checkLots returns an error if a lot is invalid or there are more lots than can be counted.
func checkLots(lots []ledger.RepeatedLot) error {
	free := ledger.MaxLots
	for i, r := range lots {
		if r.Count < 0 {
			return InvalidArgument("entry %d: the count of lots, %d, is negative", i+1, r.Count)
		}
		if err := r.Lot.Validate(); err != nil {
			return InvalidArgument("entry %d: %v", i+1, err)
		}
		each := max(1, len(r.Lot.Queries)) // equal queries of a lot are counted together
		if r.Count > free/each {           // the sum of the counts must not overflow
			return InvalidArgument("entry %d: with its %d lots there are more than 2^53 lots or queries", i+1, r.Count)
		}
		free -= r.Count * each
	}
	return nil
}
