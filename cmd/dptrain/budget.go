package main

import (
	"github.com/dptrain/dptrain/internal/terminal"
	"github.com/spf13/cobra"
)

func newBudget(term *terminal.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "budget",
		Short: "Plan a run: what it costs, or what it may do at a given cost",
		Long: `Relates the five quantities of a private run: noise, steps, sampling rate, ε and δ.
Each command computes one from the others. What they print is rounded so that, put
back into "budget epsilon", it never spends more than the target. Lots of a fixed size
are held to what is proven for any data, which is more than the ε published for them.`,
		Example: `  dptrain budget epsilon --rate 0.01 --noise 4 --steps 10000 --delta 1e-5
  dptrain budget noise --records 60000 --lot 600 --epochs 60 --epsilon 2
  dptrain budget compare --rate 0.01 --noise 4 --steps 10000 --delta 1e-5`,
	}
	groupSubcommands(cmd)
	for _, q := range quantities {
		cmd.AddCommand(newBudgetSolve(term, q))
	}
	cmd.AddCommand(newBudgetCompare(term), newBudgetCurve(term), newBudgetStatement(term))
	return cmd
}
