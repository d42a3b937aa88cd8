package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/served"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/modelfile"
	"github.com/spf13/cobra"
)

// evalResult is the JSON output of eval.
type evalResult struct {
	Accuracy *float64 `json:"accuracy,omitempty"`
	*regressionErrors
	Loss number.Float `json:"loss"`
	// Perplexity is that of the labels of a model that predicts the next index.
	Perplexity *number.Float `json:"perplexity,omitempty"`
	Examples   int           `json:"examples"`
	Data       string        `json:"data"`
	Model      string        `json:"model"`
}

// regressionErrors are in the units of the target.
type regressionErrors struct {
	RMSE number.Float `json:"rmse"`
	MAE  number.Float `json:"mae"`
	R2   number.Float `json:"r2"`
}

func newEval(term *terminal.Terminal) *cobra.Command {
	set := &settings.Flags{}
	cmd := &cobra.Command{
		Use:     "eval DIR",
		Short:   "Evaluate a trained model on test data",
		Long:    helpOf("eval").long,
		Example: helpOf("eval").examples,
		Args:    oneRunDir("eval runs/mine"),
		RunE: func(_ *cobra.Command, args []string) error {
			return evaluate(term, args[0], set)
		},
	}
	f := cmd.Flags()
	f.StringVar(&set.Data, "data", "", "data set, or - for standard input (default: the one that the model was trained on)")
	set.DataFlags.Define(f)
	settings.DefineDeviceFlags(f, &set.Device)
	completeChoices(cmd, settings.DeviceChoices())
	return cmd
}

func evaluate(term *terminal.Terminal, dir string, set *settings.Flags) error {
	model, task, test, err := readModelAndData(term, dir, set)
	if err != nil {
		return err
	}
	input, trained := test.Columns()[0], model.PictureShape()
	if whole := data.Uncropped(test); whole != nil {
		input = whole.Columns()[0]
	}
	if len(input.Shape) == len(trained) && !slices.Equal(input.Shape, trained) {
		return exitcode.Usagef("%s: examples have shape %v, but the model was trained on examples of shape %v", task.Name, input.Shape, trained)
	}
	if err := input.ElementType.CheckCompatible(model.Elements); err != nil {
		return exitcode.Usagef("%s: %w", task.Name, err)
	}
	evaluator, err := engine.NewEvaluator(model.Build, set.Device)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	defer evaluator.Close()
	score, err := terminal.Await(term, "Evaluating "+number.Plural(test.Len(), "example"), func() (engine.Evaluation, error) {
		return evaluator.Score(evaluator.Weights(), test)
	})
	if err != nil {
		return exitcode.AsUsage(err)
	}
	result := evalResult{Loss: number.Float(score.Loss), Examples: score.Examples, Data: task.Name, Model: model.Model}
	if m := rundir.NewRegressionMetrics(&score); m != nil {
		result.regressionErrors = (*regressionErrors)(m)
		return term.Print(result, number.Short(score.RMSE), func(w io.Writer) {
			m.Print(w, " ("+task.Schema.Target+")")
			fmt.Fprintf(w, "loss\t%.4f\nexamples\t%d\n", score.Loss, score.Examples)
		})
	}
	result.Accuracy = &score.Accuracy
	predictsIDs := task.Schema.PredictNext || task.Schema.Masked > 0
	if predictsIDs && score.Labels > 0 {
		// The loss of an example is the mean over all its steps, also those without a label.
		steps := float64(score.Examples) * float64(model.Shape[0])
		perplexity := number.Float(math.Exp(score.Loss * steps / float64(score.Labels)))
		result.Perplexity = &perplexity
	}
	return term.Print(result, fmt.Sprintf("%.4f", score.Accuracy), func(w io.Writer) {
		fmt.Fprintf(w, "accuracy\t%.2f%%\nloss\t%.4f\nexamples\t%d\n", 100*score.Accuracy, score.Loss, score.Examples)
		if result.Perplexity != nil {
			fmt.Fprintf(w, "perplexity\t%.4g\n", float64(*result.Perplexity))
		}
		if !predictsIDs && len(score.Confusion) > 0 && len(score.Confusion) <= rundir.MaxConfusionClasses {
			writeConfusion(w, task.ClassNames, score.Confusion)
		}
	})
}

