package settings

import (
	"fmt"
	"math"
	"path/filepath"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/projectbudget"
)

// checkProjectBudget checks --budget.
func (s *Flags) checkProjectBudget() error {
	if s.ProjectBudget == "" {
		return nil
	}
	if s.Accountant == "gdp" {
		return exitcode.Usagef("--budget requires an accountant that gives a bound, and gdp is an approximation: use pld or rdp")
	}
	if s.given["noise"] && !s.given["delta"] && s.Resume == "" {
		return exitcode.Usagef("--budget with --noise requires --delta, the part of the budget's δ that the run draws: give it, or give --epsilon instead of --noise")
	}
	path, err := filepath.Abs(s.ProjectBudget)
	if err != nil {
		return exitcode.Usagef("--budget: %w", err)
	}
	s.ProjectBudget = path // the same file for a resumed run
	return nil
}

// SavedBudget returns the file of the project budget in the settings of a run to resume, or "". The
// command line can name another file.
func (s *Flags) SavedBudget() string { return s.saved.budget }

// projectDelta returns the default δ of a run that draws from a project budget: the part of the
// budget's δ that --epsilon is of its ε.
func (s *Flags) projectDelta() (float64, error) {
	b, err := projectbudget.Read(s.ProjectBudget)
	if err != nil {
		return 0, exitcode.AsUsage(fmt.Errorf("--budget: %w", err))
	}
	if left, _ := b.Left(); s.Epsilon > left {
		return 0, fmt.Errorf("--budget %s: %w: --epsilon is %v, and %.6g is left", s.ProjectBudget, projectbudget.ErrExceeded, s.Epsilon, left)
	}
	return b.DeltaOf(s.Epsilon), nil
}

// limitToDraw sets the limit of a run that draws from a project budget, which is what it draws:
// a crash may lose lots that the plan does not contain.
func (s *Spec) limitToDraw() error {
	c := &s.Config
	if s.Flags.ProjectBudget == "" || c.Mechanism.NonPrivate {
		return nil
	}
	planned, err := accountant.Epsilon(c.PlannedHistory(), c.Budget.Delta, c.Budget.Accountant)
	if err != nil {
		return err
	}
	const rounding = 1e-6 // the plan and the run may differ by as much
	limit := planned.Epsilon * (1 + rounding)
	if c.Budget.StopAtEpsilon == 0 || limit < c.Budget.StopAtEpsilon && s.Flags.Resume == "" {
		c.Budget.StopAtEpsilon = limit
	}
	if math.IsInf(c.Budget.StopAtEpsilon, 1) {
		return exitcode.Usagef("--budget: the run has no finite ε: give more noise")
	}
	return nil
}
