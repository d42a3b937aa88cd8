package main

import (
	"fmt"
	"io"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/internal/budget"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/number"
	"github.com/dptrain/dptrain/internal/selection"
	"github.com/dptrain/dptrain/internal/terminal"
	"github.com/spf13/cobra"
)

func newLedgerEpsilon(term *terminal.Terminal) *cobra.Command {
	var delta float64
	var name string
	cmd := &cobra.Command{
		Use:   "epsilon FILE",
		Short: "Account for a ledger: the ε that was spent",
		Long: `Computes the ε that everything in a ledger spent together. Without --delta, δ is
the largest power of ten below one over the number of records.`,
		Example: `  dptrain ledger epsilon runs/mnist --delta 1e-5
  dptrain ledger epsilon runs/mnist/ledger.jsonl --accountant rdp --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := exitcode.CheckChoice("accountant", name, accountant.Names()); err != nil {
				return err
			}
			if !cmd.Flags().Changed("delta") {
				delta = 0
			} else if err := budget.CheckDelta(delta); err != nil {
				return err
			}
			if len(args) == 1 {
				if path, is := selection.FindLedger(args[0]); is {
					return printSelectionEpsilon(term, path, delta, name)
				}
			}
			return printLedgerEpsilon(term, args, delta, name)
		},
	}
	cmd.Flags().Float64Var(&delta, "delta", 0, "the δ of (ε, δ), between 0 and 1")
	addAccountantFlag(cmd, &name)
	return cmd
}

// ledgerEpsilon accounts for the ledger that args name; a delta of 0 is the usual one.
func printLedgerEpsilon(term *terminal.Terminal, args []string, delta float64, name string) error {
	path, history, seal, cutShort, err := readLedger(args)
	if err != nil {
		return err
	}
	if delta == 0 {
		delta = engine.DefaultDelta(history.Header.Records)
	}
	answer, err := accountant.Epsilon(history, delta, name)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	h := history.Header
	v := struct {
		budget.Guarantee
		Used    string      `json:"run_accountant,omitempty"` // where the run's own is another
		Steps   int         `json:"steps"`
		Unit    string      `json:"unit"`
		Records int         `json:"records"`
		Secure  bool        `json:"secure"`
		Ended   bool        `json:"ended"`
		Groups  []groupJSON `json:"groups"`
	}{budget.NewGuarantee(answer), "", history.LotCount(), h.Unit, h.Records, h.Secure, seal.Ended, groupsOf(history)}
	if used := usedBy(path, seal.Head); used != answer.Accountant {
		v.Used = used
	}
	if !v.Ended {
		term.Note("State of the ledger: %s.", stateWords(false, cutShort))
	}
	if !h.Secure {
		term.Note("This ledger is insecure: noise or sampling was seeded or not cryptographic, and the ε holds only against those who cannot guess it.")
	}
	warnAboutDelta(term, delta, h.Records)
	return term.Print(v, number.RoundUp(answer.Epsilon), func(w io.Writer) {
		v.Print(w, budget.Epsilon)
		if v.Used != "" {
			fmt.Fprintf(w, "the run used\t%s (its own ε: --accountant %s)\n", v.Used, v.Used)
		}
		fmt.Fprintf(w, "releases\t%d\n", v.Steps)
		fmt.Fprintf(w, "unit of privacy\t%s\n", v.Unit)
	})
}

// usedBy is the accountant that the run used, by the summary beside its ledger; "" where
// there is none.
func usedBy(ledger, head string) string {
	if name, itsHead := summaryBeside(ledger); itsHead == head {
		return name
	}
	return ""
}
