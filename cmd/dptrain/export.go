package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/export"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/flags"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/internal/host/atomicfile"
	"github.com/dptrain/dptrain/internal/modelfile"
	"github.com/dptrain/dptrain/models"
	"github.com/dptrain/dptrain/models/pretrained"
	"github.com/spf13/cobra"
)

// exportResult is the JSON output of export.
type exportResult struct {
	Format  string   `json:"format"`
	Out     string   `json:"out"`
	Model   string   `json:"model"`
	Bytes   int      `json:"bytes"`
	Inputs  []string `json:"inputs,omitempty"`
	Outputs []string `json:"outputs,omitempty"`
}

// exportFlags are the flags of export.
type exportFlags struct {
	format, out string
	folder      bool // the format is that of a folder
	schema      string
	overwrite   bool
}

func newExport(term *terminal.Terminal) *cobra.Command {
	set := &exportFlags{}
	cmd := &cobra.Command{
		Use:     "export DIR",
		Short:   "Write a trained model for PyTorch, transformers or ONNX",
		Long:    helpOf("export").long,
		Example: helpOf("export").examples,
		Args:    oneRunDir("export runs/mine --out mine.onnx"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := set.check(); err != nil {
				return err
			}
			return exportModel(term, args[0], set)
		},
	}
	cmd.Flags().StringVar(&set.out, "out", "", "the file, or the folder, to write")
	cmd.Flags().StringVar(&set.format, "format", "", "the format: "+flags.Alternatives(append(slices.Clone(export.Formats), export.FolderFormats...))+" (default: the extension of --out)")
	cmd.Flags().StringVar(&set.schema, "schema", "", schemaUsage)
	cmd.Flags().BoolVar(&set.overwrite, "overwrite", false, "replace an existing file")
	flags.Complete(cmd, "format", append(slices.Clone(export.Formats), export.FolderFormats...))
	return cmd
}

// check checks the flags and derives the format from the name of the file.
func (f *exportFlags) check() error {
	f.folder = slices.Contains(export.FolderFormats, f.format)
	if f.format != "" {
		if err := exitcode.CheckChoice("format", f.format, append(slices.Clone(export.Formats), export.FolderFormats...)); err != nil {
			return err
		}
	}
	if f.out == "" {
		return exitcode.Usagef("--out is missing: name the file to write, as in --out mine.onnx")
	}
	switch named := export.FormatOf(f.out); {
	case f.folder && named == "":
	case named == "" && f.format == "":
		return exitcode.Usagef("--out %s: the name does not say the format; let it end in .%s, or add --format", f.out, strings.Join(export.Formats, " or ."))
	case named != "" && f.format != "" && named != f.format:
		return exitcode.Usagef("--out %s contradicts --format %s: drop the flag or change the name", f.out, f.format)
	case f.format == "":
		f.format = named
	}
	return nil
}

func exportModel(term *terminal.Terminal, dir string, set *exportFlags) error {
	model, err := readModel(dir, set.schema)
	if err != nil {
		return err
	}
	checkpoint, err := models.Pretrained(model.Model)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	if set.folder {
		if err := checkOutFolder(set.out, dir, checkpoint); err != nil {
			return err
		}
		return exportFolder(term, dir, model, set)
	}
	var inputs []string
	if checkpoint != nil {
		if inputs, err = checkpoint.WeightFiles(); err != nil {
			return exitcode.AsUsage(err)
		}
	}
	if err := checkOut(set.out, dir, inputs...); err != nil {
		return err
	}
	if _, err := os.Stat(set.out); err == nil && !set.overwrite {
		return exitcode.Usagef("--out %s exists: choose another name, or replace the file with --overwrite", set.out)
	}
	file, err := export.Model(set.format, model)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	if err := atomicfile.Write(set.out, file.Content); err != nil {
		return exitcode.AsUsage(fmt.Errorf("--out %s: %w", set.out, err))
	}
	result := exportResult{set.format, set.out, model.Model, len(file.Content), file.Inputs, file.Outputs}
	return term.Print(result, set.out, func(w io.Writer) {
		fmt.Fprintf(w, "model\t%s\nformat\t%s\nfile\t%s (%d bytes)\n", model.Model, set.format, set.out, len(file.Content))
		if file.Inputs != nil {
			fmt.Fprintf(w, "inputs\t%s\noutputs\t%s\n", strings.Join(file.Inputs, ", "), strings.Join(file.Outputs, ", "))
		}
	})
}

// checkOutFolder refuses to replace files of a run directory, and of the checkpoint that the run started from.
func checkOutFolder(out, dir string, checkpoint *pretrained.Model) error {
	_, err := os.Stat(filepath.Join(out, rundir.LedgerFile))
	switch {
	case err == nil || settings.SameFile(out, dir):
		return exitcode.Usagef("--out %s is the folder of a run: choose another folder", out)
	case checkpoint != nil && settings.SameFile(out, checkpoint.Dir):
		return exitcode.Usagef("--out %s is the checkpoint that the run started from: choose another folder", out)
	}
	return nil
}

// hubCard is the file of a model card on the Hugging Face Hub.
const hubCard = "README.md"

// exportFolder writes a model as a folder of files, with the model card of its run.
func exportFolder(term *terminal.Terminal, dir string, model *modelfile.Model, set *exportFlags) error {
	entries, err := os.ReadDir(set.out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return exitcode.Usagef("--out %s: %w", set.out, err)
	}
	if len(entries) > 0 && !set.overwrite {
		return exitcode.Usagef("--out %s contains files: choose another folder, or replace files in it with --overwrite", set.out)
	}
	files, err := export.Folder(set.format, model)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	card, err := os.ReadFile(filepath.Join(dir, rundir.CardFile))
	if err == nil {
		files = append(files, pretrained.File{Name: hubCard, Content: card})
	} else if !errors.Is(err, fs.ErrNotExist) { // a server's model has none
		return exitcode.AsUsage(err)
	}
	// The largest file is first: a disk that is full leaves an older export as it is.
	slices.SortStableFunc(files, func(a, b pretrained.File) int { return len(b.Content) - len(a.Content) })
	result := exportResult{Format: set.format, Out: set.out, Model: model.Model}
	for _, file := range files {
		path := filepath.Join(set.out, file.Name)
		if err := cmp.Or(os.MkdirAll(filepath.Dir(path), 0o777), atomicfile.Write(path, file.Content)); err != nil {
			return exitcode.AsUsage(fmt.Errorf("--out %s: %w", set.out, err))
		}
		result.Bytes += len(file.Content)
	}
	return term.Print(result, set.out, func(w io.Writer) {
		fmt.Fprintf(w, "model\t%s\nformat\t%s\nfolder\t%s (%s, %d bytes)\n", model.Model, set.format, set.out, number.Plural(len(files), "file"), result.Bytes)
	})
}

// checkOut refuses to replace a file of the run directory, an input file, or anything that is
// not a regular file, such as a device.
func checkOut(out, dir string, inputs ...string) error {
	if settings.SameFile(filepath.Dir(out), dir) && slices.Contains(rundir.Files, filepath.Base(out)) {
		return exitcode.Usagef("--out %s is a file of the run itself: choose another file", out)
	}
	if info, err := os.Stat(out); err == nil && !info.Mode().IsRegular() {
		return exitcode.Usagef("--out %s exists and is not a regular file: choose another file", out)
	}
	if slices.ContainsFunc(inputs, func(file string) bool { return settings.SameFile(out, file) }) {
		return exitcode.Usagef("--out %s is also the input: choose another file", out)
	}
	return nil
}
