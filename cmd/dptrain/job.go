package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/budget"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/models"
	"github.com/dptrain/dptrain/perexample"
)

// job is what settings ask for, ready to run.
type job struct {
	config  engine.Config
	task    *data.Task
	model   string // NAME[:ARGS]
	example models.DataSpec
	start   uint64 // public seed of the starting weights
	matched string // what --init found

	whole perexample.Build // the network with the layers that --freeze leaves out

	directions []float32 // that the network sees examples by; zeros where they are yet to be released
	out        string
	set        *settings
	records    int // private ones, those held out among them

	validationShare float64 // of ε, that a validation may cost alone
}

// checkpointEvery is how much work a crash may cost: what was done after the last
// checkpoint is spent and lost.
const checkpointEvery = 5 * time.Second

// job reads the data and works out the rest.
func (s *settings) job(term *terminal.Terminal) (*job, error) {
	j := &job{set: s, out: s.out, start: 1, validationShare: validationShare}
	if s.given["seed"] {
		j.start = s.seed
	}
	var err error
	options := data.Options{Dir: s.dataDir, Test: s.test, Standardize: s.standardize}
	if options.Schema, err = s.readSchema(data.Schema{}); err != nil {
		return nil, err
	}
	if sameFile(s.data, s.test) {
		return nil, exitcode.Usagef("--test %s is the training data itself: what is measured on it is shown as public, and would tell of its records", s.test)
	}
	if j.task, err = readData(term, s.data, options); err != nil {
		return nil, err
	}
	if err := j.project(); err != nil {
		return nil, err
	}
	if err := j.augment(); err != nil {
		return nil, err
	}
	if err := j.network(); err != nil {
		return nil, err
	}
	c := &j.config
	c.Train = j.task.Train
	if c.Fingerprint, err = j.reading(); err != nil {
		return nil, err
	}
	if c.Records, err = s.records(); err != nil {
		return nil, err
	}
	if err := j.holdOut(); err != nil {
		return nil, err
	}
	return terminal.Await(term, "Working out the noise", func() (*job, error) { return j, j.settle() })
}

// read opens a data set.
func readData(term *terminal.Terminal, name string, options data.Options) (*data.Task, error) {
	return terminal.Await(term, "Reading "+name, func() (*data.Task, error) { return data.Open(name, options) })
}

// sameFile reports whether two paths name one file.
func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// settle works out what the settings say of training on the data.
func (j *job) settle() error {
	s, c := j.set, &j.config
	if err := s.lots(c); err != nil {
		return err
	}
	var err error
	if c.Optimization.Optimizer, err = optim.Parse(s.optimizer); err != nil {
		return fmt.Errorf("--optimizer: %w", err)
	}
	if !(s.lr > 0) || math.IsInf(s.lr, 0) {
		return exitcode.Usagef("--lr %v: a learning rate above 0 is needed", s.lr)
	}
	if c.Optimization.Schedule, err = optim.ParseSchedule(s.schedule, s.lr); err != nil {
		return fmt.Errorf("--schedule: %w", err)
	}
	if c.Optimization.WeightDecayMultiplier != nil && c.Optimization.Optimizer.WeightDecay == 0 {
		return exitcode.Usagef("--decay-of %s: --optimizer %s decays nothing: give it a weight-decay, as in adamw:weight-decay=0.1, or leave --decay-of out", s.decayOf, s.optimizer)
	}
	c.Optimization.Average = optim.Average{Decay: s.ema}
	c.Files.CheckpointFolder, c.Files.CheckpointInterval = filepath.Join(j.out, "checkpoint"), checkpointEvery
	// What is beyond the records would be padding, and take memory for nothing.
	c.Microbatch = min(s.microbatch, max(1, engine.RecordCount(c.Train, c.Records)))
	c.Device.Name, c.Device.Precision, c.Device.Threads = s.device, s.precision, s.threads
	if s.given["seed"] {
		c.Seed = &s.seed
	}
	if s.nonPrivate {
		c.Mechanism.NonPrivate = true
		return nil
	}
	return j.mechanism()
}

// with is the job with other settings, on the same data and network.
func (j *job) with(s *settings) (*job, error) {
	other := *j
	other.set = s
	return &other, other.settle()
}

// network reads the model; the data say which one serves where none is named.
func (j *job) network() error {
	columns := j.task.Train.Columns()
	j.example = models.DataSpec{Classes: j.task.Classes}
	for _, c := range columns {
		switch c.Kind {
		case data.Feature:
			j.example.Shape = c.Shape
		case data.Index:
			j.example.Shape, j.example.Vocabulary, j.example.Padded = c.Shape, c.Classes, true
		case data.Label:
			j.example.Labels = c.Shape
		case data.Target:
			j.example.Targets = c.Size()
		}
	}
	j.model = j.set.model
	err := j.startDirections()
	if j.set.resume != "" && errors.Is(err, fs.ErrNotExist) {
		return exitcode.Usagef("--init: %w: the run began from that file: put it back, or say by --init where it is now", err)
	}
	if err != nil {
		return fmt.Errorf("--init: %w", err)
	}
	if j.model == "" {
		j.model = defaultModel(j.example, j.directions != nil)
	}
	if j.config.Network, err = j.build(j.directions); err != nil {
		return err
	}
	return j.pace()
}

