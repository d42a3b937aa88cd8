package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/budget"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/report"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/training"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/sample"
	"gorgonia.org/tensor"
)

// preview is the result of train --dry-run: the run before anything is spent.
type preview struct {
	Data              string             `json:"data"`
	Model             string             `json:"model"`
	Layers            []previewParameter `json:"layers"`
	Groups            []previewGroup     `json:"groups"`
	Parameters        int                `json:"parameters"` // number of weights
	Records           int                `json:"records"`
	Unit              string             `json:"unit"`
	Steps             int                `json:"steps"`
	ExpectedLot       float64            `json:"expected_lot"`
	MaxLot            int                `json:"max_lot,omitempty"`
	Microbatch        int                `json:"microbatch"`
	Bytes             int                `json:"bytes"` // of the device's buffers, which do not depend on the lot
	Epsilon           number.Float       `json:"epsilon"`
	PublishedEpsilon  number.Float       `json:"epsilon_published,omitempty"` // as in run.json
	Approximate       bool               `json:"approximate,omitempty"`       // likewise
	Delta             number.Float       `json:"delta"`
	Accountant        string             `json:"accountant"`
	Mechanism         string             `json:"mechanism,omitempty"`
	Adjacency         ledger.Adjacency   `json:"adjacency,omitempty"`
	Note              string             `json:"note,omitempty"`
	Secure            bool               `json:"secure"`
	StartNote         string             `json:"init,omitempty"` // describes the starting weights
	NoiseMultiplier   float64            `json:"noise_multiplier"`
	ValidationRecords int                `json:"validation_records,omitempty"`
	ValidationNoise   float64            `json:"validation_noise,omitempty"`
	Clip              float64            `json:"clip,omitempty"` // this and the next ones as in run.json
	Optimizer         string             `json:"optimizer"`
	LearningRate      float64            `json:"learning_rate"`
	Average           float64            `json:"ema,omitempty"`
	ByRule            []string           `json:"by_rule,omitempty"`
	RuleReasons       map[string]string  `json:"by_rule_reasons,omitempty"`
	LocalSteps        int                `json:"local_steps,omitempty"`
	LocalRate         float64            `json:"local_lr,omitempty"`
	LocalBatch        int                `json:"local_batch,omitempty"`
	NoiseSchedule     string             `json:"noise_schedule,omitempty"`
	*rundir.Projection
	*rundir.Augmentation
	Seconds float64  `json:"seconds"` // estimated from lots of blank examples, or from a part of one
	Device  string   `json:"device"`
	Warning string   `json:"warning,omitempty"`
	Advice  []string `json:"advice,omitempty"` // about settings outside the range of published runs

	validationStatistic string
}

type previewParameter struct {
	Name   string  `json:"name"`
	Shape  []int   `json:"shape"`
	Use    string  `json:"use"`
	Norm   string  `json:"norm"`
	Group  string  `json:"group,omitempty"`
	Clip   float64 `json:"clip,omitempty"`
	StdDev float64 `json:"noise,omitempty"` // of each element of the sum
}

// previewGroup is a group of parameters or a statistic. Bounds and noise that follow a schedule have
// several values.
type previewGroup struct {
	Group           string       `json:"group"`
	Sensitivity     float64      `json:"sensitivity"` // the least
	MaxSensitivity  float64      `json:"sensitivity_max"`
	Noise           float64      `json:"noise"` // the least
	MaxNoise        float64      `json:"noise_max"`
	NoiseOfMean     float64      `json:"noise_of_mean"`    // Noise over the expected lot: of the released mean
	NoiseMultiplier float64      `json:"noise_multiplier"` // of all its releases: the root of their mean of 1/z², inverted
	Lots            int          `json:"lots"`             // that release it
	Share           number.Float `json:"share"`            // of what the lots cost: of the sum of 1/z²
}

// previewGroups describes the groups of a run's lots.
func previewGroups(run *engine.Run) (groups []previewGroup) {
	for _, g := range report.Groups(ledger.History{Lots: run.PlannedLots()}) {
		groups = append(groups, previewGroup{g.Name, g.MinSensitivity, g.MaxSensitivity, g.MinNoise, g.MaxNoise,
			g.MinNoise / run.Describe().ExpectedLot, g.NoiseMultiplier(), g.Lots, number.Float(g.Share)})
	}
	return groups
}

// timingDuration is how long lots are timed for a prediction. Tests shorten it.
var timingDuration = 2 * time.Second

