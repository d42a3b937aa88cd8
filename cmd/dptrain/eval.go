package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/number"
	"github.com/dptrain/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/internal/runspec"
	"github.com/dptrain/dptrain/internal/terminal"
	"github.com/spf13/cobra"
)

// evaluated is what eval answers.
type evaluated struct {
	Accuracy *float64 `json:"accuracy,omitempty"`
	*distance
	Loss     number.Float `json:"loss"`
	Examples int          `json:"examples"`
	Data     string       `json:"data"`
	Model    string       `json:"model"`
}

// distance is that of a regression's answers from the targets, in their own units.
type distance struct {
	RMSE number.Float `json:"rmse"`
	MAE  number.Float `json:"mae"`
	R2   number.Float `json:"r2"`
}

func newEval(term *terminal.Terminal) *cobra.Command {
	set := &runspec.Flags{}
	cmd := &cobra.Command{
		Use:   "eval DIR",
		Short: "Measure a trained model on test data",
		Long: `Measure the model in a run's folder on the test part of a data set. Columns and
text are read as they were when it was trained, where flags do not say otherwise.

The answer is a function of that data: publish it only where the data are public.
Data without a test part are measured whole, but only where --data names them: they
may be what the model was trained on.`,
		Example: `  dptrain eval runs/mine
  dptrain eval runs/mnist --data mnist --data-dir ~/mnist
  dptrain eval runs/reviews --data held-back.jsonl`,
		Args: oneRunDir("eval runs/mine"),
		RunE: func(_ *cobra.Command, args []string) error {
			return evaluate(term, args[0], set)
		},
	}
	f := cmd.Flags()
	f.StringVar(&set.Data, "data", "", "data set (default: the one that the model was trained on)")
	set.DataFlags.Define(f)
	runspec.DefineDeviceFlags(f, &set.Device)
	completeChoices(cmd, runspec.DeviceChoices())
	return cmd
}

func evaluate(term *terminal.Terminal, dir string, set *runspec.Flags) error {
	b, err := rundir.ReadModel(dir)
	if err != nil {
		return err
	}
	named := set.Data != ""
	if !named {
		set.Data, set.Test = b.Data, cmp.Or(set.Test, b.Test)
	}
	options := data.Options{Dir: set.DataDir, Test: set.Test, Standardize: set.Standardize || b.Standardize}
	target := b.Schema.Target
	limits := b.Schema.Bounds[target]
	if options.Schema, err = set.ReadSchema(b.Schema); err != nil {
		return exitcode.AsUsage(err)
	}
	if s := options.Schema; target != "" && (s.Target != target || s.Bounds[target] != limits) {
		return exitcode.Usagef("the model predicts %s between %v and %v, as it was trained to: leave out --target, and %[1]s of --bounds", target, limits[0], limits[1])
	}
	task, err := readData(term, set.Data, options)
	if err != nil && !named {
		return exitcode.AsUsage(fmt.Errorf("what the model was trained on: %w; --data names other data", err))
	}
	if err != nil {
		return exitcode.AsUsage(err)
	}
	test := task.Test
	if test == nil && task.Private && !named {
		return exitcode.Usagef("%s has no test part, and what the model does on the private records that it was trained on is private too: name test data by --data or --test", task.Name)
	}
	if test == nil {
		test = task.Train
		term.Note("%s has no test part: measuring on all of it.", task.Name)
		if task.Private && runspec.SameFile(set.Data, b.Data) {
			term.Note("PRIVATE, do not publish: the model was trained on these very records.")
		}
	}
	x := test.Columns()[0]
	if len(x.Shape) == len(b.Shape) && !slices.Equal(x.Shape, b.Shape) {
		return exitcode.Usagef("%s: examples have shape %v, and the model was trained on examples of shape %v", task.Name, x.Shape, b.Shape)
	}
	if err := x.ElementType.CheckCompatible(b.Elements); err != nil {
		return exitcode.Usagef("%s: %w", task.Name, err)
	}
	e, err := engine.NewEvaluator(b.Build, set.Device)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	defer e.Close()
	got, err := terminal.Await(term, "Measuring on "+number.Plural(test.Len(), "example"), func() (engine.Evaluation, error) { return e.Score(e.Weights(), test) })
	if err != nil {
		return exitcode.AsUsage(err)
	}
	answer := evaluated{Loss: number.Float(got.Loss), Examples: got.Examples, Data: task.Name, Model: b.Model}
	if m := rundir.NewRegressionMetrics(&got); m != nil {
		answer.distance = (*distance)(m)
		return term.Print(answer, number.Short(got.RMSE), func(w io.Writer) {
			m.Print(w, " ("+task.Schema.Target+")")
			fmt.Fprintf(w, "loss\t%.4f\nexamples\t%d\n", got.Loss, got.Examples)
		})
	}
	answer.Accuracy = &got.Accuracy
	return term.Print(answer, fmt.Sprintf("%.4f", got.Accuracy), func(w io.Writer) {
		fmt.Fprintf(w, "accuracy\t%.2f%%\nloss\t%.4f\nexamples\t%d\n", 100*got.Accuracy, got.Loss, got.Examples)
	})
}
