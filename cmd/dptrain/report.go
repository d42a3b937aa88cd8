package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/dptrain/dptrain/internal/atomicfile"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/report"
	"github.com/dptrain/dptrain/internal/terminal"
	"github.com/spf13/cobra"
)

func newReport(term *terminal.Terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "report DIR",
		Short: "Write report.html and MODEL_CARD.md of a run again",
		Long: `Writes the page and the model card in a run's folder, from run.json, metrics.jsonl
and the ledger, which is verified first. All that they show is public.`,
		Example: "  dptrain report runs/mine",
		Args:    oneRunDir("report runs/mine"),
		RunE: func(_ *cobra.Command, args []string) error {
			files, err := writeReport(args[0])
			if errors.Is(err, report.ErrOtherLedger) {
				return &exitcode.Error{Code: exitcode.Damaged, Err: err}
			}
			if err != nil {
				return exitcode.AsUsage(err)
			}
			v := struct {
				Files []string `json:"files"`
			}{files}
			return term.Print(v, files[0], func(w io.Writer) {
				for _, f := range files {
					fmt.Fprintf(w, "wrote\t%s\n", f)
				}
			})
		},
	}
}

// writeReport writes what people read of a run into its folder.
func writeReport(dir string) (files []string, err error) {
	run, err := report.Open(dir)
	if err != nil {
		return nil, err
	}
	page, err := run.Page()
	if err != nil {
		return nil, err
	}
	card, err := run.Card()
	if err != nil {
		return nil, err
	}
	files = []string{filepath.Join(dir, "report.html"), filepath.Join(dir, "MODEL_CARD.md")}
	for i, content := range [][]byte{page, card} {
		if err := atomicfile.Write(files[i], content); err != nil {
			return nil, err
		}
	}
	return files, nil
}
