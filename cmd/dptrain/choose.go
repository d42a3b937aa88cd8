package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/projectbudget"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/choice"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/host/atomicfile"
	"github.com/dptrain/dptrain/internal/modelfile"
	"github.com/dptrain/dptrain/noise"
	"github.com/spf13/cobra"
)

// choiceFile is the released choice, in the folder of its ledger.
const choiceFile = "choice.json"

// chosenModel is a released choice. Everything in it but Model was fixed before the choice.
type chosenModel struct {
	Model      string           `json:"model"` // the folder of the run that was chosen
	Models     []string         `json:"models"`
	Epsilon    float64          `json:"epsilon"` // of the choice alone, without δ
	Adjacency  ledger.Adjacency `json:"adjacency"`
	Unit       string           `json:"unit"`
	Records    int              `json:"records"`
	Score      string           `json:"score"`
	Data       string           `json:"data"`
	LedgerHead string           `json:"ledger_head"`
	Out        string           `json:"out"`
}

func newChoose(term *terminal.Terminal) *cobra.Command {
	set := &settings.Flags{}
	cmd := &cobra.Command{
		Use:     "choose DIR DIR…",
		Short:   "Choose the best of several trained models on private data",
		Long:    helpOf("choose").long,
		Example: helpOf("choose").examples,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return exitcode.Usagef("give at least two run directories, as in dptrain choose runs/a runs/b --data FILE --epsilon 1")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("population") && (set.Population < 1 || set.Population > math.MaxInt32) {
				return exitcode.Usagef("--population %d: give the number of records, from 1 to %d; drop the flag where the number of records is public", set.Population, math.MaxInt32)
			}
			return choose(term, args, set)
		},
	}
	f := cmd.Flags()
	f.StringVar(&set.Data, "data", "", "private records that no candidate was trained on; of a named data set the training part")
	set.DataFlags.Define(f)
	for _, name := range []string{"test", "standardize"} { // public data, and a property of the models
		f.Lookup(name).Hidden = true
	}
	f.Float64Var(&set.Epsilon, "epsilon", 1, "ε of the choice")
	f.StringVar(&set.Record, "record", "example", "unit of privacy: example, microbatch:K or user:COLUMN")
	f.IntVar(&set.UserExamples, "user-examples", 16, "largest number of examples of a user that count")
	f.IntVar(&set.Population, "population", 0, "declare the number of records as this public constant, which must not come from the data: the number of records is not shown")
	f.StringVar(&set.ProjectBudget, "budget", "", "file of a project budget, made by dptrain budget open, that the choice draws from before it is made")
	f.StringVar(&set.Out, "out", "", "directory for the choice and its ledger (default choices/<time>)")
	settings.DefineDeviceFlags(f, &set.Device)
	completeChoices(cmd, settings.DeviceChoices())
	return cmd
}

// scoreSteps is the number of steps of a record's largest contribution to a score.
const scoreSteps = 1 << 10

func choose(term *terminal.Terminal, dirs []string, set *settings.Flags) error {
	records, err := checkChoice(dirs, set)
	if err != nil {
		return err
	}
	result := chosenModel{Models: dirs, Epsilon: set.Epsilon, Adjacency: ledger.ZeroOut,
		Unit: records.Unit(), Records: set.Population, Out: set.Out}
	if set.Population > 0 {
		result.Adjacency = ledger.AddRemove
	}
	draw, err := result.draw()
	if err != nil {
		return exitcode.AsUsage(err)
	}
	if set.ProjectBudget != "" { // refused before the models are scored, without the lock
		b, err := projectbudget.OpenFor(set.ProjectBudget, draw)
		if err != nil {
			return exitcode.AsUsage(err)
		}
		b.Close()
	}
	scores := make([]int64, len(dirs))
	for i, dir := range dirs {
		model, err := modelfile.Read(dir)
		if err != nil {
			return exitcode.AsUsage(err)
		}
		if err := scoreModel(term, dir, model, set, records, &scores[i], &result); err != nil {
			return exitcode.AsUsage(fmt.Errorf("%s: %w", dir, err))
		}
	}
	var project *projectbudget.Writer
	if set.ProjectBudget != "" {
		if project, err = projectbudget.OpenFor(set.ProjectBudget, draw); err != nil {
			return exitcode.AsUsage(err)
		}
		defer project.Close()
	}
	release, err := rundir.Create(set.Out)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	defer release()
	index, err := result.release(scores, project, draw)
	if err != nil {
		return exitcode.AsFailure(err)
	}
	result.Model = dirs[index]
	text, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(set.Out, choiceFile), append(text, '\n')); err != nil {
		return exitcode.AsFailure(err)
	}
	warnAboutEpsilon(term, set.Epsilon)
	term.Note("The models have costs of their own: dptrain ledger epsilon with their ledgers and %s adds them up.", rundir.ShellQuote(set.Out))
	return term.Print(result, result.Model, result.print)
}

