package account

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/internal/setting"
)

// Budget is how the cost of a run is computed and limited: fields of engine.Budget.
type Budget struct {
	Delta         float64
	Accountant    string
	StopAtEpsilon float64 // 0: no limit
}

// Plan is what a run spends after a history.
type Plan struct {
	Budget
	Past    ledger.History         // and what the run releases before or after its lots
	Left    int                    // lots
	Differ  bool                   // lots differ in their cost
	LotAt   func(i int) ledger.Lot // an entry that costs as much as lot i of Left
	Resumed bool                   // lots were done before
	Filter  *Filter                // enforces the budget where noise is chosen from releases; nil: it is not
}

// AppendLot appends a lot. It counts an equal lot before it twice, unless that is one of the
// first past.
func AppendLot(lots []ledger.RepeatedLot, past int, lot ledger.Lot) []ledger.RepeatedLot {
	if k := len(lots) - 1; k >= past && slices.Equal(lots[k].Lot.Queries, lot.Queries) {
		lots[k].Count++
		return lots
	}
	return append(lots, ledger.RepeatedLot{Lot: lot, Count: 1})
}

// Meter computes the cost of a run's lots: now and then ε so far, and how many lots the
// budget allows. That number is fixed before the first lot, so that a stop there does not
// depend on the data.
type Meter struct {
	budget  Budget
	differ  bool                         // not all lots have the same noise and the same statistics
	Cost    func(n int) (float64, error) // the ε that the budget limits, after n lots of this process; nil with a filter
	filter  *Filter                      // which enforces the budget; nil: none
	Done    int                          // lots of this process
	Allowed int                          // lots that may follow

	epsilon  float64 // after Counted lots
	Counted  int
	ahead    int // Counted minus the lots that were done then
	computed time.Time
	duration time.Duration // of the last computation
}

// NewMeter returns a meter for a plan.
func NewMeter(p Plan) (*Meter, error) {
	e := &Meter{budget: p.Budget, differ: p.Differ, filter: p.Filter, Allowed: math.MaxInt}
	if e.filter != nil {
		return e, e.filter.admitPast(p)
	}
	if e.differ {
		if err := e.meterDifferentLots(p); err != nil {
			return nil, err
		}
	} else {
		equal, err := accountant.NewMeter(p.Past, p.LotAt(0), p.Delta, p.Accountant)
		if err != nil {
			return nil, err
		}
		e.Cost = equal.Epsilon
		if e.hasBudget() {
			if e.Allowed, err = equal.MaxLots(p.StopAtEpsilon); err != nil {
				return nil, err
			}
		}
	}
	if e.Allowed == 0 && p.Left > 0 && !(p.Resumed && e.isExactlySpent(p.Past)) {
		return nil, e.BudgetError()
	}
	return e, nil
}

func (e *Meter) hasBudget() bool { return e.budget.StopAtEpsilon > 0 }

// BudgetError states the cost of one more lot.
func (e *Meter) BudgetError() error {
	one, err := e.Cost(1)
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: the next lot would bring ε to %.4g, above %g; raise the noise or the budget", ErrBudget, one, e.budget.StopAtEpsilon)
}

// isExactlySpent reports whether a resumed run has used its budget up and not exceeded it. It
// trains no further, and its weights are paid for. A crash may have taken its last lots.
func (e *Meter) isExactlySpent(past ledger.History) bool {
	a, err := accountant.Epsilon(past, e.budget.Delta, e.budget.Accountant)
	return err == nil && a.Epsilon <= e.budget.StopAtEpsilon
}

// meterDifferentLots sets cost and allowed where lots differ.
func (e *Meter) meterDifferentLots(p Plan) error {
	e.Cost = func(n int) (float64, error) {
		h := p.Past
		h.Lots = slices.Clip(h.Lots)
		for i := range n {
			h.Lots = AppendLot(h.Lots, len(p.Past.Lots), p.LotAt(i))
		}
		a, err := accountant.Epsilon(h, e.budget.Delta, e.budget.Accountant)
		return a.Epsilon, err
	}
	if e.budget.StopAtEpsilon == 0 {
		_, err := e.Cost(1)
		return err
	}
	if e.budget.Accountant == "gdp" {
		return setting.Errorf("Budget.Accountant", "the gdp accountant is an approximation and cannot decide when to stop; use pld or rdp, or give the noise (%v) and no budget", setting.Named("Mechanism.NoiseMultiplier"))
	}
	var failed error
	e.Allowed = sort.Search(p.Left, func(i int) bool {
		epsilon, err := e.Cost(i + 1)
		if err != nil {
			failed = err
		}
		return epsilon > e.budget.StopAtEpsilon
	})
	return failed
}

// Current returns an upper bound of ε of the lots so far; left more follow. To spend about 1 %
// of the time on it, the bound is computed ahead: for the lots that will be done, at the speed
// of the last ones, when the next computation is due.
func (e *Meter) Current(left int) float64 {
	if e.filter != nil {
		return e.filter.Epsilon()
	}
	if e.Done <= e.Counted {
		return e.epsilon
	}
	began := time.Now()
	ahead := 0
	if e.Counted > 0 {
		lotsPerSecond := float64(e.Done-e.Counted+e.ahead) / began.Sub(e.computed).Seconds()
		ahead = int(lotsPerSecond * max(100*e.duration, 200*time.Millisecond).Seconds())
	}
	ahead = min(ahead, left, e.Allowed)
	epsilon, err := e.Cost(e.Done + ahead)
	if err != nil {
		return math.Inf(1)
	}
	e.epsilon, e.Counted, e.ahead = epsilon, e.Done+ahead, ahead
	e.computed = time.Now()
	e.duration = e.computed.Sub(began)
	return epsilon
}

// Planned returns ε of all lots up to the run's end, of which left are not done.
func (e *Meter) Planned(left int) (float64, error) {
	if e.filter != nil {
		return e.budget.StopAtEpsilon, nil
	}
	return e.Cost(e.Done + min(left, e.Allowed))
}

// countLot counts a lot that the ledger contains.
func (e *Meter) countLot() {
	e.Done++
	if e.filter == nil {
		e.Allowed--
	}
}
