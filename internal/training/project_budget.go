package training

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/internal/projectbudget"
	"github.com/dptrain/dptrain/internal/runspec"
)

// BudgetDraw is a run's draw from a project budget, whose file stays locked until the draw is
// made. A nil BudgetDraw is that of a run without a project budget.
type BudgetDraw struct {
	writer *projectbudget.Writer
	draw   projectbudget.Draw
	ledger string
}

// OpenBudget locks the project budget of a run and checks that it allows the run.
func OpenBudget(spec *runspec.Spec) (*BudgetDraw, error) {
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
	if spec.Flags.Resume != "" {
		if b.draw.Run, err = runOfLedger(b.ledger); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if b.writer, err = projectbudget.OpenFor(spec.Flags.ProjectBudget, b.draw); err != nil {
		return nil, err
	}
	return b, nil
}

// runOfLedger returns the identifier in a ledger's header.
func runOfLedger(path string) (string, error) {
	f, err := ledger.ReadFile(path)
	if err != nil {
		return "", err
	}
	if f.Summary.Run == "" {
		return "", fmt.Errorf("%s has no identifier of its run, so a project budget cannot recognise the run: it was begun by an earlier version; record it with dptrain budget spend", path)
	}
	return f.Summary.Run, nil
}

// Draw draws the cost of the run whose ledger exists now. When it returns without an error, the
// draw is on disk and the run may release.
func (b *BudgetDraw) Draw() (err error) {
	if b == nil {
		return nil
	}
	defer b.Close()
	run, err := runOfLedger(b.ledger)
	if err != nil {
		return err
	}
	if before := b.draw.Run; before != "" && before != run {
		// The run was resumed before it had released anything, and began another ledger.
		if err := b.writer.Settle(before, 0); err != nil {
			return err
		}
	}
	b.draw.Run = run
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
