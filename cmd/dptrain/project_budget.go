package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/budget"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/projectbudget"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/spf13/cobra"
)

// projectState is a project budget in the output of commands.
type projectState struct {
	File        string               `json:"file"`
	Identity    string               `json:"identity,omitempty"` // as the ledgers of its runs name it
	Epsilon     float64              `json:"epsilon"`
	Delta       float64              `json:"delta"`
	EpsilonLeft float64              `json:"epsilon_left"`
	DeltaLeft   float64              `json:"delta_left"`
	Draws       []projectbudget.Draw `json:"draws"`
}

func printProject(term *terminal.Terminal, path string) error {
	b, err := projectbudget.Read(path)
	if err != nil {
		return err
	}
	s := projectState{File: path, Identity: b.Identity, Epsilon: b.Epsilon, Delta: b.Delta, Draws: b.Draws}
	if s.Draws == nil {
		s.Draws = []projectbudget.Draw{}
	}
	s.EpsilonLeft, s.DeltaLeft = b.Left()
	return term.Print(s, number.RoundDown(s.EpsilonLeft), s.print)
}

func (s projectState) print(w io.Writer) {
	fmt.Fprintf(w, "epsilon\t%s, of which %s is left\n", number.RoundUp(s.Epsilon), number.RoundDown(s.EpsilonLeft))
	fmt.Fprintf(w, "delta\t%s, of which %s is left\n", number.RoundUp(s.Delta), number.RoundDown(s.DeltaLeft))
	for _, d := range s.Draws {
		state := "drawn"
		if d.Settled {
			state = "spent"
		}
		fmt.Fprintf(w, "%s\tε = %s at δ = %s by %s\n", state, number.RoundUp(d.Epsilon), number.RoundUp(d.Delta), d.What)
	}
}

func newBudgetOpen(term *terminal.Terminal) *cobra.Command {
	var epsilon, delta float64
	cmd := &cobra.Command{
		Use:   "open FILE",
		Short: "Create the file of a budget that several runs draw from",
		Long: `Creates the file of a budget (ε, δ) for several runs on the same people. A run with
"train --budget FILE" or "tune --budget FILE" draws its whole cost before it releases anything,
and is refused with exit code 3 if the budget does not allow it. The ε and the δ of all runs are
added, so that settings may depend on the results of earlier runs. A run that ends returns what
it did not spend; one that was killed keeps it until it is resumed and ends.`,
		Example: "  dptrain budget open people.budget --epsilon 4 --delta 1e-5\n  dptrain train --budget people.budget --epsilon 1",
		Args:    oneBudgetFile,
		RunE: func(_ *cobra.Command, args []string) error {
			if !(epsilon > 0) || math.IsInf(epsilon, 1) {
				return exitcode.Usagef("--epsilon %v: give a finite budget above 0", epsilon)
			}
			if err := budget.CheckDelta(delta); err != nil {
				return err
			}
			if err := projectbudget.Create(args[0], epsilon, delta); err != nil {
				return exitcode.AsUsage(err)
			}
			return printProject(term, args[0])
		},
	}
	cmd.Flags().Float64Var(&epsilon, "epsilon", 0, "the ε of all runs together")
	cmd.Flags().Float64Var(&delta, "delta", 0, "the δ of all runs together")
	return cmd
}

// oneBudgetFile checks that there is one argument, the file of a project budget.
func oneBudgetFile(_ *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return exitcode.Usagef("give one file of a project budget, as in people.budget")
	}
	return nil
}

func newBudgetLeft(term *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:     "left FILE",
		Short:   "Show what is left of a project budget, and the draws",
		Long:    "Shows what is left of the budget in FILE, and what each run drew or spent.",
		Example: "  dptrain budget left people.budget",
		Args:    oneBudgetFile,
		RunE:    func(_ *cobra.Command, args []string) error { return printProject(term, args[0]) },
	}
}

func newBudgetSpend(term *terminal.Terminal) *cobra.Command {
	var delta float64
	var name string
	cmd := &cobra.Command{
		Use:   "spend FILE RUN",
		Short: "Record the cost of a run that did not draw from a project budget",
		Long: `Records in FILE what the run in the directory or ledger RUN spent, by its ledger. The cost is
recorded even if it exceeds the budget; the exit code is then 3. The run must have ended. A run
that ended before its plan, because it was interrupted or by --stop-when, costs as much as its
plan, which its run.json states: --delta is then at least the δ of the run. A run that has drawn
from FILE keeps what it drew. The ledger of the run names the budget from then on, and the run
can be resumed with this budget only.`,
		Example: "  dptrain budget spend people.budget runs/first --delta 1e-6",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return exitcode.Usagef("give the file of a project budget and a run, as in people.budget runs/first")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if err := budget.CheckDelta(delta); err != nil {
				return err
			}
			if err := exitcode.CheckChoice("accountant", name, accountant.Names()); err != nil {
				return err
			}
			if err := spendOutside(args[0], args[1], delta, name); err != nil {
				return exitcode.AsUsage(err)
			}
			return printProject(term, args[0])
		},
	}
	cmd.Flags().Float64Var(&delta, "delta", 0, "the δ at which the run's ε is computed, and which it spends")
	addAccountantFlag(cmd, &name)
	return cmd
}

