package main

import (
	"github.com/dptrain/dptrain/cmd/dptrain/internal/budget"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/flags"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/spf13/cobra"
)

func newBudgetLocal(term *terminal.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "local",
		Short:   "State what each adversary learns in draw and discard",
		Long:    helpOf("budget-local").long,
		Example: helpOf("budget-local").examples,
		Args:    noArguments,
	}
	f := cmd.Flags()
	r := &budget.LocalRequest{Given: f.Changed}
	f.IntVar(&r.Instances, "instances", 0, "the number k of model instances that the server holds")
	f.Float64Var(&r.Epsilon, "epsilon", 0, "the ε of one contribution")
	f.StringVar(&r.Level, "privacy", budget.LocalLevels[0], "what --epsilon is about: model, the whole returned model, or feature, each weight by itself")
	f.StringVar(&r.Mechanism, "mechanism", budget.LocalMechanisms[0], "the client's noise: "+flags.Alternatives(budget.LocalMechanisms))
	f.Float64Var(&r.Delta, "delta", 1e-6, "the δ of the stated (ε, δ); with gaussian noise also the δ of the contribution")
	f.Int64Var(&r.Updates, "updates", 0, "the number of updates between the contribution and adversary III")
	f.IntVar(&r.Clients, "clients", 0, "the number of clients that contribute once each in an unknown random order")
	f.IntVar(&r.Several, "contributions", 0, "the number of contributions of the client, for what adversaries learn from all of them")
	f.IntVar(&r.Weights, "weights", 0, "the number of weights, for Laplace noise on a whole model whose average gradient is clipped to a box, as contribute adds it")
	flags.Complete(cmd, "mechanism", budget.LocalMechanisms)
	flags.Complete(cmd, "privacy", budget.LocalLevels)
	cmd.RunE = func(*cobra.Command, []string) error {
		answer, err := r.Answer()
		if err != nil {
			return err
		}
		return term.Print(answer, answer.Bare(), answer.Print)
	}
	return cmd
}
