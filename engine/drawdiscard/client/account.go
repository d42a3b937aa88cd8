package client

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/drawdiscard"
)

// Budget limits what all contributions of a ledger cost together.
//
// With Delta 0 the guarantee holds for settings that depend on earlier results, such as an ε chosen
// after a look at the model: the ε of the contributions add up (Rogers et al. 2016, section 4). The
// accountant's smaller ε at a Delta above 0 holds for settings of contributions that do not depend on
// earlier results.
type Budget struct {
	Epsilon    float64
	Delta      float64 // 0: only pure ε counts, which Gaussian noise does not have
	Accountant string  // one of accountant.Names, for a Delta above 0
}

// Account is the budget of one client's data. Its ledger is a file that every contribution of
// these data goes through.
type Account struct {
	writer *ledger.Writer
	budget Budget
	level  drawdiscard.Level // what the ledger counts
}

// units name what a ledger counts, by level.
var units = map[drawdiscard.Level]string{
	drawdiscard.ModelLevel:   "user",
	drawdiscard.FeatureLevel: "user, by single weight", // each weight by itself; all weights of a model cost more
}

// DefaultName is the name of an account where the user gives none.
const DefaultName = "default"

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// AccountPath is the ledger of a named client, in the folder for settings of this user. The guarantee
// holds for any two data sets of a client, so the account is that of the client: it does not depend on
// where the data are, and copied, renamed or changed data have the same one.
func AccountPath(name string) (string, error) {
	if !validName.MatchString(name) {
		return "", fmt.Errorf("client name %q: use up to 64 letters, digits, and ._-, starting with a letter or a digit", name)
	}
	folder, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("there is no folder for accounts: %w", err)
	}
	return filepath.Join(folder, "dptrain", "contributions", name+".jsonl"), nil
}

// OpenAccount opens the ledger, or creates it with its folder. A ledger counts, and its budget limits, what all
// contributions of both levels cost at one level: whole returned models, or each weight by
// itself. It is locked until Close.
func OpenAccount(path string, level drawdiscard.Level, b Budget) (*Account, error) {
	switch {
	case !(b.Epsilon > 0 && b.Epsilon <= math.MaxFloat64):
		return nil, fmt.Errorf("the total ε is %v; it must be above 0", b.Epsilon)
	case !(b.Delta >= 0 && b.Delta < 1):
		return nil, fmt.Errorf("the total δ is %v; it must be 0 or more and below 1", b.Delta)
	case units[level] == "":
		return nil, fmt.Errorf("privacy level %q is unknown; use %s or %s", level, drawdiscard.ModelLevel, drawdiscard.FeatureLevel)
	}
	w, err := ledger.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, err
		}
		w, err = ledger.Create(path, ledger.Header{Unit: units[level], Records: 1, Adjacency: ledger.ReplaceOne, Secure: true})
	}
	if err != nil {
		return nil, err
	}
	if unit := w.History().Header.Unit; unit != units[level] {
		w.Close()
		return nil, fmt.Errorf("ledger %s counts the unit %q, and the level %s of the total is %q; use the other level, or another ledger", path, unit, level, units[level])
	}
	w.LimitReservations(1) // contributions are seconds apart, and a reserved one that is not made is a waste
	return &Account{w, b, level}, nil
}

// Close ends the run in the ledger and unlocks it.
func (a *Account) Close() error { return a.writer.Close() }

// Cost is what a history of contributions costs.
type Cost struct {
	Pure    float64 // Σ ε of the contributions; +Inf if one has Gaussian noise
	Epsilon float64 // the smaller of Pure and of the accountant's ε at Delta
	Delta   float64
}

// Cost returns the cost of the contributions so far.
func (a *Account) Cost() (Cost, error) { return a.cost(a.writer.History()) }

// WholeModels returns what a number of contributions costs for the whole returned models, also where each
// protects a weight by itself.
func WholeModels(m *drawdiscard.Mechanism, contributions int, b Budget) (Cost, error) {
	h := ledger.History{Header: ledger.Header{Adjacency: ledger.ReplaceOne, Records: 1}}
	h.Lots = []ledger.RepeatedLot{{Lot: contribution(m.Query("model", drawdiscard.ModelLevel)), Count: contributions}}
	return b.cost(h)
}

func (a *Account) cost(h ledger.History) (Cost, error) { return a.budget.cost(h) }

func (b Budget) cost(h ledger.History) (Cost, error) {
	c := Cost{Pure: pureEpsilon(h), Delta: b.Delta}
	c.Epsilon = c.Pure
	if b.Delta > 0 && len(h.Lots) > 0 {
		g, err := accountant.Epsilon(h, b.Delta, b.Accountant)
		if err != nil {
			return c, err
		}
		if g.Approximate {
			return c, fmt.Errorf("accountant %s is an approximation and cannot enforce a budget; use %s", g.Accountant, accountant.Default)
		}
		c.Epsilon = min(c.Pure, g.Epsilon)
	}
	return c, nil
}

// pureEpsilon is the sum of the contributions' ε (Dwork and Roth 2014, theorem 3.14). The record,
// all data of the client, is replaced, so it moves a sum by twice the sensitivity.
func pureEpsilon(h ledger.History) float64 {
	sum := 0.0
	for _, run := range h.Lots {
		for _, q := range run.Lot.Queries {
			if q.Mechanism != ledger.Laplace {
				return math.Inf(1)
			}
			sum += 2 * q.Sensitivity / q.Noise * float64(run.Count)
		}
	}
	return sum
}

// contribution is the ledger's entry of a contribution.
func contribution(q ledger.Query) ledger.Lot {
	return ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.FullBatch, Records: 1}, Queries: []ledger.Query{q}}
}

// Spend states a contribution in the ledger. If it returns nil, the ledger is on disk and the
// contribution may leave. If the budget does not cover it, the error is an engine.ErrBudget and
// nothing changes.
func (a *Account) Spend(q ledger.Query) (Cost, error) {
	lot := contribution(q)
	h := a.writer.History()
	h.Lots = append(h.Lots[:len(h.Lots):len(h.Lots)], ledger.RepeatedLot{Lot: lot, Count: 1})
	c, err := a.cost(h)
	if err != nil {
		return c, err
	}
	if !(c.Epsilon <= a.budget.Epsilon) {
		left := "Gaussian noise has no pure ε: give the budget a δ above 0"
		if !math.IsInf(c.Epsilon, 1) {
			left = fmt.Sprintf("with this contribution the ledger states ε = %.4g", c.Epsilon)
		}
		return c, fmt.Errorf("the %w of ε = %v and δ = %v does not cover the contribution: %s; stop contributing these data, or raise the total", engine.ErrBudget, a.budget.Epsilon, a.budget.Delta, left)
	}
	return c, a.writer.Spend(lot)
}

// Discard removes a ledger without contributions.
func Discard(path string) error {
	if err := ledger.Discard(path); err != nil && !errors.Is(err, ledger.ErrNotEmpty) && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
