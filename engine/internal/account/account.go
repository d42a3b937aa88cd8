package account

import (
	"errors"
	"fmt"

	"github.com/dptrain/dptrain/accountant/ledger"
)

// ErrBudget is wrapped by an error where a limit on ε does not allow a single lot, or where more was spent
// before.
var ErrBudget = errors.New("budget")

// Account states in the ledger what is about to be released, and computes its cost.
type Account struct {
	Ledger *ledger.Writer
	Meter  *Meter
	// MaxLostLots bounds the lots that the ledger states and a crash prevents.
	MaxLostLots int
}

// SpendLot returns when the ledger on disk has the entry of a lot; left lots of the run are
// not done, and the next equal lots have the same entry. The ledger may reserve lots ahead of
// their release. The limit is such that a crash overstates the run's cost neither beyond its steps
// nor beyond its budget.
func (a *Account) SpendLot(entry ledger.Lot, left, equal int) error {
	ahead := min(a.Meter.Allowed, left, a.MaxLostLots)
	if a.Meter.hasBudget() && a.Meter.differ {
		ahead = min(ahead, equal) // a later lot may cost less than this one
	}
	if a.Meter.filter != nil {
		ahead = 1 // the filter admits each lot
	}
	a.Ledger.LimitReservations(ahead)
	if err := a.Ledger.Spend(entry); err != nil {
		return err
	}
	a.Meter.countLot()
	return nil
}

// SpendQuery returns when the ledger on disk has the entry of one more release.
func (a *Account) SpendQuery(entry ledger.Lot) error {
	a.Ledger.LimitReservations(1)
	return a.Ledger.Spend(entry)
}

// CheckSpent returns an error if the releases planned after the lots, such as the validation with
// this name, exceed the budget.
func (a *Account) CheckSpent(name string) error {
	if !a.Meter.hasBudget() {
		return nil
	}
	budget := a.Meter.budget.StopAtEpsilon
	total, err := a.Meter.Planned(0)
	if err == nil && total > budget {
		err = fmt.Errorf("%w: the %s would bring ε to %.4g, above %g; raise the budget", ErrBudget, name, total, budget)
	}
	return err
}

// NameProject states in the ledger which project budget counts the cost; "": none.
func (a *Account) NameProject(identity string) error {
	if identity == "" {
		return nil
	}
	return a.Ledger.NameBudget(identity)
}

// IsPlanDone reports whether a run has done what it planned, or as much as its limit on ε allows; left lots
// are not done. No release decides either. The ledger then states the cost: see
// engine.Run.PlannedEpsilon. Choices of noise depend on releases, so such a run costs what its filter allows.
func (a *Account) IsPlanDone(left int, validated bool) bool {
	if a.Meter.filter != nil || left > 0 && a.Meter.Allowed > 0 {
		return false
	}
	return validated || errors.Is(a.CheckSpent("validation"), ErrBudget)
}
