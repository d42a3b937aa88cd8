package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/flags"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/prediction"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/host/atomicfile"
	"github.com/dptrain/dptrain/models/inference"
	"github.com/spf13/cobra"
)

// predictResult is the JSON output of predict.
type predictResult struct {
	Examples int      `json:"examples"`
	Out      string   `json:"out"`
	Format   string   `json:"format"`
	Columns  []string `json:"columns"`
	Data     string   `json:"data"`
	Model    string   `json:"model"`
}

// predictFlags are the flags of predict. Of the run's flags it uses the data, the output file
// and the device.
type predictFlags struct {
	settings.Flags
	format           string
	allProbabilities bool
	serve            string // HOST:PORT
	remote           bool
}

func newPredict(term *terminal.Terminal) *cobra.Command {
	set := &predictFlags{}
	cmd := &cobra.Command{
		Use:     "predict DIR",
		Short:   "Predict new examples with a trained model",
		Long:    helpOf("predict").long,
		Example: helpOf("predict").examples,
		Args:    oneRunDir("predict runs/mine --data new.csv"),
		RunE: func(_ *cobra.Command, args []string) error {
			return predict(term, args[0], set)
		},
	}
	f := cmd.Flags()
	f.StringVar(&set.Data, "data", "", "the examples: a file, a folder, or the name of a data set")
	f.StringVar(&set.DataDir, "data-dir", "", "the folder with the files of a named data set")
	f.StringVar(&set.Schema, "schema", "", schemaUsage)
	f.StringVar(&set.Tokens, "tokens", "", "vectors:FILE or tokenizer:FILE: where the file with the word vectors, or the tokenizer, is now, if the model was trained with it (default: its path in training)")
	f.StringVar(&set.Out, "out", "", "the file to write (default: standard output)")
	f.StringVar(&set.format, "format", "", flags.Alternatives(prediction.FileFormats)+" (default: jsonl if --out ends in .jsonl, otherwise csv)")
	f.BoolVar(&set.allProbabilities, "scores", false, "add the probability of every class to each line")
	f.StringVar(&set.serve, "serve", "", "HOST:PORT: answer POST /v1/predict there until a signal ends the command; GET /openapi.json describes it")
	f.BoolVar(&set.remote, "remote", false, "with --serve: permit an address that other machines reach, behind a proxy with TLS and authentication")
	flags.Complete(cmd, "format", prediction.FileFormats)
	settings.DefineDeviceFlags(f, &set.Device)
	completeChoices(cmd, settings.DeviceChoices())
	return cmd
}

// locateVectors sets where the word vectors, or the tokenizer, of a model are.
func (s *predictFlags) locateVectors(schema *data.Schema) error {
	if s.Tokens == "" {
		return nil
	}
	var given data.Schema
	if err := given.SetTokens(s.Tokens); err != nil {
		return fmt.Errorf("--tokens: %w", err)
	}
	if given.Vectors == nil && given.Tokenizer == nil {
		return fmt.Errorf("--tokens %s: the model's own conversion of text is used; only vectors:FILE and tokenizer:FILE can be given, for a file that has moved", s.Tokens)
	}
	if err := given.Vectors.CheckTrained(schema.Vectors); err != nil {
		return err
	}
	if err := given.Tokenizer.CheckTrained(schema.Tokenizer); err != nil {
		return err
	}
	schema.Vectors, schema.Tokenizer = given.Vectors, given.Tokenizer
	return nil
}

// openModel opens the model of a folder on a device. name is that of its network.
func openModel(dir string, set *predictFlags) (model *inference.Model, name string, err error) {
	file, err := readModel(dir, set.Schema)
	if err != nil {
		return nil, "", err
	}
	if err := set.locateVectors(&file.Schema); err != nil {
		return nil, "", exitcode.AsUsage(err)
	}
	network := inference.Network{Build: file.Build, Classes: file.ClassNames, Targets: file.Targets, Labels: file.Labels,
		Options: file.Options(), Input: file.Input()}
	if model, err = inference.New(network, set.Device); err != nil {
		return nil, "", exitcode.Usagef("%s: %w", dir, err)
	}
	if err := model.Open(); err != nil {
		return nil, "", exitcode.AsUsage(err)
	}
	return model, file.Model, nil
}