// dryRun describes a run and times it on blank examples.
func dryRun(term *terminal.Terminal, flags *settings.Flags) error {
	spec, err := newSpec(term, flags)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	c := spec.Config
	run, err := training.NewBlankRun(c)
	if err != nil {
		return err
	}
	defer run.Close()
	announceSchema(term, spec)
	warnAboutRun(term, spec, run.Run)
	p, err := newPreview(spec, run.Run)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	estimate := func() (float64, error) { return run.EstimateDuration(c.Steps, timingDuration) }
	if p.Seconds, err = terminal.Await(term, "Timing lots of blank examples", estimate); err != nil {
		return err
	}
	return term.Print(p, fmt.Sprintf("%s %.0f", budget.FormatBound(p.Epsilon, p.Approximate), p.Seconds), p.print)
}

func newPreview(spec *settings.Spec, run *engine.Run) (*preview, error) {
	c, d := &spec.Config, run.Describe()
	p := &preview{
		Data: spec.Task.Name, Model: spec.Network.Model, Records: d.Records, Unit: c.Records.Unit(), Steps: c.Steps,
		ExpectedLot: d.ExpectedLot, Parameters: weightCount(d), Microbatch: d.Microbatch, Bytes: d.Bytes,
		Device: d.Device, Warning: d.Warning,
		Epsilon: number.Float(math.Inf(1)), Secure: d.Secure && !c.Mechanism.NonPrivate,
		StartNote: spec.Network.StartNote(), Augmentation: spec.AugmentationSummary(),
	}
	f := spec.Flags
	p.NoiseSchedule = f.NoiseSchedule
	p.Optimizer, p.LearningRate, p.Average, p.ByRule = f.Optimizer, f.LearningRate, f.EMA, f.ByRule()
	p.RuleReasons = f.RuleReasons()
	if len(f.Groups) == 0 && !c.Mechanism.NonPrivate {
		p.Clip = f.Clip
	}
	p.LocalSteps, p.LocalRate, p.LocalBatch = d.LocalTraining.Steps, d.LocalTraining.Rate, d.LocalTraining.Batch
	for _, v := range d.Parameters {
		p.Layers = append(p.Layers, previewParameter{v.Name, v.Shape, v.Kind, v.Method, v.Group, v.Clip, v.Sigma})
	}
	p.Groups = previewGroups(run)
	if e := run.Event(); e.Policy == sample.PolicyTruncated {
		p.MaxLot = e.LotSize
	}
	if !c.Mechanism.NonPrivate {
		a, err := accountant.Epsilon(c.PlannedHistory(), c.Budget.Delta, c.Budget.Accountant)
		if err != nil {
			return nil, err
		}
		p.Epsilon, p.Delta, p.Accountant, p.NoiseMultiplier = number.Float(a.Epsilon), number.Float(a.Delta),
			a.Accountant, c.Mechanism.CombinedNoiseMultiplier(0)
		p.Mechanism = string(c.Mechanism.Distribution)
		p.Adjacency, p.PublishedEpsilon, p.Approximate, p.Note = a.Adjacency, number.Float(a.Published), a.Approximate, a.Note
	}
	warn := func(text string) { p.Warning = strings.TrimPrefix(p.Warning+"; "+text, "; ") }
	if w := budget.EpsilonWarning(float64(p.Epsilon)); w != "" && !c.Mechanism.NonPrivate {
		warn(w)
	}
	if w := budget.DeltaWarning(float64(p.Delta), spec.Records); w != "" {
		warn(w)
	}
	if stop := c.Budget.StopAtEpsilon; stop > 0 && float64(p.Epsilon) > stop {
		warn(fmt.Sprintf("all lots together cost more than ε = %g, so the run ends before the first lot that would exceed it", stop))
	}
	if !c.Mechanism.NonPrivate {
		p.Advice = budget.Advice(settings.AdviceSettings(spec, d))
	}
	if c.Validation.Set != nil {
		p.ValidationRecords, p.ValidationNoise = c.Records.Count(c.Validation.Set), c.Validation.Noise
		p.validationStatistic = spec.ValidationStatistic()
	}
	if q := c.Projection; q.Directions > 0 {
		p.Projection = &rundir.Projection{Directions: q.Directions, Noise: q.Noise}
	}
	return p, nil
}

// weightCount returns the number of trained weights.
func weightCount(d engine.RunDescription) (n int) {
	for _, v := range d.Parameters {
		n += tensor.ProdInts(v.Shape)
	}
	return n
}