func defaultModel(e models.DataSpec, projected bool) string {
	switch {
	case projected:
		return denseModel
	case len(e.Labels) > 0:
		return "lstm"
	case e.Vocabulary > 0:
		return "embbag"
	case len(e.Shape) == 3 && e.Shape[1] == 28 && e.Shape[2] == 28:
		return "digits-cnn"
	}
	return denseModel
}

const denseModel = "mlp:64,act=tanh"

func (s *settings) records() (engine.Records, error) {
	kind, rest, _ := strings.Cut(s.record, ":")
	switch kind {
	case "example":
		if rest == "" {
			return engine.Records{}, nil
		}
	case "microbatch":
		if k, err := strconv.Atoi(rest); err == nil && k > 0 {
			return engine.Records{Examples: k}, nil
		}
	case "user":
		if s.userExamples < 1 {
			return engine.Records{}, exitcode.Usagef("--user-examples %d: give at least 1", s.userExamples)
		}
		if rest != "" {
			return engine.Records{Users: true, Examples: s.userExamples}, nil
		}
	}
	return engine.Records{}, exitcode.Usagef("--record %q: give example, microbatch:K with K from 1 on, or user:COLUMN", s.record)
}

// lots fixes rate and steps.
func (s *settings) lots(c *engine.Config) error {
	n := engine.RecordCount(c.Train, c.Records)
	c.Sampling.Policy = sample.Policy(s.sampling)
	c.Sampling.Lot, c.Sampling.Rate = s.lot, s.rate
	if s.given["lot"] && (s.lot < 1 || s.lot > n) {
		return exitcode.Usagef("--lot %d: give between 1 and the %d records of the data", s.lot, n)
	}
	if s.given["rate"] && s.sampling != "poisson" {
		return exitcode.Usagef("--rate: lots of --sampling %s have a size: give --lot", s.sampling)
	}
	if s.given["rate"] && !(s.rate > 0 && s.rate <= 1) {
		return exitcode.Usagef("--rate %v: a probability above 0 and at most 1 is needed", s.rate)
	}
	if !s.given["lot"] && !s.given["rate"] {
		c.Sampling.Lot = max(1, min(1024, n/40))
	}
	expected := float64(c.Sampling.Lot)
	if c.Sampling.Rate > 0 {
		expected = c.Sampling.Rate * float64(n)
	}
	if s.given["steps"] {
		c.Steps = s.steps
		if s.steps < 1 {
			return exitcode.Usagef("--steps %d: give at least 1", s.steps)
		}
		return nil
	}
	if !(s.epochs > 0) || math.IsInf(s.epochs, 0) {
		return exitcode.Usagef("--epochs %v: give a number above 0", s.epochs)
	}
	steps := budget.LotCount(s.epochs, ledger.Policy(c.Sampling.Policy), float64(n), expected)
	if steps > 1<<53 {
		return exitcode.Usagef("--epochs %v: that is more than 2^53 lots", s.epochs)
	}
	c.Steps = int(steps)
	return nil
}

// mechanism fixes clipping and noise.
func (j *job) mechanism() error {
	s, c := j.set, &j.config
	c.Files.Ledger = filepath.Join(j.out, "ledger.jsonl")
	c.Budget.Delta, c.Budget.Accountant, c.Budget.StopAtEpsilon = s.delta, s.accountant, s.stopAtEpsilon
	c.Mechanism.Allocation = engine.Allocation(s.allocation)
	if s.given["delta"] {
		if err := budget.CheckDelta(s.delta); err != nil {
			return err
		}
	} else {
		c.Budget.Delta = engine.DefaultDelta(j.records)
	}
	if !(s.clip > 0) || math.IsInf(s.clip, 0) {
		return exitcode.Usagef("--clip %v: a bound above 0 is needed; --non-private trains without one", s.clip)
	}
	if err := j.groups(); err != nil {
		return err
	}
	if s.given["noise"] {
		if !(s.noise > 0) || math.IsInf(s.noise, 0) {
			return exitcode.Usagef("--noise %v: a finite multiplier above 0 is needed; --non-private trains without noise", s.noise)
		}
		c.Mechanism.NoiseMultiplier = s.noise
		if err := j.hide(cmp.Or(s.stopAtEpsilon, s.extended)); err != nil {
			return err
		}
		return j.extend()
	}
	if !(s.epsilon > 0) || math.IsInf(s.epsilon, 0) {
		return exitcode.Usagef("--epsilon %v: a finite budget above 0 is needed; --non-private trains without one", s.epsilon)
	}
	if err := j.hide(s.epsilon); err != nil {
		return err
	}
	var err error
	if c.Mechanism.NoiseMultiplier, err = engine.CalibrateNoise(j.config, j.set.epsilon); err != nil {
		return fmt.Errorf("--epsilon %v: %w", s.epsilon, err)
	}
	j.hold(s.epsilon)
	return nil
}