func predict(term *terminal.Terminal, dir string, set *predictFlags) error {
	if set.serve != "" {
		return servePredictions(term, dir, set)
	}
	if set.remote {
		return exitcode.Usagef("--remote belongs to --serve HOST:PORT")
	}
	if set.Data == "" && term.HasInput() {
		set.Data = data.StandardInput
	}
	if err := set.check(term.JSON); err != nil {
		return err
	}
	model, name, err := openModel(dir, set)
	if err != nil {
		return err
	}
	defer model.Close()
	format, err := prediction.NewFormat(model, set.allProbabilities)
	if err != nil {
		return exitcode.Usagef("%s: %w", dir, err)
	}
	if set.Out != "" {
		if err := checkOut(set.Out, dir, set.Data); err != nil {
			return err
		}
	}
	input := bufio.NewReader(term.In)
	var objects bool // on standard input
	examples, err := terminal.Await(term, "Reading "+set.Data, func() (data.Unlabeled, error) {
		if set.Data == data.StandardInput {
			if head, _ := input.Peek(8); data.IsColumnar(head) {
				return model.ReadTable(input)
			}
			objects = true
			return model.ReadRows(input, "standard input")
		}
		return model.ReadFile(set.Data, set.DataDir)
	})
	if err != nil {
		return exitcode.AsUsage(err)
	}
	if objects && set.Out == "" && examples.Len() == 1 {
		return printAnswer(term, model, examples.Set)
	}
	if term.JSON && set.Out == "" {
		return exitcode.Usagef("--out is missing: with --json the predictions of %d examples cannot go to standard output; name a file for them, as in --out answers.csv", examples.Len())
	}
	columns := format.Columns
	if examples.Files != nil {
		columns = slices.Insert(slices.Clone(columns), 0, "file")
	}
	write := func(w io.Writer) error {
		return writePredictions(term, model, examples, format, prediction.NewWriter(w, set.format, columns), set.Out)
	}
	if set.Out == "" {
		return exitcode.AsFailure(write(term.Out))
	}
	var predictionError *exitcode.Error
	switch err := atomicfile.WriteFunc(set.Out, write); {
	case errors.As(err, &predictionError): // the predictions failed, not the file
		return err
	case errors.Is(err, fs.ErrNotExist):
		return exitcode.Usagef("--out %s: %w", set.Out, err)
	case err != nil:
		return exitcode.AsFailure(fmt.Errorf("--out %s: %w", set.Out, err))
	}
	result := predictResult{examples.Len(), set.Out, set.format, columns, set.Data, name}
	return term.Print(result, set.Out, func(w io.Writer) {
		fmt.Fprintf(w, "model\t%s\nexamples\t%d\nfile\t%s\n", name, examples.Len(), set.Out)
	})
}

// check checks the flags and sets the default format.
func (f *predictFlags) check(json bool) error {
	if f.Data == "" {
		return exitcode.Usagef("--data is missing: name the new examples, as in --data new.csv, or pipe in a JSON object with the columns")
	}
	if json && f.Out == "" && f.Data != data.StandardInput {
		return exitcode.Usagef("--out is missing: with --json the predictions cannot go to standard output; name a file for them, as in --out answers.csv")
	}
	if f.format == "" {
		f.format = prediction.FileFormats[0]
		if strings.HasSuffix(strings.ToLower(f.Out), ".jsonl") {
			f.format = "jsonl"
		}
	}
	return exitcode.CheckChoice("format", f.format, prediction.FileFormats)
}

// writePredictions writes a row for each example.
func writePredictions(term *terminal.Terminal, model *inference.Model, examples data.Unlabeled,
	format prediction.Format, rows *prediction.Writer, out string) error {
	ctx, stop := untilInterrupted()
	defer stop()
	progress := term.NewExampleProgress("", examples.Len(), out != "")
	defer progress.Close()
	var cells []any
	err := model.PredictSet(examples.Set, func(i int, p inference.Prediction) error {
		if errors.Is(ctx.Err(), context.Canceled) {
			return interruptedError(i, examples.Len(), out)
		}
		if cells = cells[:0]; examples.Files != nil {
			cells = append(cells, examples.Files[i])
		}
		cells = format.AppendCells(cells, p)
		err := errors.Join(rows.Write(cells), progress.Update(i+1))
		if err != nil {
			err = &exitcode.Error{Code: exitcode.Failed, Err: err}
		}
		return err
	})
	if err != nil {
		return exitcode.AsUsage(err)
	}
	return rows.Flush()
}

func interruptedError(done, total int, out string) error {
	written := "the output is incomplete"
	if out != "" {
		written = out + " was not written"
	}
	return &exitcode.Error{Code: exitcode.Interrupted, Err: fmt.Errorf("interrupted after %d of %d examples: %s", done, total, written)}
}
