package engine

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
)

// privacyAccount states in the ledger what is about to be released, and computes its cost.
type privacyAccount struct {
	ledger *ledger.Writer
	meter  *epsilonMeter
	// maxLostLots bounds the lots that the ledger states and a crash prevents.
	maxLostLots int
}

// maxLostLots returns how many lots a crash may waste: computed lots without a checkpoint,
// unless the disk is slow, and lots that the ledger states and the run did not compute. What
// is spent stays spent.
func (c *Config) maxLostLots() int { return max(1, c.Steps/32) }

// spendLot returns when the ledger on disk has the entry of a lot; left lots of the run are
// not done, and the next equal lots have the same entry. The ledger may reserve lots ahead of
// their release. The limit is such that a crash overstates the run's cost neither beyond its steps
// nor beyond its budget.
func (a *privacyAccount) spendLot(entry ledger.Lot, left, equal int) error {
	ahead := min(a.meter.allowed, left, a.maxLostLots)
	if a.meter.hasBudget() && a.meter.lotsDiffer {
		ahead = min(ahead, equal) // a later lot may cost less than this one
	}
	a.ledger.LimitReservations(ahead)
	if err := a.ledger.Spend(entry); err != nil {
		return err
	}
	a.meter.countLot()
	return nil
}

// spendQuery returns when the ledger on disk has the entry of one more release.
func (a *privacyAccount) spendQuery(entry ledger.Lot) error {
	a.ledger.LimitReservations(1)
	return a.ledger.Spend(entry)
}

// checkSpent returns an error if the releases planned after the lots, such as the validation with
// this name, exceed the budget.
func (a *privacyAccount) checkSpent(name string) error {
	if !a.meter.hasBudget() {
		return nil
	}
	budget := a.meter.budget.StopAtEpsilon
	total, err := a.meter.planned(0)
	if err == nil && total > budget {
		err = fmt.Errorf("%w: the %s would bring ε to %.4g, above %g; raise the budget", ErrBudget, name, total, budget)
	}
	return err
}

// Spent returns the cost of the run according to its ledger. Before Close it includes lots that
// the ledger has reserved. name is one of accountant.Names, or "" for the default.
func (r *Run) Spent(name string) (accountant.Guarantee, error) {
	if r.config.Mechanism.NonPrivate {
		return accountant.Guarantee{}, fmt.Errorf("a run without privacy has no ledger: its ε is infinite")
	}
	h, err := ledger.Read(r.config.Files.Ledger)
	if err != nil {
		return accountant.Guarantee{}, err
	}
	return accountant.Epsilon(h, r.config.Budget.Delta, name)
}

// PlannedEpsilon returns the ε of the whole plan that a budget limits: of all lots up to the
// last, or up to the budget's end, of a projection and of a validation. A run that ends early
// because of released values has this cost: its number of lots is then a released value, too
// (Rogers et al. 2016, "Privacy odometers and filters"), and the plan was the most that it could
// run.
func (r *Run) PlannedEpsilon() (float64, error) {
	if r.account == nil {
		return math.Inf(1), nil
	}
	return r.account.meter.planned(r.config.Steps - r.step)
}
