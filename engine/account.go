package engine

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/internal/account"
	"github.com/dptrain/dptrain/engine/internal/release"
)

// createLedger begins the ledger in its file or on its writer.
func (f *Files) createLedger(h ledger.Header) (*ledger.Writer, error) {
	if f.LedgerWriter != nil {
		return ledger.NewWriter(f.LedgerWriter, h)
	}
	return ledger.Create(f.Ledger, h)
}

// readLedger returns the lots that a reader of the ledger finds.
func (f *Files) readLedger(w *ledger.Writer) (ledger.History, error) {
	if f.LedgerWriter != nil {
		return w.History(), nil
	}
	return ledger.Read(f.Ledger)
}

// maxLostLots returns how many lots a crash may waste: computed lots without a checkpoint,
// unless the disk is slow, and lots that the ledger states and the run did not compute. What
// is spent stays spent.
func (c *Config) maxLostLots() int { return max(1, c.Steps/32) }

// plan returns what is planned after a history. done is the number of lots that are done.
func (c *Config) plan(m *release.Mechanism, past ledger.History, done int) account.Plan {
	p := account.Plan{Budget: account.Budget{Delta: c.Budget.Delta, Accountant: c.Budget.Accountant, StopAtEpsilon: c.Budget.StopAtEpsilon},
		Past: past, Left: c.Steps - done, Differ: m.LotsDiffer(), LotAt: func(i int) ledger.Lot { return m.CostOfLot(done + i) },
		Resumed: done > 0}
	if a := c.Mechanism.adaptive; a != nil {
		a.Order = c.Budget.FilterOrder
		p.Filter = &a.Filter
	}
	return p
}

// Spent returns the cost of the run according to its ledger. Before Close it includes lots that
// the ledger has reserved. name is one of accountant.Names, or "" for the default. The ε is that of
// lots whose number and noise were fixed beforehand: where an observer or Mechanism.Choose chose
// them, [Run.PlannedEpsilon] is the cost.
func (r *Run) Spent(name string) (accountant.Guarantee, error) {
	if r.config.Mechanism.NonPrivate {
		return accountant.Guarantee{}, fmt.Errorf("a run without privacy has no ledger: its ε is infinite")
	}
	h, err := r.config.Files.readLedger(r.account.Ledger)
	if err != nil {
		return accountant.Guarantee{}, err
	}
	return accountant.Epsilon(h, r.config.Budget.Delta, name)
}

// PlannedEpsilon returns the ε of the whole plan that a budget limits: of all lots up to the
// last, or up to the budget's end, of a projection and of a validation. It is the cost of a run
// that ends early because of released values: what such a run releases is a function of what the
// whole plan would have released. The ε of the lots that ran is not: see [accountant.Odometer].
// With Mechanism.Choose it is Budget.StopAtEpsilon, which the filter enforces.
func (r *Run) PlannedEpsilon() (float64, error) {
	if r.account == nil {
		return math.Inf(1), nil
	}
	return r.account.Meter.Planned(r.config.Steps - r.step)
}
