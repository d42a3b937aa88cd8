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

// ErrBudget is wrapped by an error where Budget.StopAtEpsilon does not allow a single lot, or
// where more was spent before.
var ErrBudget = errors.New("budget")

// epsilonMeter computes the cost of a run's lots: now and then ε so far, and how many lots the
// budget allows. That number is fixed before the first lot, so that a stop there does not
// depend on the data.
type epsilonMeter struct {
	budget     Budget
	lotsDiffer bool                         // not all lots have the same noise and the same statistics
	cost       func(n int) (float64, error) // the ε that the budget limits, after n lots of this process
	done       int                          // lots of this process
	allowed    int                          // lots that may follow

	epsilon  float64 // after counted lots
	counted  int
	ahead    int // counted minus the lots that were done then
	computed time.Time
	duration time.Duration // of the last computation
}

// newEpsilonMeter returns a meter for the lots from first on, after a history that includes
// what the run releases later.
func newEpsilonMeter(c *Config, m *mechanism, past ledger.History, first int) (*epsilonMeter, error) {
	e := &epsilonMeter{budget: c.Budget, lotsDiffer: c.lotsDiffer(), allowed: math.MaxInt}
	left := c.Steps - first
	if e.lotsDiffer {
		if err := e.meterDifferentLots(past, left, func(i int) ledger.Lot { return m.costOfLot(first + i) }); err != nil {
			return nil, err
		}
	} else {
		equal, err := accountant.NewMeter(past, m.costOfLot(first), c.Budget.Delta, c.Budget.Accountant)
		if err != nil {
			return nil, err
		}
		e.cost = equal.Epsilon
		if e.hasBudget() {
			if e.allowed, err = equal.MaxLots(c.Budget.StopAtEpsilon); err != nil {
				return nil, err
			}
		}
	}
	if e.allowed == 0 && left > 0 && !(first > 0 && e.isExactlySpent(past)) {
		return nil, e.budgetError()
	}
	return e, nil
}

func (e *epsilonMeter) hasBudget() bool { return e.budget.StopAtEpsilon > 0 }

// budgetError states the cost of one more lot.
func (e *epsilonMeter) budgetError() error {
	one, err := e.cost(1)
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: the next lot would bring ε to %.4g, above %g; raise the noise or the budget", ErrBudget, one, e.budget.StopAtEpsilon)
}

// isExactlySpent reports whether a resumed run has used its budget up and not exceeded it. It
// trains no further, and its weights are paid for. A crash may have taken its last lots.
func (e *epsilonMeter) isExactlySpent(past ledger.History) bool {
	a, err := accountant.Epsilon(past, e.budget.Delta, e.budget.Accountant)
	return err == nil && a.Epsilon <= e.budget.StopAtEpsilon
}

// meterDifferentLots sets cost and allowed where lots differ.
func (e *epsilonMeter) meterDifferentLots(past ledger.History, left int, lotAt func(i int) ledger.Lot) error {
	e.cost = func(n int) (float64, error) {
		h := past
		h.Lots = slices.Clip(h.Lots)
		for i := range n {
			h.Lots = appendLot(h.Lots, len(past.Lots), lotAt(i))
		}
		a, err := accountant.Epsilon(h, e.budget.Delta, e.budget.Accountant)
		return a.Epsilon, err
	}
	if e.budget.StopAtEpsilon == 0 {
		_, err := e.cost(1)
		return err
	}
	if e.budget.Accountant == "gdp" {
		return fmt.Errorf("the gdp accountant is an approximation and cannot decide when to stop; use pld or rdp, or give the noise (--noise) and no budget")
	}
	var failed error
	e.allowed = sort.Search(left, func(i int) bool {
		epsilon, err := e.cost(i + 1)
		if err != nil {
			failed = err
		}
		return epsilon > e.budget.StopAtEpsilon
	})
	return failed
}

// current returns an upper bound of ε of the lots so far; left more follow. To spend about 1 %
// of the time on it, the bound is computed ahead: for the lots that will be done, at the speed
// of the last ones, when the next computation is due.
func (e *epsilonMeter) current(left int) float64 {
	if e.done <= e.counted {
		return e.epsilon
	}
	began := time.Now()
	ahead := 0
	if e.counted > 0 {
		lotsPerSecond := float64(e.done-e.counted+e.ahead) / began.Sub(e.computed).Seconds()
		ahead = int(lotsPerSecond * max(100*e.duration, 200*time.Millisecond).Seconds())
	}
	ahead = min(ahead, left, e.allowed)
	epsilon, err := e.cost(e.done + ahead)
	if err != nil {
		return math.Inf(1)
	}
	e.epsilon, e.counted, e.ahead = epsilon, e.done+ahead, ahead
	e.computed = time.Now()
	e.duration = e.computed.Sub(began)
	return epsilon
}

// planned returns ε of all lots up to the run's end, of which left are not done.
func (e *epsilonMeter) planned(left int) (float64, error) {
	return e.cost(e.done + min(left, e.allowed))
}

// countLot counts a lot that the ledger contains.
func (e *epsilonMeter) countLot() {
	e.done++
	e.allowed--
}
