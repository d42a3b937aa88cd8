package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/budget"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/number"
	"github.com/dptrain/dptrain/internal/terminal"
	"gorgonia.org/tensor"
)

// preview is what train --dry-run answers: the run before it is paid for.
type preview struct {
	Data        string           `json:"data"`
	Model       string           `json:"model"`
	Layers      []previewLayer   `json:"layers"`
	Parameters  int              `json:"parameters"`
	Records     int              `json:"records"`
	Unit        string           `json:"unit"`
	Steps       int              `json:"steps"`
	ExpectedLot float64          `json:"expected_lot"`
	Microbatch  int              `json:"microbatch"`
	Bytes       int              `json:"bytes"` // of the device's buffers, whatever the lot
	Epsilon     number.Float     `json:"epsilon"`
	Delta       number.Float     `json:"delta"`
	Accountant  string           `json:"accountant"`
	Adjacency   ledger.Adjacency `json:"adjacency,omitempty"`
	Proven      number.Float     `json:"epsilon_proven,omitempty"`
	Note        string           `json:"note,omitempty"`
	Secure      bool             `json:"secure"`
	Start       string           `json:"init,omitempty"` // what was found in that file
	Noise       float64          `json:"noise_multiplier"`
	HeldOut     int              `json:"validation_records,omitempty"`
	HeldNoise   float64          `json:"validation_noise,omitempty"`
	*projectionSummary
	*augmentation
	Seconds float64 `json:"seconds"` // likely, from a few lots of blank examples
	Device  string  `json:"device"`
	Warning string  `json:"warning,omitempty"`

	hidden string // what of held-out records gets noise
}

type previewLayer struct {
	Name   string  `json:"name"`
	Shape  []int   `json:"shape"`
	Use    string  `json:"use"`
	Norm   string  `json:"norm"`
	Group  string  `json:"group,omitempty"`
	Clip   float64 `json:"clip,omitempty"`
	StdDev float64 `json:"noise,omitempty"` // on each element of the sum
}

// blank has the shape of a set and nothing in it: zeros for every number, the
// first class for every label. What is timed on it says nothing of the data.
type blank struct{ data.Set }

func (b blank) Read(dst [][]float32, _ []int) error {
	for _, d := range dst {
		clear(d)
	}
	return nil
}

// blankUsers is blank with the owners, which decide what a record is.
type blankUsers struct {
	blank
	users []int32
}

func (b blankUsers) Users() []int32 { return b.users }

func blanked(s data.Set) data.Set {
	if users := data.Users(s); users != nil {
		return blankUsers{blank{s}, users}
	}
	return blank{s}
}

// rehearsed is how long lots are timed for.
const rehearsed = 2 * time.Second

