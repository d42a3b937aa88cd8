package training

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/tensorboard"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/quality"
	"github.com/dptrain/dptrain/internal/ranks"
)

// Progress reports a run: as a progress bar on a terminal, as a note at each tenth
// elsewhere, and at each tenth in metrics.jsonl and for TensorBoard. Everything that it
// reports is public: hyperparameters, the ledger, and results on the public test data.
//
// It evaluates the test data at the last lot, and at a tenth if the run has probably
// trained on as many examples since the last evaluation as the test data have. So
// evaluation takes a small part of the time. With a condition on the test data it does not wait
// for the tenth.
type Progress struct {
	term      *terminal.Terminal
	spec      *settings.Spec
	run       *engine.Run
	server    *MetricsServer        // nil without --metrics-addr
	bar       *terminal.ProgressBar // nil without a terminal
	metrics   *os.File
	events    *tensorboard.Writer
	evaluator *engine.Evaluator // nil until it is needed

	assistants ranks.Communicator // ranks that wait for a command after a lot; nil: none

	evaluation   *engine.Evaluation // the last one on the test data; nil before the first
	collector    quality.Collector  // of its predictions; nil where there is none
	evaluatedLot int                // the lot of the last evaluation of the run; firstLot if it is unknown

	frozen         *terminal.ExampleProgress // of the outputs of frozen layers; nil without them
	started        time.Time
	preparing      time.Duration  // the outputs of frozen layers took
	evaluating     time.Duration  // so far
	trainingTime   time.Duration  // of the lots, without evaluation; set by End
	expectedLot    float64        // records
	examplesPerLot float64        // expected
	interval       int            // lots between reports
	firstLot       int            // lots before this command
	stopped        bool           // --stop-when ended the run before its plan
	schema         *schemaRelease // the last release of --metric schema; nil before it
	refusedLots    int            // PRIVATE: latest lots in a row of which every record was refused
}

// NewProgress starts to report a run. The caller calls Observe after each lot, then End and
// Close.
func NewProgress(term *terminal.Terminal, spec *settings.Spec, run *engine.Run, server *MetricsServer) (*Progress, error) {
	d, done := run.Describe(), run.StepsDone()
	p := &Progress{
		term: term, spec: spec, run: run, server: server, evaluatedLot: done, started: time.Now(),
		expectedLot: d.ExpectedLot, examplesPerLot: d.ExpectedLot * float64(d.PerRecord),
		interval: max(1, spec.Config.Steps/10), firstLot: done,
	}
	var err error
	if p.metrics, err = os.OpenFile(filepath.Join(spec.Flags.Out, rundir.MetricsFile),
		os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
		return nil, err
	}
	if p.events, err = tensorboard.Create(filepath.Join(spec.Flags.Out, rundir.EventsDir), p.started); err != nil {
		return nil, err
	}
	if spec.Config.Projection.Directions == 0 { // with a projection, the network exists only after its release
		if err := p.openEvaluator(); err != nil {
			return nil, err
		}
	}
	if err := p.restoreConditions(); err != nil {
		return nil, err
	}
	if err := p.restoreSchema(); err != nil {
		return nil, err
	}
	run.ObserveFrozenOutputs(p.observeFrozenOutputs)
	p.bar = term.NewProgressBar(spec.Config.Steps)
	return p, p.bar.Update(p.firstLot, func() []string { return nil })
}

// observeFrozenOutputs reports how many examples have outputs of frozen layers, which the run computes before its lots.
func (p *Progress) observeFrozenOutputs(done, examples int) error {
	switch done {
	case 0:
		p.bar.Hide()
		p.frozen = p.term.NewExampleProgress("outputs of the frozen layers", examples, true)
		return nil
	case examples:
		p.frozen.Close()
		p.preparing = time.Since(p.started)
		return nil
	}
	return p.frozen.Update(done)
}