// spendOutside records the cost of a run that did not draw from a project budget.
func spendOutside(project, run string, delta float64, accountantName string) error {
	files, err := readLedgerFiles([]string{run})
	if err != nil {
		return err
	}
	f := files[0]
	cost, err := costOfEnded(f, delta, accountantName)
	if err != nil {
		return err
	}
	draw := projectbudget.Draw{Run: f.Summary.Run, Epsilon: cost.Epsilon, Delta: delta,
		Unit: f.History.Header.Unit, Adjacency: cost.Adjacency}
	if draw.What, err = filepath.Abs(run); err != nil {
		return err
	}
	w, err := projectbudget.Open(project)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.Check(draw); err != nil && !errors.Is(err, projectbudget.ErrExceeded) {
		return fmt.Errorf("%s: %w", project, err)
	}
	if err := nameInLedger(f, w.Identity); err != nil {
		return err
	}
	return w.Record(draw)
}

// costOfEnded returns the guarantee of a run that has ended: that of its ledger if its plan ended it, and
// otherwise that of its plan, which run.json states.
func costOfEnded(f *ledger.File, delta float64, accountantName string) (cost accountant.Guarantee, err error) {
	switch {
	case f.Truncated || !f.Summary.Ended:
		return cost, exitcode.Usagef("%s has not ended: the run is still running or was killed, and may release more than the ledger states; wait for it, or continue it with dptrain train --resume", f.Path)
	}
	if cost, err = accountant.Epsilon(f.History, delta, accountantName); err != nil {
		return cost, err
	}
	if cost.Approximate {
		return cost, exitcode.Usagef("--accountant %s is an approximation and cannot be recorded: use pld or rdp", accountantName)
	}
	if f.Summary.Complete || f.History.LotCount() == 0 {
		return cost, nil
	}
	summary, err := rundir.Read(filepath.Dir(f.Path))
	switch {
	case err != nil || !f.IsDescribedBy(summary.LedgerHead):
		return cost, exitcode.Usagef("%s does not state that the plan of the run ended it, and there is no run.json of its end next to it: the cost is that of the plan, which is unknown; continue the run with dptrain train --resume", f.Path)
	case summary.PlannedEpsilon == 0: // the plan ended a run of an earlier version, whose ledger does not state this
		return cost, nil
	case summary.Approximate:
		return cost, exitcode.Usagef("%s ended before its plan, whose cost is known as an approximation only (--accountant %s): it cannot be recorded", f.Path, summary.Accountant)
	case delta < float64(summary.Delta):
		return cost, exitcode.Usagef("%s ended before its plan, which costs ε = %s at δ = %v: give --delta of at least %[3]v", f.Path, number.RoundUp(float64(summary.PlannedEpsilon)), float64(summary.Delta))
	}
	cost.Epsilon = max(cost.Epsilon, float64(summary.PlannedEpsilon))
	return cost, nil
}

// nameInLedger states in the ledger of a run that ended that a project budget counts its cost, so that
// the run is not resumed without it.
func nameInLedger(f *ledger.File, identity string) error {
	switch f.Summary.Budget {
	case identity:
		return nil
	case "":
	default:
		return exitcode.Usagef("the cost of %s is counted in the project budget %s, as it states: a run is counted once", f.Path, f.Summary.Budget)
	}
	w, err := ledger.Open(f.Path)
	if err != nil {
		return err
	}
	if w.History().LotCount() != f.History.LotCount() {
		return errors.Join(fmt.Errorf("the run in %s was resumed while its cost was computed: record it when it has ended", f.Path), w.Close())
	}
	if sum, err := hex.DecodeString(f.Summary.Weights); err == nil && len(sum) == sha256.Size {
		w.SetWeights([sha256.Size]byte(sum))
	}
	if f.Summary.Complete {
		w.SetComplete()
	}
	return errors.Join(w.NameBudget(identity), w.Close())
}
