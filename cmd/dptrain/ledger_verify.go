package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/number"
	"github.com/dptrain/dptrain/internal/terminal"
	"github.com/spf13/cobra"
)

func newLedgerVerify(term *terminal.Terminal) *cobra.Command {
	var head string
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Check that no line of a ledger was changed, dropped, moved or cut",
		Long: `Checks every line of a ledger against its check value and the hash of the line
before. The exit code is 4 if one is wrong, and the message names it. Lines missing
at the end only show in its head: that in run.json beside a run's ledger is looked
for, and one that you know from elsewhere is given with --head.`,
		Example: `  dptrain ledger verify runs/mnist
  dptrain ledger verify runs/mnist/ledger.jsonl --head 3d204fc9…`,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := ledgerPath(args)
			if err != nil {
				return err
			}
			report, err := ledger.Verify(path)
			if err == nil && head == "" {
				err = checkSummary(path)
			} else if err == nil && head != report.Head {
				err = &exitcode.Error{Code: exitcode.Damaged, Err: fmt.Errorf("%s: its head is %s, not %s: lines are missing or were added at its end, or it is another run's", path, report.Head, head)}
			}
			v := struct {
				OK      bool   `json:"ok"`
				Entries int    `json:"entries"`
				Head    string `json:"head"`
				Steps   int    `json:"steps"`
				Runs    int    `json:"runs"`
				Ended   bool   `json:"ended"`
				Line    int    `json:"line,omitempty"` // the first that is damaged
				Why     string `json:"why,omitempty"`
			}{err == nil, report.Entries, report.Head, report.Lots, report.Runs, report.Ended, 0, ""}
			if err != nil {
				v.Why = err.Error()
				if damage := (*ledger.DamageError)(nil); errors.As(err, &damage) {
					v.Line, v.Why = damage.Line, damage.Reason
				}
				if term.JSON && exitcode.Of(err) == exitcode.Damaged {
					return errors.Join(err, term.Print(v, "", nil))
				}
				return err
			}
			return term.Print(v, "ok", func(w io.Writer) {
				fmt.Fprintf(w, "ok\t%s, %s, %s\n", number.Plural(v.Entries, "line"), number.Plural(v.Steps, "release"), number.Plural(v.Runs, "run"))
				fmt.Fprintf(w, "state\t%s\n", stateWords(v.Ended, false))
				fmt.Fprintf(w, "head\t%s\n", v.Head)
			})
		},
	}
	cmd.Flags().StringVar(&head, "head", "", "the hash of the last line, as recorded elsewhere")
	return cmd
}

// checkSummary finds that a run's ledger lacks the line that was its last when the summary
// was written; a run that was resumed since has others after it.
func checkSummary(path string) error {
	_, head := summaryBeside(path)
	if head == "" || filepath.Base(path) != "ledger.jsonl" {
		return nil
	}
	holds, err := ledger.ContainsHead(path, head)
	if err == nil && !holds {
		err = &exitcode.Error{Code: exitcode.Damaged, Err: fmt.Errorf("%s: it lacks the line whose hash is ledger_head in the run.json beside it, %s: lines are missing at its end, or it is another run's", path, head)}
	}
	return err
}
