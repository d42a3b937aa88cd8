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
	"github.com/dptrain/dptrain/engine/internal/release"
	"github.com/dptrain/dptrain/internal/setting"
)

// privacyAccount states in the ledger what is about to be released, and computes its cost.
type privacyAccount struct {
	ledger *ledger.Writer
	meter  *epsilonMeter
	// maxLostLots bounds the lots that the ledger states and a crash prevents.
	maxLostLots int
}

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

// spendLot returns when the ledger on disk has the entry of a lot; left lots of the run are
// not done, and the next equal lots have the same entry. The ledger may reserve lots ahead of
// their release. The limit is such that a crash overstates the run's cost neither beyond its steps
// nor beyond its budget.
func (a *privacyAccount) spendLot(entry ledger.Lot, left, equal int) error {
	ahead := min(a.meter.allowed, left, a.maxLostLots)
	if a.meter.hasBudget() && a.meter.lotsDiffer {
		ahead = min(ahead, equal) // a later lot may cost less than this one
	}
	if a.meter.adaptive != nil {
		ahead = 1 // the filter admits each lot
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

// nameProject states in the ledger which project budget counts the cost; "": none.
func (a *privacyAccount) nameProject(identity string) error {
	if identity == "" {
		return nil
	}
	return a.ledger.NameBudget(identity)
}

// isPlanDone reports whether a run, of which left lots are not done, has done what it planned, or as much
// as its limit on ε allows. No release decides either. The ledger then states the cost: see
// [Run.PlannedEpsilon]. Choices of noise depend on releases, so such a run costs what its filter allows.
func (a *privacyAccount) isPlanDone(left int, validated bool) bool {
	if a.meter.adaptive != nil || left > 0 && a.meter.allowed > 0 {
		return false
	}
	return validated || errors.Is(a.checkSpent("validation"), ErrBudget)
}

// Spent returns the cost of the run according to its ledger. Before Close it includes lots that
// the ledger has reserved. name is one of accountant.Names, or "" for the default. The ε is that of
// lots whose number and noise were fixed beforehand: where an observer or Mechanism.Choose chose
// them, [Run.PlannedEpsilon] is the cost.
func (r *Run) Spent(name string) (accountant.Guarantee, error) {
	if r.config.Mechanism.NonPrivate {
		return accountant.Guarantee{}, fmt.Errorf("a run without privacy has no ledger: its ε is infinite")
	}
	h, err := r.config.Files.readLedger(r.account.ledger)
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
	return r.account.meter.planned(r.config.Steps - r.step)
}

// epsilonMeter computes the cost of a run's lots: now and then ε so far, and how many lots the
// budget allows. That number is fixed before the first lot, so that a stop there does not
// depend on the data.
type epsilonMeter struct {
	budget     Budget
	lotsDiffer bool                         // not all lots have the same noise and the same statistics
	cost       func(n int) (float64, error) // the ε that the budget limits, after n lots of this process; nil with adaptive
	adaptive   *adaptiveLots                // of a run whose filter enforces the budget; else nil
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
func newEpsilonMeter(c *Config, m *release.Mechanism, past ledger.History, first int) (*epsilonMeter, error) {
	e := &epsilonMeter{budget: c.Budget, lotsDiffer: m.LotsDiffer(), allowed: math.MaxInt}
	if a := c.Mechanism.adaptive; a != nil {
		e.adaptive = a
		return e, a.open(c, past)
	}
	left := c.Steps - first
	if e.lotsDiffer {
		if err := e.meterDifferentLots(past, left, func(i int) ledger.Lot { return m.CostOfLot(first + i) }); err != nil {
			return nil, err
		}
	} else {
		equal, err := accountant.NewMeter(past, m.CostOfLot(first), c.Budget.Delta, c.Budget.Accountant)
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
		return setting.Errorf("Budget.Accountant", "the gdp accountant is an approximation and cannot decide when to stop; use pld or rdp, or give the noise (%v) and no budget", setting.Named("Mechanism.NoiseMultiplier"))
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
	if e.adaptive != nil {
		return e.adaptive.odometer.Epsilon()
	}
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
	if e.adaptive != nil {
		return e.budget.StopAtEpsilon, nil
	}
	return e.cost(e.done + min(left, e.allowed))
}

// countLot counts a lot that the ledger contains.
func (e *epsilonMeter) countLot() {
	e.done++
	if e.adaptive == nil {
		e.allowed--
	}
}