// readModelAndData reads a model and the data to evaluate it on. The columns of a server's model are
// those of the data.
func readModelAndData(term *terminal.Terminal, dir string, set *settings.Flags) (*modelfile.Model, *data.Task, data.Set, error) {
	averaged, err := readServed(dir)
	if err != nil {
		return nil, nil, nil, err
	}
	if averaged == nil {
		model, err := modelfile.Read(dir)
		if err != nil {
			return nil, nil, nil, exitcode.AsUsage(err)
		}
		task, test, err := readTestData(term, model, set)
		return model, task, test, err
	}
	switch {
	case set.Data == "":
		return nil, nil, nil, exitcode.Usagef("--data is missing: a server does not know its clients' data; name public test data, as in --data test.csv --schema columns.yaml")
	case set.Standardize:
		return nil, nil, nil, exitcode.Usagef("--standardize: clients of a server scale pixels to [0, 1]; drop it")
	}
	task, test, err := readTestData(term, &modelfile.Model{Manifest: modelfile.Manifest{Shape: averaged.Inputs}}, set)
	if err != nil {
		return nil, nil, nil, err
	}
	model, err := served.Model(averaged, task.Schema)
	if err != nil {
		return nil, nil, nil, exitcode.Usagef("%s: %w", dir, err)
	}
	return model, task, test, nil
}

// readTestData reads the data that the flags name, or the test part of the data that the
// model was trained on.
func readTestData(term *terminal.Terminal, model *modelfile.Model, set *settings.Flags) (task *data.Task, test data.Set, err error) {
	named := set.Data != ""
	if !named {
		set.Data, set.Test = model.Data, cmp.Or(set.Test, model.Test)
	}
	options := data.Options{Dir: set.DataDir, Test: set.Test, Standardize: set.Standardize || model.Standardize,
		Crop: model.Crop(), Resampling: model.Resampling}
	if options.Image, err = set.ImageShape(); err != nil {
		return nil, nil, err
	}
	if named && model.Split == nil { // the caller's data, as the result is
		options.OnBadRow = data.FailOnBadRow
	}
	options.TrainedImage = data.ImageShapeOf(model.PictureShape())
	target := model.Schema.Target
	bounds := model.Schema.Bounds[target]
	if options.Schema, err = set.ReadSchema(model.Schema); err != nil {
		return nil, nil, exitcode.AsUsage(err)
	}
	if s := options.Schema; target != "" && (s.Target != target || s.Bounds[target] != bounds) {
		return nil, nil, exitcode.Usagef("the model was trained to predict %s between %v and %v: leave out --target, and %[1]s of --bounds", target, bounds[0], bounds[1])
	}
	if err := options.Schema.Vectors.CheckTrained(model.Schema.Vectors); err != nil {
		return nil, nil, exitcode.AsUsage(err)
	}
	if err := options.Schema.Tokenizer.CheckTrained(model.Schema.Tokenizer); err != nil {
		return nil, nil, exitcode.AsUsage(err)
	}
	task, err = readData(term, set.Data, options)
	if err == nil && task.Test == nil {
		task.Train, err = data.FixMasks(task.Train, task.Schema)
	}
	if split := model.Split; err == nil && split != nil && options.Test == "" && settings.SameFile(set.Data, model.Data) {
		if err := task.SplitAgain(*split); err != nil {
			return nil, nil, exitcode.Usagef("%s: %w", set.Data, err)
		}
		term.Note("%s of %s are public by --split and were not trained on.", number.Plural(task.Test.Len(), "row"), set.Data)
	}
	switch {
	case err != nil && !named:
		return nil, nil, exitcode.AsUsage(fmt.Errorf("the data that the model was trained on: %w; name other data with --data", err))
	case err != nil:
		return nil, nil, exitcode.AsUsage(err)
	case task.Test != nil:
		if options.Test != "" && settings.SameFile(options.Test, model.Data) {
			term.Warn("PRIVATE, do not publish: %s is the data that the model was trained on", options.Test)
		}
		return task, task.Test, nil
	case task.Private && !named:
		return nil, nil, exitcode.Usagef("%s has no test part, and a score on the private training records is itself private: name test data with --data or --test", task.Name)
	}
	term.Note("%s has no test part: evaluating all of it.", task.Name)
	if task.Private && settings.SameFile(set.Data, model.Data) {
		term.Warn("PRIVATE, do not publish: the model was trained on these records")
	}
	return task, task.Train, nil
}
