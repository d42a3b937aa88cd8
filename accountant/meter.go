package accountant

import "slices"

// Meter says what a run of equal lots has spent as it goes.
type Meter struct {
	past       History
	lot        Lot
	delta      float64
	accountant string
	lots       int
	epsilon    float64
}

// NewMeter prepares for lots like lot, after past (an empty History for a new
// run), at delta.
func NewMeter(past History, lot Lot, delta float64, accountant string) (*Meter, error) {
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
	h.Spent = append(slices.Clip(h.Spent), Spent{m.lot, n})
	bound, err := Prepare(h).Bound(m.delta, m.accountant)
	if err != nil {
		return 0, err
	}
	m.lots, m.epsilon = n, bound
	return bound, nil
}

// Most is the largest number of lots that spends at most epsilon: 0 if the first
// lot would spend more. It is a number fixed before the run, so stopping there is
// no choice that depends on the data. The gdp accountant is refused: it may say
// less than was spent.
func (m *Meter) Most(epsilon float64) (int, error) {
	if err := checkTarget(epsilon, m.delta); err != nil {
		return 0, err
	}
	if m.accountant == "gdp" {
		return 0, badArgument("the gdp accountant is an approximation and cannot decide when to stop: use pld or rdp, or give the noise (--noise) and no budget")
	}
	lots, _, err := largest(mostSteps, m.Epsilon, epsilon)
	return lots, err
}
