package main

import (
	"fmt"
	"io"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/number"
	"github.com/dptrain/dptrain/internal/report"
	"github.com/dptrain/dptrain/internal/terminal"
	"github.com/spf13/cobra"
)

// answerJSON is an accountant's answer as scripts see it.
type answerJSON struct {
	Epsilon    number.Float     `json:"epsilon"`
	Delta      number.Float     `json:"delta"`
	Accountant string           `json:"accountant"`
	Adjacency  ledger.Adjacency `json:"adjacency,omitempty"`
	Order      float64          `json:"order,omitempty"`
	Lower      number.Float     `json:"lower,omitempty"`
	Proven     number.Float     `json:"proven,omitempty"`
	Note       string           `json:"note,omitempty"`
}

func answerOf(a accountant.Guarantee) answerJSON {
	return answerJSON{number.Float(a.Epsilon), number.Float(a.Delta), a.Accountant, a.Adjacency, a.Order, number.Float(a.LowerBound), number.Float(a.ProvenBound), a.Note}
}

// answer is the accountant's answer again.
func (a answerJSON) answer() accountant.Guarantee {
	return accountant.Guarantee{Epsilon: float64(a.Epsilon), Delta: float64(a.Delta), Accountant: a.Accountant,
		Adjacency: a.Adjacency, Order: a.Order, LowerBound: float64(a.Lower), ProvenBound: float64(a.Proven), Note: a.Note}
}

// epsilonWords is an ε, and beside it what is proven for any data, where that is more.
func epsilonWords(epsilon, proven number.Float) string {
	if proven == 0 {
		return number.RoundUp(float64(epsilon))
	}
	return fmt.Sprintf("%s (published), %s (proven for any data)", number.RoundUp(float64(epsilon)), number.RoundUp(float64(proven)))
}

// print writes the answer; where it is δ that was computed, δ stands elsewhere, and
// where ε was asked for, what was reached of it.
func (a answerJSON) print(w io.Writer, computed string) {
	epsilon := number.RoundUp(float64(a.Epsilon))
	if computed == "epsilon" {
		epsilon = epsilonWords(a.Epsilon, a.Proven)
	}
	fmt.Fprintf(w, "epsilon\t%s\n", epsilon)
	if computed != "delta" {
		fmt.Fprintf(w, "delta\t%s\n", number.RoundUp(float64(a.Delta)))
	}
	fmt.Fprintf(w, "accountant\t%s\n", a.accountantWords())
	fmt.Fprintf(w, "adjacency\t%s\n", a.Adjacency)
	if a.Note != "" {
		fmt.Fprintf(w, "note\t%s\n", a.Note)
	}
}

func (a answerJSON) accountantWords() string {
	if a.Order != 0 {
		return fmt.Sprintf("%s (order %g)", a.Accountant, a.Order)
	}
	return a.Accountant
}

func accountantFlag(cmd *cobra.Command, name *string) {
	names := accountant.Names()
	cmd.Flags().StringVar(name, "accountant", names[0], "who counts: "+list(names))
	complete(cmd, "accountant", names)
}

// complete offers the values of a flag to the shell.
func complete(cmd *cobra.Command, flag string, values []string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag was defined the line before
	}
}

// insecureWords are what everything says that shows the ε of a seeded run.
const insecureWords = "INSECURE: noise and lots come from --seed, so whoever knows the seed can subtract the noise"

// deltaWarning is report's, and what to do.
func deltaWarning(delta float64, records int) string {
	if w := report.DeltaWarning(delta, records); w != "" {
		return w + "; give a smaller --delta"
	}
	return ""
}

func warnAboutDelta(term *terminal.Terminal, delta float64, records int) {
	if w := deltaWarning(delta, records); w != "" {
		term.Note("Warning: %s.", w)
	}
}

func checkDelta(delta float64) error {
	if !(delta > 0 && delta < 1) {
		return exitcode.Usagef("--delta %v is impossible: give a value above 0 and below 1, usually well below one over the number of records", delta)
	}
	return nil
}
