package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/atomicfile"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/flags"
	"github.com/dptrain/dptrain/internal/onnx"
	"github.com/dptrain/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/internal/runspec"
	"github.com/dptrain/dptrain/internal/safetensors"
	"github.com/dptrain/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/internal/torch"
	"github.com/dptrain/dptrain/perexample"
	"github.com/spf13/cobra"
	G "gorgonia.org/gorgonia"
)

// exported is what export answers.
type exported struct {
	Format string `json:"format"`
	Out    string `json:"out"`
	Model  string `json:"model"`
	Bytes  int    `json:"bytes"`
}

var exportFormats = []string{"safetensors", "onnx"}

func newExport(term *terminal.Terminal) *cobra.Command {
	var format, out string
	cmd := &cobra.Command{
		Use:   "export DIR",
		Short: "Write a trained model for PyTorch or ONNX",
		Long: `Write the model in a run's folder for other programs.

safetensors: the weights with the names and shapes of PyTorch's state_dict. Dense
weights are [out, in]; convolutions, embeddings and norms are as they are; those of
an LSTM or a GRU are named and ordered as torch.nn.LSTM and torch.nn.GRU have them;
the directions of train --project are projection.weight, a torch.nn.Linear without
bias before the first layer.
Python's safetensors loads the file, and so does dptrain train --init. Of a --target
they answer a number that is -1 and 1 at its limits.

onnx: the whole network, with any number of examples on axis 0; onnxruntime runs
it. The input is called features (numbers, or indices as int64), the output output: of
a --target it is in the target's own units.

Both are functions of the trained weights: they cost no privacy beyond the run's.`,
		Example: `  dptrain export runs/mine --format safetensors --out mine.safetensors
  dptrain export runs/mine --format onnx --out mine.onnx`,
		Args: oneRunDir("export runs/mine --format onnx --out mine.onnx"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := exitcode.CheckChoice("format", format, exportFormats); err != nil {
				return err
			}
			if out == "" {
				return exitcode.Usagef("--out is missing: name the file to write, as in --out mine.%s", format)
			}
			return exportModel(term, args[0], format, out)
		},
	}
	cmd.Flags().StringVar(&format, "format", exportFormats[0], "what to write: "+flags.Alternatives(exportFormats))
	cmd.Flags().StringVar(&out, "out", "", "the file to write")
	flags.Complete(cmd, "format", exportFormats)
	return cmd
}

func exportModel(term *terminal.Terminal, dir, format, out string) error {
	b, err := rundir.ReadModel(dir)
	if err != nil {
		return err
	}
	if err := checkOut(out, dir); err != nil {
		return err
	}
	file, err := exportAs(format, b, map[string]string{"model": b.Model})
	if err != nil {
		return exitcode.AsUsage(err)
	}
	if err := atomicfile.Write(out, file); err != nil {
		return exitcode.AsUsage(fmt.Errorf("--out %s: %w", out, err))
	}
	return term.Print(exported{format, out, b.Model, len(file)}, out, func(w io.Writer) {
		fmt.Fprintf(w, "model\t%s\nformat\t%s\nfile\t%s (%d bytes)\n", b.Model, format, out, len(file))
	})
}

// checkOut refuses to replace what a run's folder holds, what is read, or what is no
// plain file, such as a device.
func checkOut(out, dir string, read ...string) error {
	if runspec.SameFile(filepath.Dir(out), dir) && slices.Contains(rundir.Files, filepath.Base(out)) {
		return exitcode.Usagef("--out %s is the run's own: choose another file", out)
	}
	if info, err := os.Stat(out); err == nil && !info.Mode().IsRegular() {
		return exitcode.Usagef("--out %s is there, and no plain file: choose another", out)
	}
	if slices.ContainsFunc(read, func(file string) bool { return runspec.SameFile(out, file) }) {
		return exitcode.Usagef("--out %s is what is read: choose another file", out)
	}
	return nil
}

// inUnits has a network answer in the units of a target with such limits.
func inUnits(build perexample.Build, b data.Bounds) perexample.Build {
	return func(batch int) (*perexample.Network, error) {
		net, err := build(batch)
		if err != nil {
			return nil, err
		}
		grown, err := G.HadamardProd(net.Output, G.NewConstant(float32(b.ScaleFactor())))
		if err != nil {
			return nil, err
		}
		net.Output, err = G.Add(grown, G.NewConstant(float32(b.Unscale(0))))
		return net, err
	}
}

// exportAs gives a network in a format of other programs.
func exportAs(format string, b *rundir.Model, metadata map[string]string) ([]byte, error) {
	build := b.Build
	if format == "onnx" {
		if s := b.Schema; s.Target != "" {
			build = inUnits(build, s.Bounds[s.Target])
		}
		return onnx.Model(build, metadata)
	}
	net, err := build(1)
	if err != nil {
		return nil, err
	}
	tensors, err := torch.Export(net)
	if err != nil {
		return nil, err
	}
	if b.Directions != nil {
		tensors = append(tensors, safetensors.Tensor(rundir.DirectionsParameter(b.Directions, b.Shape)))
	}
	metadata["format"] = string(torch.PyTorch)
	var file bytes.Buffer
	err = safetensors.Write(&file, tensors, metadata)
	return file.Bytes(), err
}
