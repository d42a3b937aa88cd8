package ledger

import (
	"fmt"
	"math"
	"slices"
)

// MaxLots bounds the lots of one ledger, so that sums of counts stay exact in
// an int and in the float64 of any program that reads JSON.
const MaxLots = min(1<<53, math.MaxInt)

// sameLot says whether two lots spend the same. It does not allocate.
func sameLot(a, b Lot) bool {
	return a.Sampling == b.Sampling && slices.Equal(a.Queries, b.Queries)
}

func cloneLot(lot Lot) Lot {
	lot.Queries = slices.Clone(lot.Queries)
	return lot
}

// headerFault says in words what a ledger may not open with; "" is sound.
func headerFault(h Header) string {
	switch {
	case h.Version != formatVersion:
		return fmt.Sprintf("format version is %d, this program knows %d", h.Version, formatVersion)
	case h.Unit == "":
		return "unit is empty: say what a record is, such as example"
	case h.Records < 1:
		return fmt.Sprintf("records is %d: give the number of records, 1 or more", h.Records)
	}
	switch h.Adjacency {
	case AddRemove, ReplaceOne, ZeroOut:
		return ""
	}
	return fmt.Sprintf("adjacency %q is none of %s, %s, %s", h.Adjacency, AddRemove, ReplaceOne, ZeroOut)
}

// lotFault says in words why a lot cannot be accounted; "" is sound.
func lotFault(lot Lot) string {
	if why := samplingFault(lot.Sampling); why != "" {
		return why
	}
	if len(lot.Queries) == 0 {
		return "a lot without queries releases nothing: leave it out"
	}
	for i, q := range lot.Queries {
		switch q.Mechanism {
		case Gaussian, DiscreteGaussian, Laplace:
		default:
			return fmt.Sprintf("query %d: mechanism %q is none of %s, %s, %s", i+1, q.Mechanism, Gaussian, DiscreteGaussian, Laplace)
		}
		if !positive(q.Sensitivity) {
			return fmt.Sprintf("query %d: sensitivity %g must be positive and finite", i+1, q.Sensitivity)
		}
		if !positive(q.Noise) {
			return fmt.Sprintf("query %d: noise %g must be positive and finite", i+1, q.Noise)
		}
	}
	return ""
}

func samplingFault(s Sampling) string {
	if s.Records < 0 {
		return fmt.Sprintf("sampling: records %d is negative", s.Records)
	}
	switch s.Policy {
	case Poisson:
		if !(s.Rate > 0 && s.Rate <= 1) {
			return fmt.Sprintf("sampling: rate %g is outside (0, 1]", s.Rate)
		}
		if s.LotSize != 0 {
			return "sampling: poisson has a rate, not a lot size"
		}
	case FixedSize, Shuffle:
		if s.LotSize < 1 || s.LotSize > s.Records {
			return fmt.Sprintf("sampling: a lot of %d from %d records is impossible", s.LotSize, s.Records)
		}
		if s.Rate != 0 {
			return fmt.Sprintf("sampling: %s has a lot size, not a rate", s.Policy)
		}
	case FullBatch:
		if s.Rate != 0 || s.LotSize != 0 {
			return "sampling: none takes every record, it has neither rate nor lot size"
		}
	default:
		return fmt.Sprintf("sampling: policy %q is none of %s, %s, %s, %s", s.Policy, Poisson, FixedSize, Shuffle, FullBatch)
	}
	return ""
}

func positive(x float64) bool { return x > 0 && x <= math.MaxFloat64 }
