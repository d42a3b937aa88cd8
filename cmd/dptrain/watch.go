package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/internal/number"
	"github.com/dptrain/dptrain/internal/tensorboard"
	"github.com/dptrain/dptrain/internal/terminal"
)

// announce says what is about to happen.
func announce(term *terminal.Terminal, j *job, run *engine.Run) {
	d := run.Describe()
	term.Note("Training %s (%d weights) on %s: %d records, %s of about %.0f.", j.model, weightsOf(d), j.task.Name, d.Records, number.Plural(j.config.Steps, "lot"), d.ExpectedLot)
	if n := j.config.Projection.Directions; n > 0 && run.Directions() == nil {
		term.Note("First %s of the features: released once, before the first lot.", number.Plural(n, "principal direction"))
	}
	if j.matched != "" {
		term.Note("Starting from %s.", j.startWords())
	}
	switch {
	case j.config.Mechanism.NonPrivate:
		term.Note("NOT PRIVATE: no clipping, no noise, ε = ∞. The weights may give away any record.")
	case !d.Secure:
		term.Note("%s.", insecureWarning)
	}
	if d.Warning != "" {
		term.Note("Warning: %s.", d.Warning)
	}
	warnAboutDelta(term, j.config.Budget.Delta, j.records)
}

// watch follows a run: a bar where there is a terminal, a line at each tenth
// elsewhere, and a line of metrics.jsonl at each tenth. All that it shows is
// public: hyper-parameters, the ledger, and the public test set.
//
// The test set is measured at the end, and at a report where as many examples as it has
// are expected to have been trained on since: then it takes a small part of the time.
type watch struct {
	term      *terminal.Terminal
	job       *job
	run       *engine.Run
	bar       *terminal.ProgressBar // nil where there is no terminal
	metrics   *os.File
	events    *tensorboard.Writer
	evaluator *engine.Evaluator
	exporter  *exporter          // nil where nobody scrapes
	score     *engine.Evaluation // the last on the test set; nil before the first
	measured  int                // the lot that it is of, or that the run began with
	began     time.Time
	each      float64 // examples expected in a lot
	every     int     // lots between reports
	first     int     // lots done when it began

	took        time.Duration // from began to the last lot
	interrupted bool          // before the last lot
}

