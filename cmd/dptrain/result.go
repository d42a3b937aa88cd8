package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"time"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/atomicfile"
	"github.com/dptrain/dptrain/internal/budget"
	"github.com/dptrain/dptrain/internal/number"
	"github.com/dptrain/dptrain/internal/report"
	"github.com/dptrain/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/internal/terminal"
)

// result is run.json: what is public about a run that ended.
type result struct {
	Epsilon         number.Float     `json:"epsilon"`
	Delta           number.Float     `json:"delta"`
	Accountant      string           `json:"accountant"`
	Order           float64          `json:"order,omitempty"`
	Adjacency       ledger.Adjacency `json:"adjacency"`
	Proven          number.Float     `json:"epsilon_proven,omitempty"` // lots of a fixed size: the bound for any data, where it is above epsilon
	Unit            string           `json:"unit"`
	NoiseMultiplier float64          `json:"noise_multiplier"`
	Sampling        string           `json:"sampling"`
	Rate            float64          `json:"rate"`
	Records         int              `json:"records"`
	ExpectedLot     float64          `json:"expected_lot"`
	Microbatch      int              `json:"microbatch"`
	Steps           int              `json:"steps"`
	Lost            int              `json:"lost_lots,omitempty"` // that the ledger holds beyond steps: a crash took what they made
	Clipping        string           `json:"clipping"`
	Groups          []ledger.Query   `json:"groups"`
	Device          string           `json:"device"`
	Threads         int              `json:"threads"`
	Resumed         int              `json:"resumed_at,omitempty"` // lots done before this command, of which neither of these is
	Seconds         float64          `json:"seconds"`              // of the whole command
	ExamplesPerSec  float64          `json:"examples_per_second"`  // of the expected lots, while they ran; 0 where none did
	TestAccuracy    number.Float     `json:"test_accuracy"`        // null where there are no test data
	TestLoss        number.Float     `json:"test_loss"`
	TestExamples    int              `json:"test_examples"`
	TestLabels      int              `json:"test_labels"` // that the accuracy is a share of
	*missed
	Target       string       `json:"target,omitempty"`
	TargetBounds *data.Bounds `json:"target_bounds,omitempty"`
	*validated
	*projectionSummary
	*augmentation
	Interrupted  bool         `json:"interrupted,omitempty"`     // before its last lot: dptrain train --resume goes on with it
	Planned      number.Float `json:"epsilon_planned,omitempty"` // of an interrupted run: what all its lots would have cost
	Secure       bool         `json:"secure"`
	Private      bool         `json:"private"`
	LedgerHead   string       `json:"ledger_head"`
	Version      string       `json:"version"`
	Data         string       `json:"data"`
	Model        string       `json:"model"`
	Parameters   int          `json:"parameters"`
	Note         string       `json:"note,omitempty"`
	Out          string       `json:"out"`
	Task         string       `json:"task"` // as the Hugging Face Hub names it
	Clip         float64      `json:"clip,omitempty"`
	Allocation   string       `json:"allocation,omitempty"`
	Optimizer    string       `json:"optimizer"`
	DecayOf      string       `json:"decay_of,omitempty"` // where it is not all
	LearningRate float64      `json:"learning_rate"`
	RateOf       string       `json:"lr_of,omitempty"` // LAYER=FACTOR,…
	Schedule     string       `json:"schedule"`
	Average      float64      `json:"ema,omitempty"`
	Preset       string       `json:"preset,omitempty"`
	Start        string       `json:"init,omitempty"`   // the name of the file with the starting weights
	Frozen       string       `json:"freeze,omitempty"` // the layers that keep them
	Platform     string       `json:"platform"`
	Finished     time.Time    `json:"finished"`
	ClassNames   []string     `json:"class_names,omitempty"`
	Confusion    [][]int      `json:"confusion,omitempty"` // of each true class, what was answered on the test data

	dataDir string // that eval needs too
}

// mostConfused is the largest number of classes that run.json holds a confusion
// matrix for.
const mostConfused = 200

