package main

import (
	"fmt"
	"io"

	"github.com/dptrain/dptrain/accountant"
	"github.com/spf13/cobra"
)

// answerJSON is an accountant's answer as scripts see it.
type answerJSON struct {
	Epsilon    number               `json:"epsilon"`
	Delta      number               `json:"delta"`
	Accountant string               `json:"accountant"`
	Adjacency  accountant.Adjacency `json:"adjacency"`
	Order      float64              `json:"order,omitempty"`
	Lower      number               `json:"lower,omitempty"`
	Note       string               `json:"note,omitempty"`
}

func answerOf(a accountant.Answer) answerJSON {
	return answerJSON{number(a.Epsilon), number(a.Delta), a.Accountant, a.Adjacency, a.Order, number(a.Lower), a.Note}
}

// answer is the accountant's answer again.
func (a answerJSON) answer() accountant.Answer {
	return accountant.Answer{Epsilon: float64(a.Epsilon), Delta: float64(a.Delta), Accountant: a.Accountant,
		Adjacency: a.Adjacency, Order: a.Order, Lower: float64(a.Lower), Note: a.Note}
}

// print writes the answer; where it is δ that was computed, δ stands elsewhere.
func (a answerJSON) print(w io.Writer, computed string) {
	fmt.Fprintf(w, "epsilon\t%s\n", roundUp(float64(a.Epsilon)))
	if computed != "delta" {
		fmt.Fprintf(w, "delta\t%s\n", roundUp(float64(a.Delta)))
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

// deltaWarning says what is wrong with a δ that lets a mechanism show a record in
// full; "" where it does not (Dwork and Roth 2014, section 2.3).
func deltaWarning(delta float64, records int) string {
	if delta*float64(records) < 1 {
		return ""
	}
	return fmt.Sprintf("δ = %v is not below one over the %d records, so publishing one of them as it is would satisfy the guarantee; give a smaller --delta", delta, records)
}

func checkDelta(delta float64) error {
	if !(delta > 0 && delta < 1) {
		return wrong("--delta %v is impossible: give a value above 0 and below 1, usually well below one over the number of records", delta)
	}
	return nil
}