func newWatch(term *terminal.Terminal, j *job, run *engine.Run) (*watch, error) {
	d := run.Describe()
	w := &watch{term: term, job: j, run: run, began: time.Now(), each: d.ExpectedLot * float64(d.PerRecord), every: max(1, j.config.Steps/10), first: run.StepsDone(), measured: run.StepsDone()}
	var err error
	if w.metrics, err = os.OpenFile(filepath.Join(j.out, "metrics.jsonl"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
		return nil, err
	}
	if w.events, err = tensorboard.Create(filepath.Join(j.out, "tensorboard"), w.began); err != nil {
		return nil, err
	}
	if j.config.Projection.Directions == 0 { // else only the run has the network, and not yet
		if err := w.evaluate(); err != nil {
			return nil, err
		}
	}
	w.bar = term.NewProgressBar(j.config.Steps)
	return w, w.bar.Update(w.first, func() []string { return nil })
}

// evaluate has the trained network measured on the test set, if there is one.
func (w *watch) evaluate() (err error) {
	if w.job.task.Test == nil || w.evaluator != nil {
		return nil
	}
	if w.evaluator, err = engine.NewEvaluator(w.run.Network(), w.job.set.place()); err != nil {
		return err
	}
	parameters, err := w.run.BorrowParameters()
	if err != nil {
		return err
	}
	return w.evaluator.LoadWeights(engine.Values(parameters))
}

// measure scores the weights after the lots so far.
func (w *watch) measure(parameters []engine.Parameter) error {
	score, err := w.evaluator.Score(engine.Values(parameters), w.job.task.Test)
	if err == nil {
		w.score, w.measured = &score, w.run.StepsDone()
	}
	return err
}

// accuracy is the last on the test set; NaN where none is known.
func (w *watch) accuracy() float64 {
	if w.score == nil || w.score.Labels == 0 {
		return math.NaN()
	}
	return w.score.Accuracy
}

// scored says how the weights did last on the test set; "" where that is not known.
func (w *watch) scored() string {
	if m := missedOf(w.score); m != nil {
		return "test RMSE " + number.Short(float64(m.RMSE))
	}
	if a := w.accuracy(); !math.IsNaN(a) {
		return fmt.Sprintf("test accuracy %.2f%%", 100*a)
	}
	return ""
}

// end scores the weights that the run ended with, if there is a test set and the last
// lot's report has not.
func (w *watch) end(parameters []engine.Parameter) error {
	if w.score != nil && w.measured == w.run.StepsDone() {
		return nil
	}
	if err := w.evaluate(); err != nil || w.evaluator == nil {
		return err
	}
	_, err := terminal.Await(w.term, "Measuring on "+number.Plural(w.job.task.Test.Len(), "test example"), func() (any, error) { return nil, w.measure(parameters) })
	return err
}

// point is one line of metrics.jsonl.
type point struct {
	Lot          int           `json:"lot"`
	Epsilon      number.Float  `json:"epsilon,omitempty"`
	Proven       number.Float  `json:"epsilon_proven,omitempty"` // as in run.json
	TestAccuracy *float64      `json:"test_accuracy,omitempty"`
	TestLoss     *number.Float `json:"test_loss,omitempty"`
	*missed
	LearningRate float64 `json:"learning_rate"`
	Seconds      float64 `json:"seconds"`
}

func (w *watch) observe(p *engine.Progress) error {
	if err := w.bar.Update(p.Lot, func() []string { return w.standing(p) }); err != nil {
		return err
	}
	defer w.publish(p)
	if p.Lot%w.every != 0 && p.Lot != p.Lots {
		return nil
	}
	line := point{Lot: p.Lot, LearningRate: p.LearningRate, Seconds: time.Since(w.began).Seconds()}
	// What is written down must not be older than the lot: the ledger as it stands,
	// with what it has reserved, is never less than was spent.
	if !w.job.config.Mechanism.NonPrivate {
		spent, err := w.run.Spent(w.job.config.Budget.Accountant)
		if err != nil {
			return err
		}
		p.Epsilon = spent.UpperBound()
		line.Epsilon, line.Proven = number.Float(spent.Epsilon), number.Float(spent.ProvenBound)
	}
	parameters, err := w.run.BorrowParameters()
	if err != nil {
		return err
	}
	if name := diverged(parameters); name != "" {
		return fmt.Errorf("lot %d: %s holds numbers that are not finite, so nothing more can be learnt; begin again with a smaller --lr or --clip", p.Lot, name)
	}
	if err := w.evaluate(); err != nil {
		return err
	}
	if w.evaluator != nil && (p.Lot == p.Lots || w.each*float64(p.Lot-w.measured) >= float64(w.job.task.Test.Len())) {
		if err := w.measure(parameters); err != nil {
			return err
		}
		line.TestLoss = (*number.Float)(&w.score.Loss)
		if w.score.Labels > 0 {
			line.TestAccuracy = &w.score.Accuracy
		}
		line.missed = missedOf(w.score)
	}
	if w.bar == nil && !w.term.Quiet {
		w.term.Note("lot %d/%d, %s", p.Lot, p.Lots, strings.Join(w.standing(p), ", "))
	}
	if w.job.set.showPrivate {
		p := w.run.PrivateStats()
		w.bar.Hide()
		w.term.Note("PRIVATE, do not publish: the last lot held %d records, %d of them unscaled, %d refused; mean loss %.4f", p.Records, p.Unclipped, p.NonFinite, p.Loss)
	}
	b, err := json.Marshal(line)
	if err != nil {
		return err
	}
	if _, err := w.metrics.Write(append(b, '\n')); err != nil {
		return err
	}
	return w.events.Write(p.Lot, time.Now(), line.scalars()...)
}

// diverged names a parameter with a number that is not finite; "" where there is none.
func diverged(parameters []engine.Parameter) string {
	for _, p := range parameters {
		for _, v := range p.Values {
			if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
				return p.Name
			}
		}
	}
	return ""
}