// preview describes a run and times it on blank examples. It spends nothing: its
// ledger lies in a folder of its own and goes with it.
func previewRun(term *terminal.Terminal, set *settings) error {
	job, err := set.job(term)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	folder, err := os.MkdirTemp("", "dptrain-preview-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	c := job.config
	c.Train = blanked(c.Train)
	c.Files.CheckpointFolder = ""
	c.Projection = engine.Projection{} // behind directions of zeros all takes as long
	if !c.Mechanism.NonPrivate {
		c.Files.Ledger = filepath.Join(folder, "ledger.jsonl")
	}
	run, err := engine.New(c)
	if err != nil {
		return exitcode.AsUsage(err)
	}
	defer run.Close()
	d := run.Describe()
	p := &preview{Data: job.task.Name, Model: job.model, Records: d.Records, Unit: c.Records.Unit(), Steps: c.Steps,
		ExpectedLot: d.ExpectedLot, Parameters: weightsOf(d), Microbatch: d.Microbatch, Bytes: d.Bytes, Device: d.Device, Warning: d.Warning, Epsilon: number.Float(math.Inf(1)), Secure: d.Secure && !c.Mechanism.NonPrivate}
	if job.matched != "" {
		p.Start = job.startWords()
	}
	for _, v := range d.Parameters {
		p.Layers = append(p.Layers, previewLayer{v.Name, v.Shape, v.Kind, v.Method, v.Group, v.Clip, v.Sigma})
	}
	if !c.Mechanism.NonPrivate {
		a, err := accountant.Epsilon(engine.PlannedHistory(job.config), c.Budget.Delta, c.Budget.Accountant)
		if err != nil {
			return exitcode.AsUsage(err)
		}
		p.Epsilon, p.Delta, p.Accountant, p.Noise = number.Float(a.Epsilon), number.Float(a.Delta), a.Accountant, c.Mechanism.NoiseMultiplier
		p.Adjacency, p.Proven, p.Note = a.Adjacency, number.Float(a.ProvenBound), a.Note
	}
	warn := func(words string) { p.Warning = strings.TrimPrefix(p.Warning+"; "+words, "; ") }
	if w := budget.DeltaWarning(float64(p.Delta), job.records); w != "" {
		warn(w)
	}
	if stop := job.config.Budget.StopAtEpsilon; stop > 0 && max(float64(p.Epsilon), float64(p.Proven)) > stop {
		warn(fmt.Sprintf("all lots together cost more than ε = %g, so the run ends before the first that would exceed it", stop))
	}
	if c.Validation.Set != nil {
		p.HeldOut, p.HeldNoise = engine.RecordCount(c.Validation.Set, c.Records), c.Validation.Noise
		p.hidden = job.hidden()
	}
	if q := job.config.Projection; q.Directions > 0 {
		p.projectionSummary = &projectionSummary{q.Directions, q.Noise}
	}
	p.augmentation = job.augmented()
	if p.Seconds, err = terminal.Await(term, "Timing lots of blank examples", func() (float64, error) { return rehearse(run, c.Steps) }); err != nil {
		return err
	}
	return term.Print(p, fmt.Sprintf("%s %.0f", number.RoundUp(float64(p.Epsilon)), p.Seconds), p.print)
}

// weightsOf is how many weights are trained.
func weightsOf(d engine.Description) (n int) {
	for _, v := range d.Parameters {
		n += tensor.ProdInts(v.Shape)
	}
	return n
}

// rehearse runs lots for a moment, one at least, and gives the time that all of them
// would take. The first takes longer than the others: it counts where it is the only one.
func rehearse(run *engine.Run, steps int) (float64, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	began, lots := time.Now(), 0
	var first, last time.Time
	err := run.Train(ctx, func(*engine.Progress) error {
		last = time.Now()
		if lots++; lots == 1 {
			first = last
		}
		if last.Sub(began) > rehearsed {
			cancel()
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		return 0, err
	}
	if lots == 1 {
		first, lots = began, 2
	}
	return last.Sub(first).Seconds() / float64(lots-1) * float64(steps), nil
}

func (p *preview) print(w io.Writer) {
	fmt.Fprintf(w, "parameter\tshape\tuse\tnorms\tgroup\tclip\tnoise\n")
	for _, l := range p.Layers {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%.4g\t%.4g\n", l.Name, strings.Trim(strings.ReplaceAll(fmt.Sprint(l.Shape), " ", "×"), "[]"), l.Use, l.Norm, l.Group, l.Clip, l.StdDev)
	}
	fmt.Fprintf(w, "\nmodel\t%s on %s, %d weights\n", p.Model, p.Data, p.Parameters)
	fmt.Fprintf(w, "lots\t%d of about %.0f from %d records (%s), computed %d at a time in %.1f MB\n", p.Steps, p.ExpectedLot, p.Records, p.Unit, p.Microbatch, float64(p.Bytes)/1e6)
	if p.Accountant == "" {
		fmt.Fprintf(w, "privacy\tNONE: no clipping, no noise, ε = ∞\n")
	} else {
		fmt.Fprintf(w, "privacy\tε = %s at δ = %s after all lots, by the %s accountant; noise multiplier %.4g\n", budget.FormatEpsilon(p.Epsilon, p.Proven), number.RoundUp(float64(p.Delta)), p.Accountant, p.Noise)
		fmt.Fprintf(w, "\tadjacency %s\n", p.Adjacency)
		if !p.Secure {
			fmt.Fprintf(w, "\t%s\n", insecureWarning)
		}
	}
	if p.Note != "" {
		fmt.Fprintf(w, "note\t%s\n", p.Note)
	}
	if p.Start != "" {
		fmt.Fprintf(w, "start\t%s\n", p.Start)
	}
	if p.projectionSummary != nil {
		p.projectionSummary.print(w)
	}
	if p.augmentation != nil {
		p.augmentation.print(w)
	}
	if p.HeldOut > 0 {
		fmt.Fprintf(w, "validation\t%d more records are held out; their %s gets noise of deviation %.4g\n", p.HeldOut, p.hidden, p.HeldNoise)
	}
	fmt.Fprintf(w, "time\tabout %v on %s\n", time.Duration(p.Seconds*float64(time.Second)).Round(time.Second), p.Device)
	if p.Warning != "" {
		fmt.Fprintf(w, "warning\t%s\n", p.Warning)
	}
}
