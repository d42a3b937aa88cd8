package accountant

import (
	"slices"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/internal/dpevent"
	"github.com/dptrain/dptrain/internal/solve"
)

// Meter says what a run of equal lots has spent as it goes.
type Meter struct {
	past       ledger.History
	lot        ledger.Lot
	delta      float64
	accountant string
	lots       int
	epsilon    float64
}

// NewMeter prepares for lots like lot, after past (an empty History for a new
// run), at delta.
func NewMeter(past ledger.History, lot ledger.Lot, delta float64, accountant string) (*Meter, error) {
	m := &Meter{past: past, lot: lot, delta: delta, accountant: accountant, lots: -1}
	_, err := m.Epsilon(1)
	return m, err
}

// Epsilon is what is spent after n lots: the Bound that a budget is held to.
func (m *Meter) Epsilon(n int) (float64, error) {
	if n == m.lots {
		return m.epsilon, nil
	}
	h := m.past
	h.Lots = append(slices.Clip(h.Lots), ledger.RepeatedLot{Lot: m.lot, Count: n})
	bound, err := Compose(h).EpsilonUpperBound(m.delta, m.accountant)
	if err != nil {
		return 0, err
	}
	m.lots, m.epsilon = n, bound
	return bound, nil
}

// MaxLots is the largest number of lots that spends at most epsilon: 0 if the first
// lot would spend more. It is a number fixed before the run, so stopping there is
// no choice that depends on the data. The gdp accountant is refused: it may say
// less than was spent.
func (m *Meter) MaxLots(epsilon float64) (int, error) {
	if err := checkTarget(epsilon, m.delta); err != nil {
		return 0, err
	}
	if m.accountant == "gdp" {
		return 0, dpevent.InvalidArgument("the gdp accountant is an approximation and cannot decide when to stop: use pld or rdp, or give the noise (--noise) and no budget")
	}
	lots, _, err := solve.LargestInt(maxSteps, m.Epsilon, epsilon)
	return lots, err
}
