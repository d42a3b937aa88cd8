package main

import (
	"fmt"
	"io"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/internal/number"
	"github.com/dptrain/dptrain/internal/terminal"
	"github.com/spf13/cobra"
)

func newBudgetCompare(term *terminal.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "The ε of a run by every accountant, side by side",
		Long: `Every accountant's ε for the same run. The smallest of them holds, but for those whose
remark says that they are an approximation, or that more is proven for any data.`,
		Example: "  dptrain budget compare --rate 0.01 --noise 4 --steps 10000 --delta 1e-5",
		Args:    noArguments,
	}
	flags := planFlagsOf(cmd, "epsilon")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		plan, err := flags.plan()
		if err != nil {
			return err
		}
		v := struct {
			Rows  []answerJSON `json:"rows"`
			Delta float64      `json:"delta"`
			planJSON
		}{nil, flags.delta, planOf(plan)}
		for _, name := range accountant.Names() {
			a, err := accountant.Epsilon(plan.History(), flags.delta, name)
			if err != nil {
				return err
			}
			v.Rows = append(v.Rows, answerOf(a))
		}
		return term.Print(v, compareBare(v.Rows), func(w io.Writer) {
			fmt.Fprintf(w, "accountant\tepsilon\t\n")
			for _, r := range v.Rows {
				fmt.Fprintf(w, "%s\t%s\t%s\n", r.Accountant, number.RoundUp(float64(r.Epsilon)), r.remark())
			}
			fmt.Fprintf(w, "\ndelta\t%s\n", number.RoundUp(v.Delta))
			v.planJSON.print(w)
		})
	}
	return cmd
}

func (r answerJSON) remark() string {
	switch {
	case r.Note != "":
		return r.Note
	case r.Order != 0:
		return fmt.Sprintf("order %g", r.Order)
	}
	return ""
}

// compareBare is a line an accountant: its name and ε.
func compareBare(rows []answerJSON) string {
	text := ""
	for i, r := range rows {
		if i > 0 {
			text += "\n"
		}
		text += r.Accountant + " " + number.RoundUp(float64(r.Epsilon))
	}
	return text
}
