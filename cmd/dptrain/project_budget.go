package main

import (
	"fmt"
	"io"
	"math"
	"path/filepath"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/internal/budget"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/number"
	"github.com/dptrain/dptrain/internal/projectbudget"
	"github.com/dptrain/dptrain/internal/terminal"
	"github.com/spf13/cobra"
)

// projectState is a project budget in the output of commands.
type projectState struct {
	File        string               `json:"file"`
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
	s := projectState{File: path, Epsilon: b.Epsilon, Delta: b.Delta, Draws: b.Draws}
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
recorded even if it exceeds the budget; the exit code is then 3. The run must have ended at a
number of lots that does not depend on what it released: otherwise its cost is that of its whole
plan, which its run.json states.`,
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
			files, err := readLedgerFiles(args[1:])
			if err != nil {
				return err
			}
			f := files[0]
			if f.Summary.Run == "" {
				return exitcode.Usagef("%s has no identifier of its run: it was written by an earlier version and cannot be recorded", f.Path)
			}
			g, err := accountant.Epsilon(f.History, delta, name)
			if err != nil {
				return err
			}
			if g.Approximate {
				return exitcode.Usagef("--accountant %s is an approximation and cannot be recorded: use pld or rdp", name)
			}
			what, err := filepath.Abs(args[1])
			if err != nil {
				return err
			}
			w, err := projectbudget.Open(args[0])
			if err != nil {
				return exitcode.AsUsage(err)
			}
			defer w.Close()
			if err := w.Record(projectbudget.Draw{Run: f.Summary.Run, Epsilon: g.Epsilon, Delta: delta, Unit: f.History.Header.Unit, Adjacency: g.Adjacency, What: what}); err != nil {
				return exitcode.AsUsage(err)
			}
			return printProject(term, args[0])
		},
	}
	cmd.Flags().Float64Var(&delta, "delta", 0, "the δ at which the run's ε is computed, and which it spends")
	addAccountantFlag(cmd, &name)
	return cmd
}
