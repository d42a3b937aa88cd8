package accountant

import (
	"math"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/internal/dpevent"
	"github.com/dptrain/dptrain/internal/rdp"
)

// Filter guards a budget where the parameters of a lot may be chosen after seeing
// what earlier lots released: adaptive noise, early stopping on a private metric.
//
// It promises (ε, δ)-differential privacy of everything that it admitted, however
// the lots were chosen: the Rényi divergences of one order, fixed beforehand, may be
// added up even then, as long as their sum stays within a bound that was fixed
// beforehand (Feldman and Zrnic 2021, "Individual Privacy Accounting via a Rényi
// Filter", theorem 4.3; Lécuyer 2021, theorem 1).
type Filter struct {
	order, budget, spent float64
	adjacency            ledger.Adjacency
}

// NewFilter opens a filter for (epsilon, delta). The order decides only how much
// fits, and must not depend on the data: take the Order that rdp answers for the
// run that is expected.
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
		return nil, unreachable("order %v leaves nothing of epsilon %v at delta %s: even no release converts to %.6g; use a larger order", order, epsilon, formatDelta(delta), epsilon-budget)
	}
	return &Filter{order: order, budget: budget, adjacency: adjacency}, nil
}

// Admit spends count lots if they fit into the budget, and says whether they did.
// What does not fit must not be released.
func (f *Filter) Admit(lot ledger.Lot, count int) (bool, error) {
	s, err := dpevent.FromHistory(ledger.History{Header: ledger.Header{Adjacency: f.adjacency}, Lots: []ledger.RepeatedLot{{Lot: lot, Count: count}}})
	if err != nil {
		return false, err
	}
	if s.Adjacency != f.adjacency {
		return false, dpevent.InvalidArgument("%s lots are accounted under %s adjacency, and this filter is under %s: open one under %s for all lots", lot.Sampling.Policy, s.Adjacency, f.adjacency, s.Adjacency)
	}
	cost := rdp.TotalDivergence(s.Events, f.order, rdp.Divergence)
	if !(f.spent+cost <= f.budget) {
		return false, nil
	}
	f.spent += cost
	return true, nil
}

// UsedFraction is the part of the budget that is spent, from 0 to 1.
func (f *Filter) UsedFraction() float64 { return f.spent / f.budget }