// openEvaluator opens the evaluator of the test data, if there are any.
func (p *Progress) openEvaluator() (err error) {
	if p.spec.Task.Test == nil || p.evaluator != nil {
		return nil
	}
	if p.evaluator, err = engine.NewEvaluator(p.run.Network(), p.spec.Config.Device); err != nil {
		return err
	}
	if p.run.KeepsFrozenOutputs() {
		if err := p.evaluator.KeepFrozen(p.spec.Task.Test); err != nil {
			return err
		}
	}
	parameters, err := p.run.BorrowParameters()
	if err != nil {
		return err
	}
	return p.evaluator.LoadWeights(engine.Values(parameters))
}

// evaluate evaluates the weights after the lots so far.
func (p *Progress) evaluate(parameters []engine.Parameter) error {
	began := time.Now()
	defer func() { p.evaluating += time.Since(began) }()
	collector := newCollector(p.spec.Task)
	each := func(expected, output []float32) { collector.Add(expected, output) }
	if collector == nil {
		each = nil
	}
	evaluation, err := p.score(engine.Values(parameters), each)
	if err == nil {
		p.evaluation, p.collector, p.evaluatedLot = &evaluation, collector, p.run.StepsDone()
	}
	return err
}

// score evaluates on all ranks that wait for a command, or on this one.
func (p *Progress) score(weights [][]float32, each func(expected, output []float32)) (engine.Evaluation, error) {
	if p.assistants == nil {
		return p.evaluator.ScoreEach(weights, p.spec.Task.Test, each)
	}
	if err := command(p.assistants, evaluate); err != nil {
		return engine.Evaluation{}, err
	}
	if err := ranks.Agree(p.assistants, nil); err != nil { // the others have an evaluator
		return engine.Evaluation{}, err
	}
	return p.evaluator.ScoreTogether(p.assistants, weights, p.spec.Task.Test, each)
}

// newCollector returns a collector for the predictions on the test data; nil where an example has
// several labels or targets, and where classes are too many for run.json.
func newCollector(task *data.Task) quality.Collector {
	columns := task.Test.Columns()
	last := columns[len(columns)-1]
	switch {
	case task.Schema.PredictNext || last.Size() != 1:
	case last.Kind == data.Target:
		unscale := func(x float64) float64 { return x }
		if last.Bounds != (data.Bounds{}) {
			unscale = last.Bounds.Unscale
		}
		return quality.NewNumbers(task.Test.Len(), unscale)
	case last.Kind == data.Label && last.Classes <= rundir.MaxConfusionClasses:
		return quality.NewClasses(last.Classes, task.Test.Len())
	}
	return nil
}

// evaluateFinal evaluates the final weights, unless the report of the last lot did.
func (p *Progress) evaluateFinal(parameters []engine.Parameter) error {
	if p.evaluation != nil && p.evaluatedLot == p.run.StepsDone() {
		return nil
	}
	if err := p.openEvaluator(); err != nil || p.evaluator == nil {
		return err
	}
	_, err := terminal.Await(p.term, "Evaluating "+number.Plural(p.spec.Task.Test.Len(), "test example"),
		func() (any, error) { return nil, p.evaluate(parameters) })
	return err
}

// testAccuracy returns the accuracy of the last evaluation; NaN if there is none.
func (p *Progress) testAccuracy() float64 {
	if p.evaluation == nil || p.evaluation.Labels == 0 {
		return math.NaN()
	}
	return p.evaluation.Accuracy
}

// testResult formats the last evaluation; "" if there is none.
func (p *Progress) testResult() string {
	if m := rundir.NewRegressionMetrics(p.evaluation); m != nil {
		return "test RMSE " + number.Short(float64(m.RMSE))
	}
	if a := p.testAccuracy(); !math.IsNaN(a) {
		return fmt.Sprintf("test accuracy %.2f%%", 100*a)
	}
	return ""
}