func (p *preview) print(w io.Writer) {
	fmt.Fprintf(w, "parameter\tshape\tuse\tnorms\tgroup\tclip\tnoise\n")
	for _, l := range p.Layers {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%.4g\t%.4g\n", l.Name, strings.Trim(strings.ReplaceAll(fmt.Sprint(l.Shape), " ", "×"), "[]"),
			l.Use, l.Norm, l.Group, l.Clip, l.StdDev)
	}
	if len(p.Groups) > 1 {
		fmt.Fprintf(w, "\ngroup\tsensitivity\tnoise\tof the mean\tmultiplier\tlots\tshare of the budget\n")
		for _, g := range p.Groups {
			fmt.Fprintf(w, "%s\t%s\t%s\t%.4g\t%.4g\t%d\t%.1f%%\n", g.Group, report.ValueRange(g.Sensitivity, g.MaxSensitivity),
				report.ValueRange(g.Noise, g.MaxNoise), g.NoiseOfMean, g.NoiseMultiplier, g.Lots, 100*g.Share)
		}
	}
	fmt.Fprintf(w, "\nmodel\t%s on %s, %d weights\n", p.Model, p.Data, p.Parameters)
	atMost := ""
	if p.MaxLot > 0 {
		atMost = fmt.Sprintf(", at most %d,", p.MaxLot)
	}
	fmt.Fprintf(w, "lots\t%d of about %.0f%s from %d records (%s), computed %d at a time in %.1f MB\n", p.Steps, p.ExpectedLot, atMost, p.Records, p.Unit, p.Microbatch, float64(p.Bytes)/1e6)
	fmt.Fprintf(w, "update\t%s, learning rate %g", p.Optimizer, p.LearningRate)
	if p.Average > 0 {
		fmt.Fprintf(w, ", moving average with decay %g", p.Average)
	}
	fmt.Fprintln(w)
	for i, name := range p.ByRule {
		heading := ""
		if i == 0 {
			heading = "by rule"
		}
		fmt.Fprintf(w, "%s\t%s: %s\n", heading, name, p.RuleReasons[name])
	}
	if len(p.ByRule) > 0 {
		fmt.Fprintf(w, "\tdocs/defaults.md has the rules and their evidence\n")
	}
	if p.LocalSteps > 0 {
		fmt.Fprintf(w, "local training\t%d steps of each user on up to %d examples, with learning rate %g\n", p.LocalSteps, p.LocalBatch, p.LocalRate)
	}
	if p.Accountant == "" {
		fmt.Fprintf(w, "privacy\tNONE: no clipping, no noise, ε = ∞\n")
	} else {
		laplace := ""
		if p.Mechanism == string(engine.LaplaceNoise) {
			laplace = " of discrete Laplace noise: its scale over the bound on ℓ₁ norms"
		}
		fmt.Fprintf(w, "privacy\tε %s at δ = %s after all lots, by the %s accountant; noise multiplier %.4g%s\n", relateEpsilon(p.Epsilon, p.Approximate), number.RoundUp(float64(p.Delta)),
			p.Accountant, p.NoiseMultiplier, laplace)
		if p.PublishedEpsilon != 0 {
			fmt.Fprintf(w, "\tpublished ε = %s\n", budget.DescribePublished(p.PublishedEpsilon))
		}
		fmt.Fprintf(w, "\tadjacency %s\n", p.Adjacency)
		if !p.Secure {
			fmt.Fprintf(w, "\t%s\n", insecureWarning)
		}
	}
	if p.NoiseSchedule != "" {
		fmt.Fprintf(w, "noise schedule\t%s; the ε above is that of lots with the first noise\n", p.NoiseSchedule)
	}
	if p.Note != "" {
		fmt.Fprintf(w, "note\t%s\n", p.Note)
	}
	if p.StartNote != "" {
		fmt.Fprintf(w, "start\t%s\n", p.StartNote)
	}
	if p.Projection != nil {
		p.Projection.Print(w)
	}
	if p.Augmentation != nil {
		p.Augmentation.Print(w)
	}
	if p.ValidationRecords > 0 {
		fmt.Fprintf(w, "validation\t%d more records are held out; noise with standard deviation %.4g is added to their %s\n", p.ValidationRecords, p.ValidationNoise, p.validationStatistic)
	}
	fmt.Fprintf(w, "time\tabout %v on %s\n", time.Duration(p.Seconds*float64(time.Second)).Round(time.Second), p.Device)
	if p.Warning != "" {
		fmt.Fprintf(w, "warning\t%s\n", p.Warning)
	}
	for _, sentence := range p.Advice {
		fmt.Fprintf(w, "advice\t%s\n", sentence)
	}
}
