package training

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/report"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/sample"
	"gorgonia.org/tensor"
)

// Validate releases the accuracy, or the error, of a run that ended on the held-out records;
// nil if there are none. A resumed run that had no lots left keeps the validation of the
// same weights.
func Validate(term *terminal.Terminal, spec *settings.Spec, run *engine.Run, newLots int) (*rundir.Validation, error) {
	if spec.Config.Validation.Set == nil {
		return nil, nil
	}
	regression := spec.Network.Example.Targets > 0
	if newLots == 0 {
		saved, _ := rundir.Read(spec.Flags.Out)
		v := saved.Validation
		if v != nil && saved.Steps == run.StepsDone() && (v.MAE != nil) == regression && (v.Accuracy != nil) != regression {
			return v, nil
		}
	}
	released, err := run.Validate()
	if errors.Is(err, engine.ErrBudget) {
		term.Note("No validation %s: %s.", spec.ValidationMetric(), settings.Describe(err))
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

// Build identifies the program that trained.
type Build struct{ Version, Platform string }

// Finish closes a run and writes its model and its summary. ended is the error that ended
// the run before its plan; nil if the plan is complete or the budget ended the run. started
// is when the command started.
func Finish(p *Progress, validation *rundir.Validation, ended error, started time.Time, build Build) (*rundir.Summary, error) {
	elapsed := time.Since(started)
	spec, run := p.spec, p.run
	parameters, err := run.BorrowParameters()
	if err != nil {
		run.Close()
		return nil, err
	}
	spec.AdoptProjection(run)
	d := run.Describe()
	sum, err := spec.WeightsHash(parameters)
	if err != nil {
		run.Close()
		return nil, err
	}
	run.SetReleasedWeights(sum)
	if err := run.Close(); err != nil {
		return nil, err
	}
	s := newSummary(spec, run, d)
	s.Version, s.Platform = build.Version, build.Platform
	s.ResumedAt, s.Seconds, s.ExamplesPerSec = p.firstLot, number.TwoDigits(elapsed.Seconds()),
		p.examplesPerSecond(run.StepsDone(), p.trainingTime)
	s.PrivateSchema = p.privateSchema()
	p.announceSchema(s.PrivateSchema)
	s.Warnings = p.term.Warnings()
	s.Validation, s.Interrupted = validation, errors.Is(ended, context.Canceled)
	s.StopWhen, s.Stopped = spec.Flags.StopWhen, p.stopped
	s.NoiseSchedule, s.FilterOrder = spec.Flags.NoiseSchedule, d.FilterOrder
	for _, p := range d.Parameters {
		s.Parameters += tensor.ProdInts(p.Shape)
	}
	var h ledger.History
	if spec.Config.Mechanism.NonPrivate {
		s.Clipping, s.Accountant, s.Adjacency = "none", "none", "none"
	} else if h, err = accountFor(s, spec, run, ended != nil || p.stopped || spec.NoiseRules != nil); err != nil {
		return nil, err
	}
	s.Linear = linearModel(spec, run, d, parameters, h)
	if err := spec.Save(parameters); err != nil {
		return nil, err
	}
	if err := p.evaluateFinal(parameters); err != nil {
		return nil, err
	}
	if p.evaluation != nil {
		s.SetTestResult(p.evaluation, spec.Task)
	}
	if p.collector != nil {
		s.Measures = p.collector.Measures()
	}
	return s, s.Write(s.Out)
}

// newSummary describes a run before its ledger, its parameters and its test results are
// read.
func newSummary(spec *settings.Spec, run *engine.Run, d engine.RunDescription) *rundir.Summary {
	f, c := spec.Flags, &spec.Config
	s := &rundir.Summary{
		Epsilon: number.Float(math.Inf(1)), TestAccuracy: number.Float(math.NaN()), TestLoss: number.Float(math.NaN()),
		Unit: c.Records.Unit(), Settings: effectiveSettings(f, c),
		Lots: rundir.Lots{Sampling: string(run.Event().Policy), Rate: d.ExpectedLot / float64(d.Records),
			Records: d.Records, ExpectedLot: d.ExpectedLot, Microbatch: d.Microbatch, Steps: run.StepsDone()},
		Clipping: f.ClippingName(), Arithmetic: string(d.Arithmetic), Groups: []ledger.Query{},
		Machine: rundir.Machine{Device: d.Device, Threads: d.Threads}, Augmentation: spec.AugmentationSummary(),
		Secure: d.Secure && !c.Mechanism.NonPrivate, Private: !c.Mechanism.NonPrivate,
		Data: spec.Task.Name, Model: spec.Network.Model, Out: f.Out, Task: taskName(spec),
		ByRule: f.ByRule(), RuleReasons: f.RuleReasons(), SchemaReport: spec.SchemaFindings,
		Finished: time.Now().UTC().Truncate(time.Second),
	}
	if c.Ranks != nil {
		s.Ranks, s.Transport = c.Ranks.Size(), c.Ranks.Transport()
		for _, d := range run.RankDurations() {
			s.RankSeconds = append(s.RankSeconds, number.TwoDigits(d.Seconds()))
		}
	}
	s.LocalSteps, s.LocalRate, s.LocalBatch = d.LocalTraining.Steps, d.LocalTraining.Rate, d.LocalTraining.Batch
	s.Columns, s.OmittedColumns = rundir.Columns(spec.Task.Schema)
	if f.Test != "" {
		s.TestData = filepath.Base(f.Test)
	}
	s.Split = spec.Task.Split
	s.Generated = !spec.Task.Private
	if column := spec.Task.Schema.Weight; column != "" {
		s.Weight, s.WeightCap, s.WeightMean, s.WeightMinMean = column, c.Weights.Cap, c.Weights.Mean, c.Weights.MinMean
	}
	if schema := spec.Task.Schema; schema.Target != "" {
		bounds := schema.Bounds[schema.Target]
		s.Target, s.TargetBounds = schema.Target, &bounds
	}
	if e := run.Event(); e.Policy == sample.PolicyTruncated {
		s.MaxLot, s.ConstantWork = e.LotSize, c.Sampling.ConstantWork
	}
	if f.Init != "" {
		s.StartingWeights, s.FrozenLayers = filepath.Base(f.Init), f.Freeze
	}
	if p := c.Projection; p.Directions > 0 && run.Directions() != nil { // a run that stopped early may not have released them
		s.Projection = &rundir.Projection{Directions: p.Directions, Noise: p.Noise}
	}
	return s
}

// effectiveSettings returns the settings without those that have no effect in the run.
func effectiveSettings(f *settings.Flags, c *engine.Config) rundir.Settings {
	s := f.Settings
	if c.Mechanism.Distribution != engine.LaplaceNoise {
		s.Mechanism = "" // the default
	}
	if c.Optimization.WeightDecayMultiplier == nil {
		s.WeightDecayOf = ""
	}
	if c.Mechanism.NonPrivate || len(c.Mechanism.GroupShares) > 0 {
		s.Allocation = ""
	}
	if c.Mechanism.NonPrivate || len(f.Groups) > 0 { // each group has a bound of its own: see Summary.Groups
		s.Clip = 0
	}
	return s
}

// taskName returns the Hugging Face Hub's name of what the network does.
func taskName(spec *settings.Spec) string {
	e := spec.Network.Example
	switch {
	case e.Targets > 0 && e.Vocabulary == 0 && len(e.Shape) == 1 && spec.Task.Schema.Text == "":
		return "tabular-regression"
	case e.Targets > 0:
		return "other" // the Hub has no name for it
	case spec.Task.Schema.PredictNext:
		return "text-generation"
	case spec.Task.Schema.Masked > 0:
		return "fill-mask"
	case len(e.LabelShape) > 0:
		return "token-classification"
	case e.Vocabulary > 0 || spec.Task.Schema.Text != "":
		return "text-classification"
	case len(e.Shape) == 3:
		return "image-classification"
	}
	return "tabular-classification"
}

// mergeQueries replaces the queries of the same groups and appends others: not every lot releases
// every metric.
func mergeQueries(queries, later []ledger.Query) []ledger.Query {
	queries = slices.Clone(queries)
	for _, q := range later {
		i := slices.IndexFunc(queries, func(o ledger.Query) bool { return o.Group == q.Group })
		if i < 0 {
			queries = append(queries, q)
		} else {
			queries[i] = q
		}
	}
	return queries
}

// accountFor reads the cost of a run from its closed ledger. For a run that ended before its
// plan it states the cost of the plan, and separately what was spent: the end may depend on
// released values (Rogers et al. 2016, "Privacy odometers and filters"). Only the budget may
// end a run without this correction, because it depends on the ledger alone. Where releases chose the
// noise, the cost is the budget of the filter, also of a run that reached its plan.
func accountFor(s *rundir.Summary, spec *settings.Spec, run *engine.Run, early bool) (h ledger.History, err error) {
	c := &spec.Config
	if h, err = ledger.Read(c.Files.Ledger); err != nil {
		return h, err
	}
	a, err := accountant.Epsilon(h, c.Budget.Delta, c.Budget.Accountant)
	if err != nil {
		return h, err
	}
	verified, err := ledger.Verify(c.Files.Ledger)
	if err != nil {
		return h, err
	}
	s.Epsilon, s.Delta, s.Accountant, s.Order, s.Adjacency, s.Note = number.Float(a.Epsilon),
		number.Float(a.Delta), a.Accountant, a.Order, a.Adjacency, a.Note
	s.PublishedEpsilon, s.Approximate = number.Float(a.Published), a.Approximate
	s.NoiseMultiplier, s.LedgerHead = c.Mechanism.CombinedNoiseMultiplier(0), verified.Head
	if len(h.Lots) > 0 {
		s.Arithmetic = report.Arithmetic(h)
	}
	for _, lot := range h.Lots {
		if lot.Lot.Sampling.Policy == ledger.Policy(run.Event().Policy) {
			s.Groups = mergeQueries(s.Groups, lot.Lot.Queries)
			s.LostLots += lot.Count
		}
	}
	s.LostLots -= s.Steps
	if !early || s.Interrupted && h.LotCount() == 0 { // a person who interrupts a run before its first release has seen nothing
		return h, nil
	}
	planned, err := run.PlannedEpsilon()
	if err != nil {
		return h, err
	}
	o, err := accountant.OdometerOf(h, c.Budget.Delta)
	if err != nil {
		return h, err
	}
	s.SpentEpsilon, s.OdometerEpsilon = number.Float(a.Epsilon), number.Float(o.Epsilon())
	s.PlannedEpsilon, s.PlannedSteps = max(number.Float(planned), s.SpentEpsilon), c.Steps
	s.Epsilon, s.PublishedEpsilon = s.PlannedEpsilon, 0
	return h, nil
}