// MetricsEntry is a line of metrics.jsonl.
type MetricsEntry struct {
	Lot              int           `json:"lot"`
	Epsilon          number.Float  `json:"epsilon,omitempty"`
	PublishedEpsilon number.Float  `json:"epsilon_published,omitempty"` // as in run.json
	Approximate      bool          `json:"approximate,omitempty"`       // likewise
	TestAccuracy     *float64      `json:"test_accuracy,omitempty"`
	TestLoss         *number.Float `json:"test_loss,omitempty"`
	*rundir.RegressionMetrics
	Released     []Metric `json:"released,omitempty"`
	LearningRate float64  `json:"learning_rate"`
	Seconds      float64  `json:"seconds"` // two significant digits: see number.TwoDigits
}

// Observe reports a lot. [engine.Run.Train] calls it after each lot.
func (p *Progress) Observe(lot *engine.Progress) error {
	p.assistants = assistants(p.spec)
	err := p.observe(lot)
	var agreed *ranks.Error
	if !errors.As(err, &agreed) { // after an error that the ranks have agreed on, none waits for a command
		err = cmp.Or(command(p.assistants, goOn), err)
	}
	p.assistants = nil
	return err
}

func (p *Progress) observe(lot *engine.Progress) error {
	if err := p.bar.Update(lot.Lot, func() []string { return p.details(lot) }); err != nil {
		return err
	}
	defer p.serve(lot)
	if lot.Lot == p.spec.MovementLot() {
		if err := p.noteMovement(lot.Lot); err != nil {
			return err
		}
	}
	if p.spec.Flags.ShowPrivate {
		p.notePrivately(p.run.PrivateStats(), lot.Lot%p.interval == 0 || lot.Lot == lot.Lots)
	}
	entry := MetricsEntry{Lot: lot.Lot, LearningRate: lot.LearningRate, Seconds: number.TwoDigits(time.Since(p.started).Seconds()),
		Released: p.releasedMetrics(lot, false)}
	p.keepSchema(lot.Lot, entry.Released)
	stop := p.stopsAt(lot)
	testDue := p.spec.Stop != nil && p.spec.Stop.OnTest && p.isTestDue(lot)
	isReport := stop || lot.Lot%p.interval == 0 || lot.Lot == lot.Lots
	if !isReport && !testDue {
		if entry.Released == nil {
			return nil
		}
		return p.write(&entry) // without ε, which takes long to compute
	}
	// The ledger includes reserved lots, so its ε is never less than what was spent.
	if p.spec.NoiseRules != nil {
		entry.Epsilon = number.Float(lot.Epsilon) // the odometer's
	} else if isReport && !p.spec.Config.Mechanism.NonPrivate {
		spent, err := p.run.Spent(p.spec.Config.Budget.Accountant)
		if err != nil {
			return err
		}
		lot.Epsilon = spent.Epsilon
		entry.Epsilon, entry.PublishedEpsilon, entry.Approximate = number.Float(spent.Epsilon),
			number.Float(spent.Published), spent.Approximate
	}
	parameters, err := p.run.BorrowParameters()
	if err != nil {
		return err
	}
	if name := nonFinite(parameters); name != "" {
		return fmt.Errorf("lot %d: %s contains numbers that are not finite, so training cannot continue; start again with a smaller --lr or --clip", lot.Lot, name)
	}
	if err := p.openEvaluator(); err != nil {
		return err
	}
	if p.evaluator != nil && (stop || lot.Lot == lot.Lots || p.isTestDue(lot)) {
		if err := p.evaluate(parameters); err != nil {
			return err
		}
		entry.TestLoss = (*number.Float)(&p.evaluation.Loss)
		if p.evaluation.Labels > 0 {
			entry.TestAccuracy = &p.evaluation.Accuracy
		}
		entry.RegressionMetrics = rundir.NewRegressionMetrics(p.evaluation)
		p.noteTestLoss(lot.Lot, p.evaluation.Loss)
		stop = stop || p.stopsOnTest()
	}
	if p.bar == nil && !p.term.Quiet && (isReport || stop) {
		p.term.Note("lot %d/%d, %s", lot.Lot, lot.Lots, strings.Join(p.details(lot), ", "))
	}
	if err := p.write(&entry); err != nil || !stop {
		return err
	}
	p.stopped = lot.Lot < lot.Lots
	return engine.ErrStop
}