// finish closes the run that was watched, and writes its files.
func finishRun(term *terminal.Terminal, w *watch, held *validated, took time.Duration) (*result, error) {
	j, run := w.job, w.run
	parameters, err := run.BorrowParameters()
	if err != nil {
		run.Close()
		return nil, err
	}
	j.takeDirections(run)
	d := run.Describe()
	if err := run.Close(); err != nil {
		return nil, err
	}
	r := &result{
		Epsilon: number.Float(math.Inf(1)), TestAccuracy: number.Float(math.NaN()), TestLoss: number.Float(math.NaN()), Sampling: string(run.Event().Policy), Rate: d.ExpectedLot / float64(d.Records),
		Records: d.Records, ExpectedLot: d.ExpectedLot, Microbatch: d.Microbatch, Steps: run.StepsDone(),
		Clipping: j.set.clipping, Device: d.Device, Groups: []ledger.Query{}, Threads: d.Threads, Resumed: w.first, Seconds: took.Seconds(),
		ExamplesPerSec: w.speed(run.StepsDone(), w.took),
		Secure:         d.Secure && !j.config.Mechanism.NonPrivate, Private: !j.config.Mechanism.NonPrivate, Version: currentBuild().Version,
		Data: j.task.Name, Model: j.model, Out: j.out, Unit: j.config.Records.Unit(),
		Task: j.kind(), Optimizer: j.set.optimizer, LearningRate: j.set.lr, RateOf: j.set.lrOf, Schedule: j.set.schedule, Average: j.set.ema,
		augmentation: j.augmented(), validated: held, Interrupted: w.interrupted, Preset: j.set.preset, dataDir: j.set.dataDir, Platform: currentBuild().Platform, Finished: time.Now().UTC().Truncate(time.Second),
	}
	if s := j.task.Schema; s.Target != "" {
		bounds := s.Bounds[s.Target]
		r.Target, r.TargetBounds = s.Target, &bounds
	}
	if j.config.Optimization.WeightDecayMultiplier != nil {
		r.DecayOf = j.set.decayOf
	}
	if j.set.init != "" {
		r.Start, r.Frozen = filepath.Base(j.set.init), j.set.freeze
	}
	if p := j.config.Projection; p.Directions > 0 && run.Directions() != nil { // else nothing of them was released
		r.projectionSummary = &projectionSummary{p.Directions, p.Noise}
	}
	for _, p := range parameters {
		r.Parameters += len(p.Values)
	}
	if j.config.Mechanism.NonPrivate {
		r.Clipping, r.Accountant, r.Adjacency = "none", "none", "none"
	} else if err := r.account(j, run); err != nil {
		return nil, err
	}
	if err := j.save(parameters); err != nil {
		return nil, err
	}
	if err := w.end(parameters); err != nil {
		return nil, err
	}
	if w.score != nil {
		r.tested(w.score, j.task)
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := atomicfile.Write(filepath.Join(j.out, "run.json"), append(text, '\n')); err != nil {
		return nil, err
	}
	if _, err := writeReport(j.out); err != nil {
		return nil, fmt.Errorf("the run is saved in %s, its report is not: %w", j.out, err)
	}
	return r, nil
}

// tested notes what was measured on the test set.
func (r *result) tested(score *engine.Evaluation, task *data.Task) {
	r.TestLoss, r.TestExamples, r.TestLabels = finite(score.Loss), score.Examples, score.Labels
	if score.Labels > 0 {
		r.TestAccuracy = number.Float(score.Accuracy)
	}
	r.missed = missedOf(score)
	if len(score.Confusion) <= mostConfused && !task.Schema.PredictNext {
		r.Confusion, r.ClassNames = score.Confusion, task.ClassNames
	}
}

// kind is what the network does, in the words of the Hugging Face Hub.
func (j *job) kind() string {
	switch {
	case j.example.Targets > 0 && j.example.Vocabulary == 0 && len(j.example.Shape) == 1:
		return "tabular-regression"
	case j.example.Targets > 0:
		return "other" // the Hub has no name for it
	case j.task.Schema.PredictNext:
		return "text-generation"
	case len(j.example.Labels) > 0:
		return "token-classification"
	case j.example.Vocabulary > 0:
		return "text-classification"
	case len(j.example.Shape) == 3:
		return "image-classification"
	}
	return "tabular-classification"
}

// account reads the closed ledger.
func (r *result) account(j *job, run *engine.Run) error {
	h, err := ledger.Read(j.config.Files.Ledger)
	if err != nil {
		return err
	}
	a, err := accountant.Epsilon(h, j.config.Budget.Delta, j.config.Budget.Accountant)
	if err != nil {
		return err
	}
	sealed, err := ledger.Verify(j.config.Files.Ledger)
	if err != nil {
		return err
	}
	r.Epsilon, r.Delta, r.Accountant, r.Order, r.Adjacency, r.Note = number.Float(a.Epsilon), number.Float(a.Delta), a.Accountant, a.Order, a.Adjacency, a.Note
	r.Proven = number.Float(a.ProvenBound)
	r.NoiseMultiplier, r.LedgerHead = j.config.Mechanism.NoiseMultiplier, sealed.Head
	r.Clip, r.Allocation = j.set.clip, j.set.allocation
	for _, spent := range h.Lots {
		if spent.Lot.Sampling.Policy == ledger.Policy(run.Event().Policy) {
			r.Groups = spent.Lot.Queries
			r.Lost += spent.Count
		}
	}
	r.Lost -= r.Steps
	if r.Interrupted && h.LotCount() > 0 { // else nothing was shown
		planned, err := run.PlannedEpsilon()
		if err != nil {
			return err
		}
		r.Planned = number.Float(planned)
	}
	return nil
}

// bare is what --quiet shows: how well the model does on public test data or, where there
// are none, on private records held out, and ε.
func (r *result) bare() string {
	scored := fmt.Sprintf("%.4f", r.TestAccuracy)
	switch v := r.validated; {
	case r.missed != nil:
		scored = number.Short(float64(r.missed.RMSE))
	case r.TestLabels == 0 && v != nil && v.ValidationMAE != nil:
		scored = number.Short(*v.ValidationMAE)
	case r.TestLabels == 0 && v != nil:
		scored = fmt.Sprintf("%.4f", *v.ValidationAccuracy)
	}
	return scored + " " + number.RoundUp(float64(r.Epsilon))
}

// print tells a person how it went and what may come next.
func (r *result) print(w io.Writer) {
	if r.TestLabels > 0 {
		fmt.Fprintf(w, "accuracy\t%.2f%% on %s\n", 100*float64(r.TestAccuracy), number.Plural(r.TestExamples, "public test example"))
	}
	if r.missed != nil {
		r.missed.print(w, fmt.Sprintf(" (%s) on %s", r.Target, number.Plural(r.TestExamples, "public test example")))
	}
	if r.validated != nil {
		r.validated.print(w, r.Target)
	}
	if r.projectionSummary != nil {
		r.projectionSummary.print(w)
	}
	if r.Private {
		fmt.Fprintf(w, "privacy\tε = %s at δ = %s, by the %s accountant\n", budget.FormatEpsilon(r.Epsilon, r.Proven), number.RoundUp(float64(r.Delta)), r.Accountant)
		fmt.Fprintf(w, "\tadjacency %s, %s, %s of about %.0f from %d\n", r.Adjacency, report.DescribeUnit(r.Unit), number.Plural(r.Steps, "lot"), r.ExpectedLot, r.Records)
		if r.Planned > 0 {
			fmt.Fprintf(w, "\tε = %s, the whole plan's, if it was stopped for what it had shown\n", number.RoundUp(float64(r.Planned)))
		}
		if r.Lost > 0 {
			fmt.Fprintf(w, "\tand %s whose work a crash took: ε covers them too\n", number.Plural(r.Lost, "lot"))
		}
	} else {
		fmt.Fprintf(w, "privacy\tNONE: trained without clipping and noise, ε = ∞\n")
	}
	if r.Private && !r.Secure {
		fmt.Fprintf(w, "\t%s\n", insecureWarning)
	}
	if d := budget.DeltaWarning(float64(r.Delta), r.Records); d != "" {
		fmt.Fprintf(w, "warning\t%s\n", d)
	}
	if r.Note != "" {
		fmt.Fprintf(w, "note\t%s\n", r.Note)
	}
	pace := ""
	if r.ExamplesPerSec > 0 {
		pace = "lots at " + terminal.Speed(r.ExamplesPerSec) + " "
	}
	fmt.Fprintf(w, "time\t%.1f s, %son %s, %d threads\n", r.Seconds, pace, r.Device, r.Threads)
	fmt.Fprintf(w, "files\t%s\n", r.Out)
	fmt.Fprintf(w, "report\t%s\n", filepath.Join(r.Out, "report.html"))
	elsewhere := ""
	switch {
	case r.TestExamples == 0:
		elsewhere = " --data TEST.FILE"
	case r.dataDir != "":
		elsewhere = " --data-dir " + rundir.ShellQuote(r.dataDir)
	}
	if r.Private {
		fmt.Fprintf(w, "next\tdptrain eval %s%s\n", rundir.ShellQuote(r.Out), elsewhere)
		fmt.Fprintf(w, "\tdptrain ledger epsilon %s --delta %s --accountant rdp\n", rundir.ShellQuote(filepath.Join(r.Out, "ledger.jsonl")), number.RoundUp(float64(r.Delta)))
	} else {
		fmt.Fprintf(w, "next\tdptrain train (the same, with privacy)\n")
	}
}
