package engine

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
)

// ErrBudget is what an error unwraps to where StopAtEpsilon allows not one lot, or where
// more was spent before.
var ErrBudget = errors.New("budget")

// meter says what the lots of a run cost: ε so far, now and then, and how many
// lots the budget allows. That number is fixed before the first of them, so that
// stopping there is no choice that depends on the data.
type meter struct {
	cost    func(n int) (float64, error) // ε that the budget is held to, after n lots of this process
	done    int
	allowed int // lots that may follow

	last    float64 // ε after counted lots
	counted int
	ahead   int // lots that counted was ahead by
	read    time.Time
	took    time.Duration
}

// newMeter starts from what the ledger held before this process.
func (r *Run) newMeter(past ledger.History) (*meter, error) {
	c := &r.config
	m := &meter{allowed: math.MaxInt}
	left := c.Steps - r.step
	if c.Mechanism.NoiseMultiplierAt == nil {
		equal, err := accountant.NewMeter(past, r.lotOf(0), c.Budget.Delta, c.Budget.Accountant)
		if err != nil {
			return nil, err
		}
		m.cost = equal.Epsilon
		if c.Budget.StopAtEpsilon > 0 {
			if m.allowed, err = equal.MaxLots(c.Budget.StopAtEpsilon); err != nil {
				return nil, err
			}
		}
	} else if err := r.meterOf(past, m, left); err != nil {
		return nil, err
	}
	if m.allowed == 0 && left > 0 && !r.done(past) {
		return nil, r.noRoom(m)
	}
	return m, nil
}

// noRoom says what a lot more would cost.
func (r *Run) noRoom(m *meter) error {
	one, err := m.cost(1)
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: the next lot would bring ε to %.4g, above %g; raise the noise or the budget", ErrBudget, one, r.config.Budget.StopAtEpsilon)
}

// done reports whether a resumed run has used its budget up and not passed it: it trains
// no further, and has weights that were paid for. A crash may have taken its last lots.
func (r *Run) done(past ledger.History) bool {
	if r.step == 0 {
		return false
	}
	a, err := accountant.Epsilon(past, r.config.Budget.Delta, r.config.Budget.Accountant)
	return err == nil && a.UpperBound() <= r.config.Budget.StopAtEpsilon
}

// meterOf is newMeter for lots of scheduled noise.
func (r *Run) meterOf(past ledger.History, m *meter, left int) error {
	c := &r.config
	m.cost = func(n int) (float64, error) {
		h := past
		h.Lots = slices.Clip(h.Lots)
		for i := range n {
			lot := r.lotOf(i)
			if k := len(h.Lots) - 1; k >= len(past.Lots) && slices.Equal(h.Lots[k].Lot.Queries, lot.Queries) {
				h.Lots[k].Count++
			} else {
				h.Lots = append(h.Lots, ledger.RepeatedLot{Lot: lot, Count: 1})
			}
		}
		a, err := accountant.Epsilon(h, c.Budget.Delta, c.Budget.Accountant)
		return a.UpperBound(), err
	}
	if c.Budget.StopAtEpsilon == 0 {
		_, err := m.cost(1)
		return err
	}
	if c.Budget.Accountant == "gdp" {
		return fmt.Errorf("the gdp accountant is an approximation and cannot decide when to stop: use pld or rdp, or give the noise (--noise) and no budget")
	}
	var failed error
	m.allowed = sort.Search(left, func(i int) bool {
		e, err := m.cost(i + 1)
		if err != nil {
			failed = err
		}
		return e > c.Budget.StopAtEpsilon
	})
	return failed
}

// lotOf is a lot that costs as much as the i-th from here on. Bounds cost nothing:
// their noise moves with them.
func (r *Run) lotOf(i int) ledger.Lot {
	m := &r.mechanism
	lot := m.lot
	lot.Queries = slices.Clone(lot.Queries)
	// checkLots found the multiplier of every lot to be good.
	z, _ := m.clipper.NoiseMultiplier(r.config.multiplier(r.began + i))
	for g, q := range m.queries {
		lot.Queries[q].Sensitivity, lot.Queries[q].Noise = 1, z*m.shares[g]
	}
	return lot
}

// shown is at least ε of the lots so far, of which left more follow. To spend about
// a hundredth of the time on it, it is computed ahead: for as many lots as may run
// until it is next worth the time, at the pace of the last ones.
func (m *meter) shown(left int) float64 {
	if m.done <= m.counted {
		return m.last
	}
	began := time.Now()
	ahead := 0
	if m.counted > 0 {
		pace := float64(m.done-m.counted+m.ahead) / began.Sub(m.read).Seconds()
		ahead = int(pace * max(100*m.took, 200*time.Millisecond).Seconds())
	}
	ahead = min(ahead, left, m.allowed)
	e, err := m.cost(m.done + ahead)
	if err != nil {
		return math.Inf(1)
	}
	m.last, m.counted, m.ahead = e, m.done+ahead, ahead
	m.read = time.Now()
	m.took = m.read.Sub(began)
	return e
}

// spend notes a lot that the ledger holds.
func (m *meter) spend() {
	m.done++
	m.allowed--
}