// write writes an entry to metrics.jsonl and for TensorBoard.
func (p *Progress) write(entry *MetricsEntry) error {
	text, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	if _, err := p.metrics.Write(append(text, '\n')); err != nil {
		return err
	}
	return p.events.Write(entry.Lot, time.Now().Truncate(time.Second), entry.scalars()...)
}

// manyRefusedLots is the number of lots in a row without a contribution that are worth a note.
const manyRefusedLots = 10

// notePrivately prints marked lines about a lot, for --show-private: a summary if the lot is
// due for a report, and a note on refused lots if there are many. How many records are refused depends
// on the private data, so without the flag nothing is printed about it.
func (p *Progress) notePrivately(stats engine.PrivateStats, due bool) {
	switch {
	case stats.NonFinite < stats.Records:
		p.refusedLots = 0
	case stats.Records > 0:
		p.refusedLots++
	}
	if due {
		p.bar.Hide()
		p.term.Note("PRIVATE, do not publish: the last lot had %d records, %d of them not clipped, %d refused; %d parts of contributions were rounded again, %d omitted; mean loss %.4f", stats.Records, stats.Unclipped, stats.NonFinite, stats.Reduced, stats.Omitted, stats.Loss)
	}
	if p.refusedLots == manyRefusedLots || due && p.refusedLots > manyRefusedLots {
		p.bar.Hide()
		p.term.Note("PRIVATE, do not publish: every record of the last %d lots was refused, because its gradient is NaN or infinite; the run trains on noise alone: check the network for logarithms, roots and divisions, and the data for very large numbers", p.refusedLots)
	}
}

// noteTestLoss notes a loss on the test data that is not finite. Weights and test data are public.
func (p *Progress) noteTestLoss(lot int, loss float64) {
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		p.bar.Hide()
		p.term.Warn("lot %d: the loss on the public test data is %v; a training record with such a loss adds nothing, so the run may train on noise alone: check the network for logarithms, roots and divisions, or use a smaller --lr", lot, loss)
	}
}

// nonFinite returns the name of a parameter with a number that is not finite; "" if there
// is none.
func nonFinite(parameters []engine.Parameter) string {
	for _, p := range parameters {
		for _, v := range p.Values {
			if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
				return p.Name
			}
		}
	}
	return ""
}

// scalars returns the entry for TensorBoard.
func (e *MetricsEntry) scalars() []tensorboard.Scalar {
	scalars := []tensorboard.Scalar{{Tag: "learning_rate", Value: e.LearningRate}}
	if e.Epsilon > 0 {
		scalars = append(scalars, tensorboard.Scalar{Tag: "privacy/epsilon", Value: float64(e.Epsilon)})
	}
	if e.PublishedEpsilon > 0 {
		scalars = append(scalars, tensorboard.Scalar{Tag: "privacy/epsilon_published", Value: float64(e.PublishedEpsilon)})
	}
	if e.TestAccuracy != nil {
		scalars = append(scalars, tensorboard.Scalar{Tag: "test/accuracy", Value: *e.TestAccuracy})
	}
	if m := e.RegressionMetrics; m != nil {
		scalars = append(scalars, tensorboard.Scalar{Tag: "test/rmse", Value: float64(m.RMSE)}, tensorboard.Scalar{Tag: "test/mae", Value: float64(m.MAE)})
		if !math.IsNaN(float64(m.R2)) {
			scalars = append(scalars, tensorboard.Scalar{Tag: "test/r2", Value: float64(m.R2)})
		}
	}
	if e.TestLoss != nil {
		scalars = append(scalars, tensorboard.Scalar{Tag: "test/loss", Value: float64(*e.TestLoss)})
	}
	for _, m := range e.Released {
		scalars = append(scalars, m.scalars()...)
	}
	return scalars
}