// checkChoice sets defaults and refuses settings that are impossible.
func checkChoice(dirs []string, set *settings.Flags) (engine.Records, error) {
	switch {
	case set.Data == "":
		return engine.Records{}, exitcode.Usagef("--data is missing: name private records that the models were not trained on")
	case !(set.Epsilon >= choice.MinEpsilon && set.Epsilon <= choice.MaxEpsilon):
		return engine.Records{}, exitcode.Usagef("--epsilon %v: give a number from %v to %v", set.Epsilon, choice.MinEpsilon, choice.MaxEpsilon)
	case set.Test != "" || set.Standardize:
		return engine.Records{}, exitcode.Usagef("--test and --standardize have no use here: a choice reads private records only, as the models read theirs; name the records with --data")
	}
	for i, dir := range dirs {
		if slices.Contains(dirs[:i], dir) {
			return engine.Records{}, exitcode.Usagef("%s is given twice: give each model once", dir)
		}
	}
	if set.Out == "" {
		set.Out = rundir.NameByTime("choices")
	}
	return settings.ParseRecord(set.Record, set.UserExamples)
}

// scoreModel adds up the scores of the records with a model, in scoreSteps. No error depends on the
// content of a record.
func scoreModel(term *terminal.Terminal, dir string, model *modelfile.Model, set *settings.Flags,
	records engine.Records, score *int64, result *chosenModel) (err error) {
	options := data.Options{Dir: set.DataDir, Standardize: model.Standardize, Crop: model.Crop(), Resampling: model.Resampling,
		TrainedImage: data.ImageShapeOf(model.PictureShape()), OnBadRow: data.BlankBadRows}
	if options.Image, err = set.ImageShape(); err != nil {
		return err
	}
	if options.Schema, err = set.ReadSchema(model.Schema); err != nil {
		return err
	}
	if column, byUser := strings.CutPrefix(set.Record, "user:"); byUser {
		options.Schema.User = column
		options.Schema.Ignore = slices.DeleteFunc(slices.Clone(options.Schema.Ignore),
			func(ignored string) bool { return ignored == column })
	}
	task, err := readData(term, set.Data, options)
	if err != nil {
		return err
	}
	if settings.SameFile(set.Data, model.Data) { // a comparison of contents would reveal records
		term.Warn("%s was trained on these records, so its score is too good: choose on records that no candidate was trained on; the guarantee holds, and the costs of the model and of the choice add up", dir)
	}
	if set.Population == 0 { // otherwise the number of records is private
		count := records.Count(task.Train)
		if result.Records != 0 && result.Records != count {
			return fmt.Errorf("it reads %d records from %s, and the models before it %d: give models that read the same records", count, set.Data, result.Records)
		}
		result.Records = count
	}
	result.Data, result.Score = task.Name, "share of correct predictions"
	if model.Schema.Target != "" {
		result.Score = "1 minus the error as a share of the bounds of " + model.Schema.Target
	}
	evaluator, err := engine.NewEvaluator(model.Build, set.Device)
	if err != nil {
		return err
	}
	defer evaluator.Close()
	_, err = terminal.Await(term, "Scoring "+dir, func() (any, error) {
		return nil, evaluator.RecordScores(evaluator.Weights(), task.Train, records, func(s float64) { *score += int64(s * scoreSteps) })
	})
	return err
}

// draw returns the draw of the choice from a project budget.
func (c *chosenModel) draw() (projectbudget.Draw, error) {
	what, err := filepath.Abs(c.Out)
	return projectbudget.Draw{Epsilon: c.Epsilon, Unit: c.Unit, Adjacency: c.Adjacency, What: what}, err
}

// release chooses a model by the scores, and returns its index. It first records the choice in the
// project budget, if there is one, and in the ledger.
func (c *chosenModel) release(scores []int64, project *projectbudget.Writer, draw projectbudget.Draw) (index int, err error) {
	source, err := noise.New()
	if err != nil {
		return 0, err
	}
	w, err := ledger.Create(filepath.Join(c.Out, rundir.LedgerFile), ledger.Header{Unit: c.Unit,
		Records: c.Records, Adjacency: c.Adjacency, Secure: source.Secure()})
	if err != nil {
		return 0, err
	}
	defer func() {
		c.LedgerHead = w.Head()
		if closed := w.Close(); err == nil {
			err = closed
		}
	}()
	if project != nil {
		draw.Run = w.History().Header.Run
		// The choice spends all that it draws.
		if err := errors.Join(w.NameBudget(project.Identity), project.Draw(draw), project.Settle(draw.Run, draw.Epsilon)); err != nil {
			return 0, err
		}
	}
	chooser, err := choice.New(w, source)
	if err != nil {
		return 0, err
	}
	index, err = chooser.Choose(choice.Query{Name: "model", Scores: scores, Sensitivity: scoreSteps, Epsilon: c.Epsilon})
	if err == nil {
		w.SetComplete()
	}
	return index, err
}

func (c *chosenModel) print(w io.Writer) {
	fmt.Fprintf(w, "model\t%s\nepsilon\t%s\nadjacency\t%s\nrecords\t%s of unit %s\nscore\t%s\nledger\t%s\n", c.Model, number.RoundUp(c.Epsilon), c.Adjacency,
		number.Thousands(c.Records), c.Unit, c.Score, filepath.Join(c.Out, rundir.LedgerFile))
}