// scalars are a point's curves in TensorBoard.
func (p *point) scalars() []tensorboard.Scalar {
	all := []tensorboard.Scalar{{Tag: "learning_rate", Value: p.LearningRate}}
	if p.Epsilon > 0 {
		all = append(all, tensorboard.Scalar{Tag: "privacy/epsilon", Value: float64(p.Epsilon)})
	}
	if p.Proven > 0 {
		all = append(all, tensorboard.Scalar{Tag: "privacy/epsilon_proven", Value: float64(p.Proven)})
	}
	if p.TestAccuracy != nil {
		all = append(all, tensorboard.Scalar{Tag: "test/accuracy", Value: *p.TestAccuracy})
	}
	if m := p.missed; m != nil {
		all = append(all, tensorboard.Scalar{Tag: "test/rmse", Value: float64(m.RMSE)}, tensorboard.Scalar{Tag: "test/mae", Value: float64(m.MAE)})
		if !math.IsNaN(float64(m.R2)) {
			all = append(all, tensorboard.Scalar{Tag: "test/r2", Value: float64(m.R2)})
		}
	}
	if p.TestLoss != nil {
		all = append(all, tensorboard.Scalar{Tag: "test/loss", Value: float64(*p.TestLoss)})
	}
	return all
}

// standing is ε so far of ε planned, the time left, the accuracy and the speed.
func (w *watch) standing(p *engine.Progress) []string {
	epsilon := w.epsilon(p)
	took := time.Since(w.began)
	words := []string{epsilon, terminal.TimeLeft(took, p.Lot-w.first, p.Lots-p.Lot)}
	if known := w.scored(); known != "" && (w.bar != nil || w.measured == p.Lot) {
		words = append(words, known)
	}
	return append(words, terminal.Speed(w.speed(p.Lot, took)))
}

// epsilon is what the budget is held to so far, with a mark where it is an approximation
// or the run insecure.
func (w *watch) epsilon(p *engine.Progress) string {
	c := &w.job.config
	if c.Mechanism.NonPrivate {
		return "ε = ∞"
	}
	text := "ε "
	if c.Budget.Accountant == "gdp" {
		text += "≈ "
	}
	text += number.RoundUp(math.Ceil(1000*p.Epsilon) / 1000)
	if c.Budget.StopAtEpsilon > 0 {
		text += fmt.Sprintf(" of %g", c.Budget.StopAtEpsilon)
	}
	if c.Seed != nil {
		text += " (INSECURE)"
	}
	return text
}

// speed is how many examples of the expected lots were done in a second, up to a lot; 0
// where that is not known, as a coarse clock saw no time pass.
func (w *watch) speed(lot int, took time.Duration) float64 {
	if took <= 0 {
		return 0
	}
	return w.each * float64(lot-w.first) / took.Seconds()
}

// publish hands what is known of a lot to those who scrape.
func (w *watch) publish(p *engine.Progress) {
	g := gauges{lots: p.Lot, planned: p.Lots, epsilon: p.Epsilon, delta: w.job.config.Budget.Delta, speed: w.speed(p.Lot, time.Since(w.began)), learningRate: p.LearningRate, testAccuracy: w.accuracy(), missed: missedOf(w.score)}
	if w.job.config.Mechanism.NonPrivate {
		g.epsilon, g.delta = math.Inf(1), 0
	}
	w.exporter.set(g)
}

// done ends what is shown of the lots.
func (w *watch) done() {
	w.took = time.Since(w.began)
	w.bar.Hide()
	w.metrics.Close()
	w.events.Close()
}

func (w *watch) close() {
	if w.evaluator != nil {
		w.evaluator.Close()
	}
}
