package account

import (
	"fmt"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
)

// Filter enforces a limit on ε for lots whose noise is chosen from releases. It promises what
// [accountant.Filter] promises for everything that it admitted. Order is its Rényi order, which is fixed
// before the first lot.
type Filter struct {
	Order    float64
	filter   *accountant.Filter
	odometer *accountant.Odometer
}

// BestOrder returns the order of a filter that admits the most lots like the first one of a plan.
func BestOrder(p Plan) (float64, error) {
	h, lot := p.Past, p.LotAt(0)
	meter, err := accountant.NewMeter(h, lot, p.Delta, "rdp")
	if err != nil {
		return 0, err
	}
	lots, err := meter.MaxLots(p.StopAtEpsilon)
	if err != nil {
		return 0, err
	}
	if lots == 0 {
		return 0, fmt.Errorf("%w: one lot with Mechanism.NoiseMultiplier costs more than ε = %g; raise the noise or the budget", ErrBudget, p.StopAtEpsilon)
	}
	h.Lots = []ledger.RepeatedLot{{Lot: lot, Count: lots}}
	spent, err := accountant.Epsilon(h, p.Delta, "rdp")
	return spent.Order, err
}

// admitPast starts the filter after the history of a plan.
func (f *Filter) admitPast(p Plan) (err error) {
	if f.filter, err = accountant.NewFilter(p.StopAtEpsilon, p.Delta, f.Order, p.Past.Header.Adjacency); err != nil {
		return err
	}
	if f.odometer, err = accountant.NewOdometer(p.Delta, p.Past.Header.Adjacency); err != nil {
		return err
	}
	for _, l := range p.Past.Lots {
		ok, err := f.Spend(l.Lot, l.Count)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%w: the releases before the next lot, or whose noise is given, cost more than ε = %g under a filter of order %.4g; raise it", ErrBudget, p.StopAtEpsilon, f.Order)
		}
	}
	return nil
}

// Spend adds the cost of lots. It reports false, and adds nothing, where that would exceed the limit.
func (f *Filter) Spend(lot ledger.Lot, count int) (bool, error) {
	if ok, err := f.filter.Admit(lot, count); !ok || err != nil {
		return false, err
	}
	return true, f.odometer.Spend(lot, count)
}

// Epsilon returns the ε of what was spent.
func (f *Filter) Epsilon() float64 { return f.odometer.Epsilon() }

// UsedFraction returns the share of the limit that was spent.
func (f *Filter) UsedFraction() float64 { return f.filter.UsedFraction() }
