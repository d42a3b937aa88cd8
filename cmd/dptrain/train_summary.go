package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"time"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/internal/budget"
	"github.com/dptrain/dptrain/internal/number"
	"github.com/dptrain/dptrain/internal/report"
	"github.com/dptrain/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/internal/runspec"
	"github.com/dptrain/dptrain/internal/terminal"
)

// validate releases the accuracy, or the error, of a run that ended on the held-out records;
// nil if there are none. A resumed run that had no lots left keeps the validation of the
// same weights.
func validate(term *terminal.Terminal, spec *runspec.Spec, run *engine.Run, newLots int) (*rundir.Validation, error) {
	if spec.Config.Validation.Set == nil {
		return nil, nil
	}
	regression := spec.Network.Example.Targets > 0
	if newLots == 0 {
		if v := rundir.ReadValidation(spec.Flags.Out, run.StepsDone()); v != nil && (v.MAE != nil) == regression {
			return v, nil
		}
	}
	released, err := run.Validate()
	if errors.Is(err, engine.ErrBudget) {
		term.Note("No validation %s: %v.", spec.ValidationMetric(), err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v := &rundir.Validation{Deviation: released.Deviation, Noise: spec.Config.Validation.Noise, Records: released.Records}
	if regression {
		v.MAE = &released.MAE
	} else {
		v.Accuracy = &released.Accuracy
	}
	return v, nil
}

// finishRun closes a run and writes its model, summary and report.
func finishRun(p *trainProgress, validation *rundir.Validation, interrupted bool, started time.Time) (*rundir.Summary, error) {
	elapsed := time.Since(started)
	spec, run := p.spec, p.run
	parameters, err := run.BorrowParameters()
	if err != nil {
		run.Close()
		return nil, err
	}
	spec.AdoptProjection(run)
	d := run.Describe()
	if err := run.Close(); err != nil {
		return nil, err
	}
	s := newSummary(spec, run, d)
	s.ResumedAt, s.Seconds, s.ExamplesPerSec = p.firstLot, elapsed.Seconds(), p.examplesPerSecond(run.StepsDone(), p.trainingTime)
	s.Validation, s.Interrupted = validation, interrupted
	for _, p := range parameters {
		s.Parameters += len(p.Values)
	}
	if spec.Config.Mechanism.NonPrivate {
		s.Clipping, s.Accountant, s.Adjacency = "none", "none", "none"
	} else if err := accountFor(s, spec, run); err != nil {
		return nil, err
	}
	if err := spec.Save(parameters); err != nil {
		return nil, err
	}
	if err := p.evaluateFinal(parameters); err != nil {
		return nil, err
	}
	if p.evaluation != nil {
		s.SetTestResult(p.evaluation, spec.Task)
	}
	if err := s.Write(s.Out); err != nil {
		return nil, err
	}
	if _, err := writeReport(s.Out); err != nil {
		return nil, fmt.Errorf("the run is saved in %s, but its report is not: %w", s.Out, err)
	}
	return s, nil
}

// newSummary describes a run before its ledger, its parameters and its test results are
// read.
func newSummary(spec *runspec.Spec, run *engine.Run, d engine.Description) *rundir.Summary {
	f, c := spec.Flags, &spec.Config
	s := &rundir.Summary{
		Epsilon: number.Float(math.Inf(1)), TestAccuracy: number.Float(math.NaN()), TestLoss: number.Float(math.NaN()),
		Unit: c.Records.Unit(), Sampling: string(run.Event().Policy), Rate: d.ExpectedLot / float64(d.Records),
		Records: d.Records, ExpectedLot: d.ExpectedLot, Microbatch: d.Microbatch, Steps: run.StepsDone(),
		Clipping: f.Clipping, Groups: []ledger.Query{}, Device: d.Device, Threads: d.Threads, Augmentation: augmentationSummary(f),
		Secure: d.Secure && !c.Mechanism.NonPrivate, Private: !c.Mechanism.NonPrivate, Version: currentBuild().Version, Platform: currentBuild().Platform,
		Data: spec.Task.Name, Model: spec.Network.Model, Out: f.Out, Task: taskName(spec),
		Optimizer: f.Optimizer, LearningRate: f.LearningRate, LearningRateOf: f.LearningRateOf, Schedule: f.Schedule, AverageDecay: f.EMA,
		Preset: f.Preset, Finished: time.Now().UTC().Truncate(time.Second),
	}
	if schema := spec.Task.Schema; schema.Target != "" {
		bounds := schema.Bounds[schema.Target]
		s.Target, s.TargetBounds = schema.Target, &bounds
	}
	if c.Optimization.WeightDecayMultiplier != nil {
		s.WeightDecayOf = f.WeightDecayOf
	}
	if f.Init != "" {
		s.StartingWeights, s.FrozenLayers = filepath.Base(f.Init), f.Freeze
	}
	if p := c.Projection; p.Directions > 0 && run.Directions() != nil { // a run that stopped early may not have released them
		s.Projection = &rundir.Projection{Directions: p.Directions, Noise: p.Noise}
	}
	return s
}

// taskName returns the Hugging Face Hub's name of what the network does.
func taskName(spec *runspec.Spec) string {
	e := spec.Network.Example
	switch {
	case e.Targets > 0 && e.Vocabulary == 0 && len(e.Shape) == 1:
		return "tabular-regression"
	case e.Targets > 0:
		return "other" // the Hub has no name for it
	case spec.Task.Schema.PredictNext:
		return "text-generation"
	case len(e.LabelShape) > 0:
		return "token-classification"
	case e.Vocabulary > 0:
		return "text-classification"
	case len(e.Shape) == 3:
		return "image-classification"
	}
	return "tabular-classification"
}

// accountFor reads the cost of a run from its closed ledger.
func accountFor(s *rundir.Summary, spec *runspec.Spec, run *engine.Run) error {
	c := &spec.Config
	h, err := ledger.Read(c.Files.Ledger)
	if err != nil {
		return err
	}
	a, err := accountant.Epsilon(h, c.Budget.Delta, c.Budget.Accountant)
	if err != nil {
		return err
	}
	verified, err := ledger.Verify(c.Files.Ledger)
	if err != nil {
		return err
	}
	s.Epsilon, s.Delta, s.Accountant, s.Order, s.Adjacency, s.Note = number.Float(a.Epsilon), number.Float(a.Delta), a.Accountant, a.Order, a.Adjacency, a.Note
	s.ProvenEpsilon = number.Float(a.ProvenBound)
	s.NoiseMultiplier, s.LedgerHead = c.Mechanism.NoiseMultiplier, verified.Head
	s.Clip, s.Allocation = spec.Flags.Clip, spec.Flags.Allocation
	for _, lot := range h.Lots {
		if lot.Lot.Sampling.Policy == ledger.Policy(run.Event().Policy) {
			s.Groups = lot.Lot.Queries
			s.LostLots += lot.Count
		}
	}
	s.LostLots -= s.Steps
	if s.Interrupted && h.LotCount() > 0 { // without lots, nothing was shown that the choice to stop could depend on
		planned, err := run.PlannedEpsilon()
		if err != nil {
			return err
		}
		s.PlannedEpsilon = number.Float(planned)
	}
	return nil
}

// printSummary prints how well the run did, what it cost, and what to do next.
func printSummary(term *terminal.Terminal, s *rundir.Summary, dataDir string) error {
	return term.Print(s, bareSummary(s), func(w io.Writer) { writeSummary(w, s, dataDir) })
}

// bareSummary is the result on public test data or, without them, on private records held
// out, and ε.
func bareSummary(s *rundir.Summary) string {
	result := fmt.Sprintf("%.4f", s.TestAccuracy)
	switch v := s.Validation; {
	case s.RegressionMetrics != nil:
		result = number.Short(float64(s.RMSE))
	case s.TestLabels == 0 && v != nil && v.MAE != nil:
		result = number.Short(*v.MAE)
	case s.TestLabels == 0 && v != nil:
		result = fmt.Sprintf("%.4f", *v.Accuracy)
	}
	return result + " " + number.RoundUp(float64(s.Epsilon))
}

func writeSummary(w io.Writer, s *rundir.Summary, dataDir string) {
	if s.TestLabels > 0 {
		fmt.Fprintf(w, "accuracy\t%.2f%% on %s\n", 100*float64(s.TestAccuracy), number.Plural(s.TestExamples, "public test example"))
	}
	if s.RegressionMetrics != nil {
		s.RegressionMetrics.Print(w, fmt.Sprintf(" (%s) on %s", s.Target, number.Plural(s.TestExamples, "public test example")))
	}
	if s.Validation != nil {
		s.Validation.Print(w, s.Target)
	}
	if s.Projection != nil {
		s.Projection.Print(w)
	}
	if s.Private {
		fmt.Fprintf(w, "privacy\tε = %s at δ = %s, by the %s accountant\n", budget.FormatEpsilon(s.Epsilon, s.ProvenEpsilon), number.RoundUp(float64(s.Delta)), s.Accountant)
		fmt.Fprintf(w, "\tadjacency %s, %s, %s of about %.0f from %d\n", s.Adjacency, report.DescribeUnit(s.Unit), number.Plural(s.Steps, "lot"), s.ExpectedLot, s.Records)
		if s.PlannedEpsilon > 0 {
			fmt.Fprintf(w, "\tε = %s, the cost of the whole plan, if you stopped the run because of its results\n", number.RoundUp(float64(s.PlannedEpsilon)))
		}
		if s.LostLots > 0 {
			fmt.Fprintf(w, "\tε includes %s whose work a crash lost\n", number.Plural(s.LostLots, "lot"))
		}
	} else {
		fmt.Fprintf(w, "privacy\tNONE: trained without clipping and noise, ε = ∞\n")
	}
	if s.Private && !s.Secure {
		fmt.Fprintf(w, "\t%s\n", insecureWarning)
	}
	if d := budget.DeltaWarning(float64(s.Delta), s.Records); d != "" {
		fmt.Fprintf(w, "warning\t%s\n", d)
	}
	if s.Note != "" {
		fmt.Fprintf(w, "note\t%s\n", s.Note)
	}
	speed := ""
	if s.ExamplesPerSec > 0 {
		speed = "lots at " + terminal.Speed(s.ExamplesPerSec) + " "
	}
	fmt.Fprintf(w, "time\t%.1f s, %son %s, %d threads\n", s.Seconds, speed, s.Device, s.Threads)
	fmt.Fprintf(w, "files\t%s\n", s.Out)
	fmt.Fprintf(w, "report\t%s\n", filepath.Join(s.Out, rundir.ReportFile))
	evalFlags := ""
	switch {
	case s.TestExamples == 0:
		evalFlags = " --data TEST.FILE"
	case dataDir != "":
		evalFlags = " --data-dir " + rundir.ShellQuote(dataDir)
	}
	if s.Private {
		fmt.Fprintf(w, "next\tdptrain eval %s%s\n", rundir.ShellQuote(s.Out), evalFlags)
		fmt.Fprintf(w, "\tdptrain ledger epsilon %s --delta %s --accountant rdp\n", rundir.ShellQuote(filepath.Join(s.Out, rundir.LedgerFile)), number.RoundUp(float64(s.Delta)))
	} else {
		fmt.Fprintf(w, "next\tdptrain train (the same, with privacy)\n")
	}
}
