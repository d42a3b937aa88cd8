package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/flags"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/report"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/internal/host/atomicfile"
	"github.com/dptrain/dptrain/internal/modelfile"
	"github.com/spf13/cobra"
)

// reportFormats are the documents that report writes for others, with their default names in the run's
// directory.
var reportFormats = map[string]string{"model-card": "README.md", "registry": "registry.json", "aisvs": "AISVS-12.3.md", "mlflow": "mlruns"}

func newReport(term *terminal.Terminal) *cobra.Command {
	var format, out string
	formats := slices.Sorted(maps.Keys(reportFormats))
	cmd := &cobra.Command{
		Use:     "report DIR",
		Short:   "Write the report and the model card of a run again, or documents for other tools",
		Long:    helpOf("report").long,
		Example: helpOf("report").examples,
		Args:    oneRunDir("report runs/mine"),
		RunE: func(_ *cobra.Command, args []string) error {
			if format != "" {
				if err := exitcode.CheckChoice("format", format, formats); err != nil {
					return err
				}
			} else if out != "" {
				return exitcode.Usagef("--out needs --format; without both, report writes into the run directory")
			}
			if err := modelfile.VerifyWeights(args[0]); err != nil {
				return exitcode.AsUsage(err)
			}
			write := writeReport
			if format != "" {
				write = func(dir string) ([]string, string, error) { return writeDocument(dir, format, out) }
			}
			files, statement, err := write(args[0])
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
	cmd.Flags().StringVar(&format, "format", "", "write a document for others: "+flags.Alternatives(formats))
	cmd.Flags().StringVar(&out, "out", "", "with --format: the file, or the store of MLflow, to write")
	flags.Complete(cmd, "format", formats)
	return cmd
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

// writeDocument writes a document for others and returns its path, and the statement on privacy.
func writeDocument(dir, format, out string) (files []string, statement string, err error) {
	run, err := report.Open(dir)
	if err != nil {
		return nil, "", err
	}
	files = []string{cmp.Or(out, filepath.Join(dir, reportFormats[format]))}
	if format == "mlflow" {
		files[0], err = run.WriteMLflow(dir, files[0])
		return files, run.Statement(), err
	}
	if err := checkOut(files[0], dir); err != nil {
		return nil, "", err
	}
	text, err := map[string]func() ([]byte, error){"model-card": run.Card, "registry": run.Registry, "aisvs": run.Safeguards}[format]()
	if err != nil {
		return nil, "", err
	}
	return files, run.Statement(), atomicfile.Write(files[0], text)
}
