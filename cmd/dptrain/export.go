package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/dptrain/dptrain/internal/atomicfile"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/export"
	"github.com/dptrain/dptrain/internal/flags"
	"github.com/dptrain/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/internal/runspec"
	"github.com/dptrain/dptrain/internal/terminal"
	"github.com/spf13/cobra"
)

// exportResult is the JSON output of export.
type exportResult struct {
	Format string `json:"format"`
	Out    string `json:"out"`
	Model  string `json:"model"`
	Bytes  int    `json:"bytes"`
}

func newExport(term *terminal.Terminal) *cobra.Command {
	var format, out string
	cmd := &cobra.Command{
		Use:   "export DIR",
		Short: "Write a trained model for PyTorch or ONNX",
		Long: `Write the model of a run directory in a format of other programs.

safetensors: the weights with the names and shapes of PyTorch's state_dict. Dense weights
have the shape [out, in]. Convolutions, embeddings and norms keep their shapes. The weights
of an LSTM or a GRU have the names and the order of torch.nn.LSTM and torch.nn.GRU. The
directions of train --project are projection.weight, a torch.nn.Linear without bias before
the first layer. Python's safetensors and dptrain train --init load the file. The network
of a --target outputs a number that is -1 and 1 at the bounds of the target.

onnx: the whole network, with any number of examples on axis 0, for onnxruntime. The input
is called features (numbers, or indices as int64) and the output output. The output for a
--target is in the units of the target.

Both files are functions of the trained weights, so they cost no additional privacy.`,
		Example: `  dptrain export runs/mine --format safetensors --out mine.safetensors
  dptrain export runs/mine --format onnx --out mine.onnx`,
		Args: oneRunDir("export runs/mine --format onnx --out mine.onnx"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := exitcode.CheckChoice("format", format, export.Formats); err != nil {
				return err
			}
			if out == "" {
				return exitcode.Usagef("--out is missing: name the file to write, as in --out mine.%s", format)
			}
			return exportModel(term, args[0], format, out)
		},
	}
	cmd.Flags().StringVar(&format, "format", export.Formats[0], "the format: "+flags.Alternatives(export.Formats))
	cmd.Flags().StringVar(&out, "out", "", "the file to write")
	flags.Complete(cmd, "format", export.Formats)
	return cmd
}

func exportModel(term *terminal.Terminal, dir, format, out string) error {
	model, err := rundir.ReadModel(dir)
	if err != nil {
		return err
	}
	if err := checkOut(out, dir); err != nil {
		return err
	}
	file, err := export.Model(format, model)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	if err := atomicfile.Write(out, file); err != nil {
		return exitcode.AsUsage(fmt.Errorf("--out %s: %w", out, err))
	}
	return term.Print(exportResult{format, out, model.Model, len(file)}, out, func(w io.Writer) {
		fmt.Fprintf(w, "model\t%s\nformat\t%s\nfile\t%s (%d bytes)\n", model.Model, format, out, len(file))
	})
}

// checkOut refuses to replace a file of the run directory, an input file, or anything that is
// not a regular file, such as a device.
func checkOut(out, dir string, inputs ...string) error {
	if runspec.SameFile(filepath.Dir(out), dir) && slices.Contains(rundir.Files, filepath.Base(out)) {
		return exitcode.Usagef("--out %s is a file of the run itself: choose another file", out)
	}
	if info, err := os.Stat(out); err == nil && !info.Mode().IsRegular() {
		return exitcode.Usagef("--out %s exists and is not a regular file: choose another file", out)
	}
	if slices.ContainsFunc(inputs, func(file string) bool { return runspec.SameFile(out, file) }) {
		return exitcode.Usagef("--out %s is also the input: choose another file", out)
	}
	return nil
}