// details returns ε, the time left, the last test result and the speed. A note shows the
// test result only if it is of the same lot.
func (p *Progress) details(lot *engine.Progress) []string {
	elapsed := time.Since(p.started) - p.preparing
	details := []string{p.epsilon(lot), terminal.TimeLeft(elapsed, lot.Lot-p.firstLot, lot.Lots-lot.Lot)}
	if result := p.testResult(); result != "" && (p.bar != nil || p.evaluatedLot == lot.Lot) {
		details = append(details, result)
	}
	for _, m := range p.releasedMetrics(lot, p.bar != nil) {
		details = append(details, m.String())
	}
	details = append(details, terminal.Speed(p.examplesPerSecond(lot.Lot, p.timeOfLots())))
	if d := p.run.RankDurations(); len(d) > 1 {
		details = append(details, slowestRank(d, p.examplesPerLot*float64(lot.Lot-p.firstLot)))
	}
	return details
}

// slowestRank describes the rank that computed longest: the speed at which it computes its part of the expected
// examples, without waiting for the others. It is a lower bound of the speed of each rank.
func slowestRank(durations []time.Duration, examples float64) string {
	slowest := 0
	for rank, d := range durations {
		if d > durations[slowest] {
			slowest = rank
		}
	}
	own := examples / float64(len(durations))
	return fmt.Sprintf("slowest rank %d at %s", slowest, terminal.Speed(number.TwoDigits(own/max(1e-9, durations[slowest].Seconds()))))
}

// epsilon formats the upper bound of ε so far. It marks an approximation and an insecure
// run.
func (p *Progress) epsilon(lot *engine.Progress) string {
	c := &p.spec.Config
	if c.Mechanism.NonPrivate {
		return "ε = ∞"
	}
	if rules := p.spec.NoiseRules; rules != nil {
		noise, _ := rules.Noise()
		text := fmt.Sprintf("%.0f%% of ε = %g, noise multiplier %s", 100*lot.BudgetUsed, c.Budget.StopAtEpsilon, number.Short(noise))
		if c.Seed != nil {
			text += " (INSECURE)"
		}
		return text
	}
	text := "ε "
	if c.Budget.Accountant == "gdp" {
		text += "≈ "
	}
	text += number.RoundUp(math.Ceil(1000*lot.Epsilon) / 1000)
	if c.Budget.StopAtEpsilon > 0 {
		text += fmt.Sprintf(" of %g", c.Budget.StopAtEpsilon)
	}
	if c.Seed != nil {
		text += " (INSECURE)"
	}
	return text
}

// timeOfLots returns the time since the start, without evaluation.
func (p *Progress) timeOfLots() time.Duration { return time.Since(p.started) - p.evaluating }

// examplesPerSecond returns the speed up to a lot, in examples of the expected lots, with two
// significant digits. The time is that of the lots, without evaluation. It is 0 if no time has passed on a coarse clock.
func (p *Progress) examplesPerSecond(lot int, elapsed time.Duration) float64 {
	if elapsed <= 0 {
		return 0
	}
	return number.TwoDigits(p.examplesPerLot * float64(lot-p.firstLot) / elapsed.Seconds())
}

// serve updates the metrics that Prometheus reads.
func (p *Progress) serve(lot *engine.Progress) {
	m := metrics{
		lots: lot.Lot, plannedLots: lot.Lots, epsilon: lot.Epsilon, delta: p.spec.Config.Budget.Delta,
		examplesPerSecond: p.examplesPerSecond(lot.Lot, p.timeOfLots()), learningRate: lot.LearningRate,
		testAccuracy: p.testAccuracy(), regression: rundir.NewRegressionMetrics(p.evaluation),
	}
	if p.spec.Config.Mechanism.NonPrivate {
		m.epsilon, m.delta = math.Inf(1), 0
	}
	p.server.set(m)
}

// End ends the reports of lots.
func (p *Progress) End() {
	p.trainingTime = p.timeOfLots()
	p.bar.Hide()
	p.metrics.Close()
	p.events.Close()
}

// Close releases the evaluator.
func (p *Progress) Close() {
	if p.evaluator != nil {
		p.evaluator.Close()
	}
}

// NewLots returns the number of lots that this command has trained.
func (p *Progress) NewLots() int { return p.run.StepsDone() - p.firstLot }
