package main

import (
	"fmt"
	"io"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/report"
	"github.com/dptrain/dptrain/internal/terminal"
	"github.com/spf13/cobra"
)

func newBudgetStatement(term *terminal.Terminal) *cobra.Command {
	var name, record string
	cmd := &cobra.Command{
		Use:   "statement",
		Short: "The paragraph on privacy to put into a paper or a model card",
		Long: `Writes what a reader needs to judge a private run, in one paragraph: the guarantee,
what it protects, the mechanism, how it was accounted, and what is not covered (after
Ponomareva et al. 2023, "How to DP-fy ML", section 5.3).`,
		Example: "  dptrain budget statement --records 60000 --lot 600 --epochs 100 --noise 4",
		Args:    noArguments,
	}
	flags := planFlagsOf(cmd, "epsilon")
	accountantFlag(cmd, &name)
	cmd.Flags().StringVar(&record, "record", "example", "what is protected: example, microbatch:K or user:COLUMN")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := exitcode.CheckChoice("accountant", name, accountant.Names()); err != nil {
			return err
		}
		if _, err := (&settings{record: record, userExamples: 1}).records(); err != nil {
			return err
		}
		plan, err := flags.plan()
		if err != nil {
			return err
		}
		solved, err := solve("epsilon", plan, 0, flags.delta, name)
		if err != nil {
			return err
		}
		history := plan.History()
		history.Header.Unit, history.Header.Secure = record, true
		text := report.Statement(history, solved.answer())
		v := struct {
			Statement string `json:"statement"`
			solvedJSON
		}{text, solved}
		return term.Print(v, text, func(w io.Writer) { fmt.Fprintln(w, text) })
	}
	return cmd
}
