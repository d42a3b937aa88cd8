package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/report"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/internal/host/atomicfile"
	"github.com/dptrain/dptrain/internal/modelfile"
	"github.com/spf13/cobra"
)

func newReport(term *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "report DIR",
		Short: "Write the report and the model card of a run again",
		Long: `Writes report.html and MODEL_CARD.md in a run directory, from run.json, metrics.jsonl and
the ledger. It verifies the ledger and the weights first. Everything that they show is public.`,
		Example: "  dptrain report runs/mine",
		Args:    oneRunDir("report runs/mine"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := modelfile.VerifyWeights(args[0]); err != nil {
				return exitcode.AsUsage(err)
			}
			files, statement, err := writeReport(args[0])
			if errors.Is(err, report.ErrOtherLedger) {
				return &exitcode.Error{Code: exitcode.Damaged, Err: err}
			}
			if err != nil {
				return exitcode.AsUsage(err)
			}
			v := struct {
				Files     []string `json:"files"`
				Statement string   `json:"statement"` // on privacy
			}{files, statement}
			return term.Print(v, files[0], func(w io.Writer) {
				for _, f := range files {
					fmt.Fprintf(w, "wrote\t%s\n", f)
				}
			})
		},
	}
}

// writeReport writes the report and the model card into a run directory, and returns the statement on
// privacy.
func writeReport(dir string) (files []string, statement string, err error) {
	run, err := report.Open(dir)
	if err != nil {
		return nil, "", err
	}
	page, err := run.Page()
	if err != nil {
		return nil, "", err
	}
	card, err := run.Card()
	if err != nil {
		return nil, "", err
	}
	files = []string{filepath.Join(dir, rundir.ReportFile), filepath.Join(dir, rundir.CardFile)}
	for i, content := range [][]byte{page, card} {
		if err := atomicfile.Write(files[i], content); err != nil {
			return nil, "", err
		}
	}
	return files, run.Statement(), nil
}
