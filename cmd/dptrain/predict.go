package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/atomicfile"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/flags"
	"github.com/dptrain/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/internal/runspec"
	"github.com/dptrain/dptrain/internal/terminal"
	"github.com/spf13/cobra"
)

// prediction is what predict answers.
type prediction struct {
	Examples int      `json:"examples"`
	Out      string   `json:"out"`
	Format   string   `json:"format"`
	Columns  []string `json:"columns"`
	Data     string   `json:"data"`
	Model    string   `json:"model"`
}

// asked is what predict is asked for, and of which data.
type asked struct {
	runspec.Flags // where data, answers and programs are
	format        string
	scores        bool
}

func newPredict(term *terminal.Terminal) *cobra.Command {
	set := &asked{}
	cmd := &cobra.Command{
		Use:   "predict DIR",
		Short: "Answer by a trained model for new examples",
		Long: `Answer by the model in a run's folder for examples that need no labels: one line an
example, in the order of the file, with the most probable class and its probability, or
with the number that a model of train --target predicts, in its own units.

--data is a CSV or JSONL file with the columns that the model was trained on, in any
order, and with others, which are not read, a label's among them; plain text, an
example a line that is not blank; a NumPy array (.npy), or x, x_test or x_train of
several (.npz or a folder); a picture, or a folder or .zip of pictures, whose names
then begin the lines; or a data set that dptrain data lists, of which the test part
is taken. All is read as it was for training: by the bounds, words and length that
the run's folder says.

Nothing of the training data is read, and answers cost no privacy: each is a function
of the released weights, which the run's ε covers however often they are asked, and of
the features of one example, which whoever asks has brought; so it is where that is a
training record, too. A model of train --non-private has no ε, and its answers may give
its records away. Answers tell of the examples asked about: treat them as those.`,
		Example: `  dptrain predict runs/mine --data new.csv
  dptrain predict runs/mine --data new.jsonl --scores --out answers.jsonl
  dptrain predict runs/pictures --data folder --out answers.csv --device cuda:0
  dptrain predict runs/first --data digits --quiet | head`,
		Args: oneRunDir("predict runs/mine --data new.csv"),
		RunE: func(_ *cobra.Command, args []string) error {
			return predict(term, args[0], set)
		},
	}
	f := cmd.Flags()
	f.StringVar(&set.Data, "data", "", "the examples: a file, a folder, or a data set by its name")
	f.StringVar(&set.DataDir, "data-dir", "", "where a named data set's files lie")
	f.StringVar(&set.Out, "out", "", "the file to write (default: standard output)")
	f.StringVar(&set.format, "format", "", flags.Alternatives(sheetFormats)+" (default: jsonl where --out ends so, else csv)")
	f.BoolVar(&set.scores, "scores", false, "add the probability of every class to each line")
	flags.Complete(cmd, "format", sheetFormats)
	runspec.DefineDeviceFlags(f, &set.Device)
	completeChoices(cmd, runspec.DeviceChoices())
	return cmd
}

func predict(term *terminal.Terminal, dir string, set *asked) error {
	if err := set.settle(term.JSON); err != nil {
		return err
	}
	b, err := rundir.ReadModel(dir)
	if err != nil {
		return err
	}
	reply, err := newReply(b.Manifest, set.scores)
	if err != nil {
		return exitcode.Usagef("%s: %w", dir, err)
	}
	if set.Out != "" {
		if err := checkOut(set.Out, dir, set.Data); err != nil {
			return err
		}
	}
	options := data.Options{Dir: set.DataDir, Standardize: b.Standardize, Schema: b.Schema}
	questions, err := terminal.Await(term, "Reading "+set.Data, func() (data.Unlabeled, error) {
		return data.OpenUnlabeled(set.Data, options, data.TrainedInput{Name: b.Data, Shape: b.Shape, ElementType: b.Elements})
	})
	if err != nil {
		return exitcode.AsUsage(err)
	}
	e, err := engine.NewEvaluator(b.Build, set.Device)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	defer e.Close()
	if err := e.LoadWeights(e.Weights()); err != nil {
		return exitcode.AsFailure(err)
	}
	columns := reply.columns
	if questions.Files != nil {
		columns = slices.Insert(slices.Clone(columns), 0, "file")
	}
	write := func(w io.Writer) error {
		return writePredictions(term, e, questions, reply, newSheet(w, set.format, columns), set.Out)
	}
	if set.Out == "" {
		return exitcode.AsFailure(write(term.Out))
	}
	var told *exitcode.Error
	switch err := atomicfile.WriteFunc(set.Out, write); {
	case errors.As(err, &told): // of the answers, and not of the file
		return err
	case errors.Is(err, fs.ErrNotExist):
		return exitcode.Usagef("--out %s: %w", set.Out, err)
	case err != nil:
		return exitcode.AsFailure(fmt.Errorf("--out %s: %w", set.Out, err))
	}
	answer := prediction{questions.Len(), set.Out, set.format, columns, set.Data, b.Model}
	return term.Print(answer, set.Out, func(w io.Writer) {
		fmt.Fprintf(w, "model\t%s\nexamples\t%d\nfile\t%s\n", b.Model, questions.Len(), set.Out)
	})
}

// settle checks what was asked for, and fills in what was left out.
func (a *asked) settle(json bool) error {
	if a.Data == "" {
		return exitcode.Usagef("--data is missing: name the new examples, as in --data new.csv")
	}
	if json && a.Out == "" {
		return exitcode.Usagef("--out is missing: --json leaves no room for answers on standard output; name a file for them, as in --out answers.csv")
	}
	if a.format == "" {
		a.format = sheetFormats[0]
		if strings.HasSuffix(strings.ToLower(a.Out), ".jsonl") {
			a.format = "jsonl"
		}
	}
	return exitcode.CheckChoice("format", a.format, sheetFormats)
}

// answer writes a line for each of the questions.
func writePredictions(term *terminal.Terminal, e *engine.Evaluator, q data.Unlabeled, reply reply, lines *sheet, out string) error {
	ctx, stop := untilInterrupted()
	defer stop()
	pace := term.NewExampleProgress(q.Len(), out != "")
	defer pace.Close()
	var cells []any
	err := e.Predict(e.Weights(), q.Set, func(i int, output []float32) error {
		if errors.Is(ctx.Err(), context.Canceled) {
			return interruptedAt(i, q.Len(), out)
		}
		if cells = cells[:0]; q.Files != nil {
			cells = append(cells, q.Files[i])
		}
		var err error
		if cells, err = reply.of(cells, output); err != nil {
			return exitcode.Usagef("example %d, counted from 0: %w", i, err)
		}
		if err = errors.Join(lines.write(cells), pace.Update(i+1)); err != nil {
			err = &exitcode.Error{Code: exitcode.Failed, Err: err}
		}
		return err
	})
	if err != nil {
		return exitcode.AsUsage(err)
	}
	return lines.flush()
}

func interruptedAt(done, all int, out string) error {
	written := "the lines written are not all"
	if out != "" {
		written = out + " was not written"
	}
	return &exitcode.Error{Code: exitcode.Interrupted, Err: fmt.Errorf("interrupted after %d of %d examples: %s", done, all, written)}
}
