package release

import (
	"math"
	"slices"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/internal/device/plan"
)

// CostOfLot returns an entry that costs as much as a lot. Bounds do not change the cost: the
// noise is proportional to them.
func (m *Mechanism) CostOfLot(lot int) ledger.Lot {
	return m.PlannedLot(lot, func(int) float64 { return 1 })
}

// PlannedLot returns the entry of a lot if its groups have these sensitivities.
func (m *Mechanism) PlannedLot(lot int, sensitivity func(group int) float64) ledger.Lot {
	entry := m.Entry
	entry.Queries = slices.Clone(entry.Queries)
	m.setStatistics(&entry, lot)
	// checkLots has checked the multipliers of every lot.
	m.noiseMultipliers(lot, func(g int, z float64) {
		s := sensitivity(g) * m.perBound
		m.setQuery(&entry.Queries[m.queries[g]], s, z)
	})
	return entry
}

// EqualLots returns how many lots from the given one on certainly have equal entries, apart from
// their bounds.
func (m *Mechanism) EqualLots(lot int) int {
	if m.Noise.IsScheduled() {
		return 1
	}
	return min(m.Steps, m.Releases.EqualLots(lot))
}

// WithoutStatistics returns an entry of a lot with the queries that every lot has.
func (m *Mechanism) WithoutStatistics(entry ledger.Lot) ledger.Lot {
	entry.Queries = entry.Queries[:m.always]
	return entry
}

// PlannedQueries returns queries that cost as much as a lot: every group has the bound 1, and the groups
// without noise of their own and the adaptive counts are one query, which costs as much as they do.
// lattice is the largest number of lattice steps in a bound.
func (s *Settings) PlannedQueries(lot int, lattice int64) (queries []ledger.Query) {
	shared := s.IsShared()
	switch {
	case s.Laplace:
		queries = append(queries, laplaceQuery("gradient", 1, s.Shared(lot)))
	case shared:
		queries = append(queries, s.plannedQuery("gradient", s.Shared(lot), lattice))
	}
	for i, g := range s.Groups {
		if z, own := s.OfGroup(g.Name, lot); own {
			queries = append(queries, s.plannedQuery(g.Name, z, lattice))
		}
		if !shared { // otherwise the first query contains the count
			queries = s.Releases[i:i+1].AppendQueries(queries, lot)
		}
	}
	return s.Releases[len(s.Groups):].AppendQueries(queries, lot)
}

// plannedQuery returns the query of gradients with the bound 1. A run refuses noise for which there is
// no lattice; the plan then states the cost alone.
func (s *Settings) plannedQuery(group string, z float64, lattice int64) ledger.Query {
	records := s.Event.Records
	if lattice == plan.Bound {
		records = math.MaxInt32 // a gradient has this lattice for any number of records
	}
	q := s.Arithmetic.Query(group, 1, z, lattice, records)
	if (ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.FullBatch}, Queries: []ledger.Query{q}}).Validate() != nil {
		q = ledger.Query{Group: group, Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: z}
	}
	return q
}

// LotsDiffer reports whether lots have different noise or different statistics.
func (s *Settings) LotsDiffer() bool { return s.Noise.IsScheduled() || s.Releases.LotsDiffer() }
