package accountant

import (
	"slices"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
	"github.com/dptrain/dptrain/accountant/internal/numerics"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/internal/setting"
)

// Meter computes the cost of a run of equal lots while it runs.
type Meter struct {
	past       ledger.History
	lot        ledger.Lot
	delta      float64
	accountant string
	lots       int
	epsilon    float64
}

// NewMeter returns a meter at delta for lots equal to lot that follow past, which is an
// empty History for a new run.
func NewMeter(past ledger.History, lot ledger.Lot, delta float64, accountant string) (*Meter, error) {
	m := &Meter{past: past, lot: lot, delta: delta, accountant: accountant, lots: -1}
	_, err := m.Epsilon(1)
	return m, err
}

// Epsilon returns the ε after n lots.
func (m *Meter) Epsilon(n int) (float64, error) {
	if n == m.lots {
		return m.epsilon, nil
	}
	h := m.past
	h.Lots = append(slices.Clip(h.Lots), ledger.RepeatedLot{Lot: m.lot, Count: n})
	bound, err := Compose(h).ProvenEpsilon(m.delta, m.accountant)
	if err != nil {
		return 0, err
	}
	m.lots, m.epsilon = n, bound
	return bound, nil
}

// MaxLots returns the largest number of lots that spends at most epsilon, 0 if the first lot
// spends more. The number is fixed before the run, so stopping there does not depend on the
// data. The gdp accountant is not accepted, because it may underestimate ε.
func (m *Meter) MaxLots(epsilon float64) (int, error) {
	if err := checkTarget(epsilon, m.delta); err != nil {
		return 0, err
	}
	if m.accountant == "gdp" {
		return 0, dpevent.InvalidArgument("%w", setting.Errorf("Budget.Accountant",
			"the gdp accountant is an approximation and cannot decide when to stop: use pld or rdp, or give the noise (%v) and no budget", setting.Named("Mechanism.NoiseMultiplier")))
	}
	lots, _, err := numerics.LargestInt(maxSteps, m.Epsilon, epsilon)
	return lots, err
}
