package release

import (
	"math"
	"slices"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/noise"
)

// When is when a run releases an entry of its list.
type When int

const (
	Never      When = iota // nothing is released; the entry keeps a number for those after it
	WithLots               // with the lots Every, 2·Every, …, counted from 1
	BeforeLots             // once, before the first lot
	AfterLots              // once, after the lots
)

// Use is what a run does with the result of an entry.
type Use int

const (
	MoveBound             Use = iota // it moves the clip bound of the group with the entry's number
	ReportMean                       // divided by the expected lot, it is a mean that the observer of the run gets
	MoveRunningStatistics            // as ReportMean, and it moves the running statistics of batch normalization
	ScoreWeights                     // divided by Records, it is the score of the weights on held-out records
	ProjectFeatures                  // its principal directions are the first layer
)

// Entry describes a sum over records that a run releases beside gradients.
type Entry struct {
	Query   ledger.Query // name, sensitivity and noise
	Size    int          // numbers of the sum; 0: a matrix of second moments
	When    When
	Every   int // with WithLots
	Records int // in the sum, if it is not of a lot: all of them take part
	Use     Use

	// With a Scale above 0, the sum is a part of a group of parameters: a record's vector is divided by
	// Scale, clipped with the gradients of the group, and multiplied again, and so is the noise (McMahan et
	// al. 2019, section 3.3). The query of the group covers it, and Query only describes it.
	Group int
	Scale float64
}

// IsJoint reports whether the sum is a part of a group of parameters.
func (e *Entry) IsJoint() bool { return e.Scale > 0 }

// IsDue reports whether a lot, counted from 0, releases the entry.
func (e *Entry) IsDue(lot int) bool { return e.When == WithLots && (lot+1)%e.Every == 0 }

// Lot returns the ledger's entry of a release before or after the lots.
func (e *Entry) Lot() ledger.Lot {
	return ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.FullBatch, Records: e.Records}, Queries: []ledger.Query{e.Query}}
}

// List is everything that a run releases beside gradients. It begins with one entry for each group of
// parameters, which is the count behind its bound. What the ledger states, what is planned and the
// streams of noise follow from the list: entry i has the stream of noise i after those of the parameters.
type List []Entry

// AppendQueries appends the queries of the entries that a lot releases.
func (l List) AppendQueries(queries []ledger.Query, lot int) []ledger.Query {
	for i := range l {
		if l[i].IsDue(lot) && !l[i].IsJoint() {
			queries = append(queries, l[i].Query)
		}
	}
	return queries
}

// EqualLots returns how many lots from the given one on all release the same entries.
func (l List) EqualLots(lot int) int {
	equal := math.MaxInt
	for i := range l {
		switch e := &l[i]; {
		case e.When != WithLots || e.Every == 1 || e.IsJoint():
		case e.IsDue(lot):
			return 1
		default:
			equal = min(equal, e.Every-1-lot%e.Every)
		}
	}
	return equal
}

// LotsDiffer reports whether some lots release other entries than others.
func (l List) LotsDiffer() bool {
	return slices.ContainsFunc(l, func(e Entry) bool { return e.When == WithLots && e.Every > 1 && !e.IsJoint() })
}

// Find returns the number of the entry with this use; -1: the run releases none.
func (l List) Find(use Use) int {
	return slices.IndexFunc(l, func(e Entry) bool { return e.When != Never && e.Use == use })
}

// AppendOnce appends the releases before the lots, then those after them, to the lots of a history.
func (l List) AppendOnce(lots []ledger.RepeatedLot) []ledger.RepeatedLot {
	lots = slices.Clip(lots)
	for _, when := range []When{BeforeLots, AfterLots} {
		for i := range l {
			if l[i].When == when {
				lots = append(lots, ledger.RepeatedLot{Lot: l[i].Lot(), Count: 1})
			}
		}
	}
	return lots
}

// Check returns an error where integers of 64 bits cannot represent a sum and its noise. The lots are of
// this number of records.
func (l List) Check(a Arithmetic, records int) error {
	for i := range l {
		of := records
		switch l[i].When {
		case Never:
			continue
		case WithLots:
			if l[i].IsJoint() { // its integers are at most those of the group
				continue
			}
		case BeforeLots, AfterLots:
			of = l[i].Records
		}
		if err := a.Check(l[i].Query, of); err != nil {
			return err
		}
	}
	return nil
}

// Sums are the sums of a lot for the entries of a list.
type Sums struct {
	List
	Source  *noise.Source
	first   int         // the number of the first entry's stream of noise
	sums    []*Sum      // nil where lots do not release the entry
	results [][]float64 // the last releases
}

// NewSums returns sums of zeros. The streams of noise before those of the list belong to this number of
// parameters.
func NewSums(list List, source *noise.Source, parameters int) *Sums {
	s := &Sums{List: list, Source: source, first: parameters,
		sums: make([]*Sum, len(list)), results: make([][]float64, len(list))}
	for i := range list {
		if e := &list[i]; e.When == WithLots {
			s.sums[i], s.results[i] = NewSum(e.Query, e.Size), make([]float64, e.Size)
		}
	}
	return s
}

// SetJoint gives the sum of a joint entry the query of its group.
func (s *Sums) SetJoint(i int, group ledger.Query) {
	e := &s.List[i]
	e.Query.Sensitivity, e.Query.Noise = group.Sensitivity*e.Scale, group.Noise*e.Scale
	s.sums[i].setQuery(group)
	s.sums[i].scale = e.Scale
}

// Sum returns the sum of an entry.
func (s *Sums) Sum(i int) *Sum { return s.sums[i] }

// Result returns the last release of an entry, and zeros before the first. The next release overwrites it.
func (s *Sums) Result(i int) []float64 { return s.results[i] }

// Release adds noise to the sum of an entry, which becomes its result. The ledger on disk must contain the
// query.
func (s *Sums) Release(i, lot int) ([]float64, error) {
	if err := s.sums[i].Release(s.results[i], s.Source, s.Stream(i, lot)); err != nil {
		return nil, err
	}
	return s.results[i], nil
}

// Stream returns the stream of noise of an entry for a release after a number of lots.
func (s *Sums) Stream(i, lot int) noise.Stream { return stream(lot, s.first+i) }

// stream returns the stream of noise of a release after a number of lots. The parameters have the first
// numbers. Groups of vectors that the host adds have them in place of the parameters, of which there are
// at least as many.
func stream(lot, number int) noise.Stream {
	return noise.Stream{Purpose: noise.Release, Lot: uint64(lot), Vector: uint32(number)}
}
