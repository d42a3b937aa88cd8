package accountant

import (
	"math"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
	"github.com/dptrain/dptrain/accountant/internal/rdp"
	"github.com/dptrain/dptrain/accountant/ledger"
)

// Filter is a privacy filter: it enforces a budget when the parameters of a lot may depend
// on what earlier lots released, as with adaptive noise or early stopping on a private
// metric.
//
// All admitted lots together satisfy (ε, δ)-differential privacy, however they were chosen.
// The Rényi divergences of one order add up even then, provided that the order is fixed in
// advance and their sum stays within a bound fixed in advance (Feldman and Zrnic 2021, "Individual Privacy Accounting via a Rényi
// Filter", theorem 4.3; Lécuyer 2021, theorem 1).
type Filter struct {
	order, budget, spent float64
	adjacency            ledger.Adjacency
}

// NewFilter returns a filter for (epsilon, delta). The Rényi order decides only how many
// lots fit and must not depend on the data. A good choice is the Order that the rdp
// accountant returns for the expected run.
func NewFilter(epsilon, delta, order float64, adjacency ledger.Adjacency) (*Filter, error) {
	if err := checkTarget(epsilon, delta); err != nil {
		return nil, err
	}
	if !(order > 1) || math.IsInf(order, 0) {
		return nil, dpevent.InvalidArgument("order %v: must be a finite number above 1", order)
	}
	if adjacency == "" {
		adjacency = ledger.AddRemove
	}
	budget := epsilon - rdp.ToEpsilon(order, 0, delta)
	if !(budget > 0) {
		return nil, unreachable("order %v leaves no budget at epsilon %v and delta %s: no release at all already converts to epsilon %.6g; use a larger order", order, epsilon, formatDelta(delta), epsilon-budget)
	}
	return &Filter{order: order, budget: budget, adjacency: adjacency}, nil
}

// Admit spends count lots if they fit into the budget and reports whether they fit. Lots
// that do not fit must not be released.
func (f *Filter) Admit(lot ledger.Lot, count int) (bool, error) {
	events, err := eventsOf(lot, count, f.adjacency)
	if err != nil {
		return false, err
	}
	cost := rdp.TotalDivergence(events, f.order, rdp.Divergence)
	if !(f.spent+cost <= f.budget) {
		return false, nil
	}
	f.spent += cost
	return true, nil
}

// UsedFraction returns the spent part of the budget, from 0 to 1.
func (f *Filter) UsedFraction() float64 { return f.spent / f.budget }
