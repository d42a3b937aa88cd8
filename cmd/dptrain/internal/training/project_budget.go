package training

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/projectbudget"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/engine"
)

// BudgetDraw is a run's draw from a project budget, whose file stays locked until the draw is
// made. A nil BudgetDraw is that of a run without a project budget.
type BudgetDraw struct {
	writer *projectbudget.Writer
	draw   projectbudget.Draw
	ledger string
}

// OpenBudget locks the project budget of a run and checks that it allows the run. The ledger of the run
// will name the budget.
func OpenBudget(spec *settings.Spec) (*BudgetDraw, error) {
	c := &spec.Config
	if spec.Flags.ProjectBudget == "" {
		return nil, nil
	}
	out, err := filepath.Abs(spec.Flags.Out)
	if err != nil {
		return nil, err
	}
	b := &BudgetDraw{ledger: c.Files.Ledger, draw: projectbudget.Draw{Epsilon: c.Budget.StopAtEpsilon, Delta: c.Budget.Delta,
		Unit: c.Records.Unit(), Adjacency: c.Sampling.Adjacency(), What: out}}
	if b.writer, err = projectbudget.Open(spec.Flags.ProjectBudget); err != nil {
		return nil, fmt.Errorf("--budget: %w", err)
	}
	c.Budget.Project = b.writer.Identity
	if spec.Flags.Resume != "" {
		err = b.checkResumed(spec.Flags.SavedBudget())
	}
	if err == nil {
		err = b.writer.Check(b.draw)
	}
	if err != nil {
		b.Close()
		return nil, fmt.Errorf("--budget %s: %w", spec.Flags.ProjectBudget, err)
	}
	return b, nil
}

// checkResumed refuses a budget that does not count what a run to resume has spent: another budget, an
// earlier copy of the run's own, or any budget for an earlier copy of the run. saved is the file of the
// budget in the run's settings.
func (b *BudgetDraw) checkResumed(saved string) error {
	f, err := ledger.ReadFile(b.ledger)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the run was stopped before its ledger existed
	}
	if err != nil {
		return err
	}
	b.draw.Run = f.Summary.Run
	before, named := b.writer.Find(b.draw.Run), f.History.Budget
	spent := f.History.LotCount() > 0
	switch {
	case named != "" && named != b.writer.Identity:
		return exitcode.Usagef("this is the project budget %s, and the run's cost is counted in %s, as its ledger states: resume the run with that budget", b.writer.Identity, named)
	case named == "" && saved != "" && before == nil && spent:
		return exitcode.Usagef("the run has drawn from the project budget %s: resume it with that budget", saved)
	case named != "" && before == nil && spent:
		return &exitcode.Error{Code: exitcode.Damaged, Err: errors.New("this file lacks the draw of the run, which the run's ledger states: it is an earlier copy of the project budget; restore the current file")}
	case before != nil && before.Process != "" && !f.HasProcess(before.Process):
		return exitcode.Usagef("another copy of this run (%s) has drawn later, and this copy does not have its lots: resume the other copy", before.What)
	}
	return nil
}

// Draw draws the cost of a run of steps lots whose ledger exists now. When it returns without an error, the
// draw is on disk and the run may release. A run that drew has a checkpoint: one that begins another
// ledger, because the checkpoint is missing, draws again, and both draws count.
func (b *BudgetDraw) Draw(run *engine.Run, steps int) (err error) {
	if b == nil {
		return nil
	}
	defer b.Close()
	f, err := ledger.ReadFile(b.ledger)
	if err != nil {
		return err
	}
	if run.StepsDone() < steps { // otherwise the plan of the draw before has ended
		planned, err := run.PlannedEpsilon()
		if err != nil {
			return err
		}
		b.draw.Planned = min(planned, b.draw.Epsilon)
	}
	b.draw.Run, b.draw.Process = f.Summary.Run, f.Summary.Process
	return b.writer.Draw(b.draw)
}

// Close lets other runs draw.
func (b *BudgetDraw) Close() {
	if b != nil && b.writer != nil {
		b.writer.Close()
		b.writer = nil
	}
}

// Settle returns what a run that ended drew and did not spend; epsilon is its guarantee.
func (b *BudgetDraw) Settle(path string, epsilon float64) error {
	if b == nil {
		return nil
	}
	w, err := projectbudget.Open(path)
	if err != nil {
		return fmt.Errorf("--budget: %w", err)
	}
	defer w.Close()
	return w.Settle(b.draw.Run, epsilon)
}
