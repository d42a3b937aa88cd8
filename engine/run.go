package engine

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/plan"
	"github.com/dptrain/dptrain/noise"
)

// Run is one training run. It serves one goroutine.
//
// The guarantee, under the adjacency and unit that its ledger names: everything
// that Train hands to its observer, everything read from the run after it but for
// [Run.PrivateStats], and every file that it writes is (ε, δ)-differentially private
// for the ε that an accountant computes from the ledger, provided that the noise
// source was drawn from the operating system (computational differential privacy,
// see package noise) and up to the rounding of floating-point sums (see package
// clip). How long a lot takes is not covered: it tells something of how many
// records were drawn. McMahan et al. 2019; Abadi et al. 2016.
//
// Nor is a number of lots that was chosen by what they released. Whoever ends a run because
// of that, by the observer's error or by ctx, or gives it more Steps, has spent what the most
// lots that there might have been would cost ([Run.PlannedEpsilon], for the Steps that it has). The
// ledger's ε is that of a number of lots that was fixed beforehand; after such a choice the δ
// beside it may be several times too low. An [accountant.Filter] allows such choices.
type Run struct {
	config    Config
	deck      *deck
	viewer    *viewer
	source    *noise.Source
	sampler   sample.Sampler
	machine   plan.Executable
	pipeline  plan.Pipeline // nil where the host computes factors
	program   *plan.Program
	note      string // what the user should know of the device
	mechanism mechanism
	ledger    *ledger.Writer // nil where the run is not private
	meter     *meter         // nil where the run is not private
	tallies   []*tally
	keeper    *keeper // nil where no checkpoint is kept

	batch     microbatch
	factors   [][]float32    // [group][record]
	squared   [][]float32    // [vector][record]
	counts    plan.LotCounts // what the pipeline counts of a lot
	release   plan.Release
	private   PrivateStats
	validated bool  // the validation's answer was released
	step      int   // lots done
	began     int   // lots done before this process
	fault     error // a lot that failed half-way ends the run: nothing may be drawn again
	closed    bool
}

// New checks a configuration, compiles the network and opens the ledger. It reads a
// data set that package data did not make once, to check it. Nothing private has been
// released when it returns, and where it fails no file is left behind.
//
// A panic in the user's code that reads data or clips goes through New and Train with the
// user's own stack, and what it says is the user's. Whoever recovers from it may Close the
// run: its ledger and checkpoints are whole.
func New(c Config) (*Run, error) {
	r, err := build(c)
	if err != nil {
		return nil, err
	}
	if err := r.open(); err != nil {
		r.machine.Close()
		return nil, err
	}
	return r, nil
}

// build makes all of a run but its files.
func build(c Config) (*Run, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	r := &Run{config: c, viewer: newViewer(c.Augmentation)}
	var err error
	if r.deck, err = newDeck(c.Train, c.Records); err != nil {
		return nil, err
	}
	if c.Seed != nil {
		r.source = noise.NewSeeded(*c.Seed)
	} else if r.source, err = noise.New(); err != nil {
		return nil, err
	}
	if err := r.sampling(); err != nil {
		return nil, err
	}
	if err := r.compile(); err != nil {
		return nil, err
	}
	protected := false
	defer func() { // after a panic of the user's code, too
		if !protected {
			r.machine.Close()
		}
	}()
	if err := r.protect(); err != nil {
		return nil, err
	}
	if !c.projecting() {
		if err := r.follow(); err != nil {
			return nil, err
		}
	}
	protected = true
	return r, nil
}

// sampling makes the sampler; Rate and Lot say the same thing in two ways.
func (r *Run) sampling() (err error) {
	c, n := &r.config, r.deck.count
	switch {
	case c.Sampling.Rate < 0 || c.Sampling.Rate > 1 || math.IsNaN(c.Sampling.Rate):
		return fmt.Errorf("rate %v: a probability between 0 and 1 is needed", c.Sampling.Rate)
	case c.Sampling.Lot < 0 || c.Sampling.Lot > n:
		return fmt.Errorf("a lot of %d records from %d: give between 1 and %d", c.Sampling.Lot, n, n)
	case c.Sampling.Lot == 0 && c.Sampling.Rate == 0:
		return fmt.Errorf("neither a lot nor a rate was given: say how many records make a lot")
	case c.Sampling.Lot != 0 && c.Sampling.Rate != 0:
		return fmt.Errorf("both a lot (%d) and a rate (%v) were given: one follows from the other", c.Sampling.Lot, c.Sampling.Rate)
	}
	lot, rate := c.draws(n)
	switch c.Sampling.Policy {
	case sample.PolicyPoisson:
		r.sampler, err = sample.NewPoisson(rate, n, r.source)
	case sample.PolicyFixed:
		r.sampler, err = sample.NewFixed(lot, n, r.source)
	case sample.PolicyShuffle:
		r.sampler, err = sample.NewShuffle(lot, n, r.source)
	default:
		err = fmt.Errorf("sampling %q is unknown: use %s, %s or %s", c.Sampling.Policy, sample.PolicyPoisson, sample.PolicyFixed, sample.PolicyShuffle)
	}
	if c.Budget.Delta == 0 {
		c.Budget.Delta = DefaultDelta(n)
	}
	return err
}

// draws is how many of n records make a lot, and each one's probability: Lot and Rate, of which
// one was given.
func (c *Config) draws(n int) (lot int, rate float64) {
	if c.Sampling.Lot == 0 {
		return max(1, int(math.Round(c.Sampling.Rate*float64(n)))), c.Sampling.Rate
	}
	return c.Sampling.Lot, float64(c.Sampling.Lot) / float64(n)
}

// open begins the run's files: the ledger, then the first checkpoint, so that a
// ledger without a checkpoint says that nothing was spent.
func (r *Run) open() (err error) {
	c := &r.config
	if c.Files.CheckpointFolder != "" {
		if r.keeper, err = r.newKeeper(); err != nil {
			return err
		}
	}
	if !c.Mechanism.NonPrivate {
		if r.meter, err = r.newMeter(c.withRest(ledger.History{Header: r.header()})); err != nil {
			return err
		}
		if r.ledger, err = ledger.Create(c.Files.Ledger, r.header()); err != nil {
			return err
		}
	}
	if r.keeper == nil {
		return nil
	}
	if err := r.save(); err != nil {
		r.withdraw()
		return err
	}
	return nil
}

func (r *Run) header() ledger.Header {
	return ledger.Header{Unit: r.config.Records.Unit(), Records: r.deck.count,
		Adjacency: Adjacency(r.config.Sampling.Policy), Secure: r.source.Secure()}
}

// Event is how lots are drawn, as it is accounted.
func (r *Run) Event() sample.Event { return r.sampler.Event() }

// Progress is what is public after a lot.
type Progress struct {
	Lot          int     // lots done, this one with them: from 1
	Lots         int     // lots that the run is to have
	Epsilon      float64 // what a budget is held to; of the lots so far and, where it takes long to compute, of some lots to come
	LearningRate float64 // the learning rate of the lot, before Config's RateOf
	Released     []ReleasedStatistic
}

// Train releases the directions of a projection, if there is one, and runs lots until
// the last step, the budget's end or the end of ctx, which is heeded between lots, and
// while the directions are looked for. The observer, if any, is called after each lot; the
// values that it is given are overwritten by the next. However Train ends, what
// the lots made is in the checkpoint, if there is one, unless a lot failed: then
// the checkpoint is older, the run cannot go on, and what the ledger says was
// spent stays spent. Called again after the observer's error or the end of ctx, it
// goes on.
func (r *Run) Train(ctx context.Context, observe func(*Progress) error) error {
	if r.closed {
		return errors.New("the run is closed: train before Close, or resume it from a checkpoint")
	}
	err := r.train(ctx, observe)
	if r.keeper != nil && r.fault == nil {
		if saved := r.save(); err == nil {
			err = saved
		}
	}
	return err
}

func (r *Run) train(ctx context.Context, observe func(*Progress) error) error {
	p := Progress{Lots: r.config.Steps, Released: make([]ReleasedStatistic, len(r.tallies))}
	for i, t := range r.tallies {
		p.Released[i] = ReleasedStatistic{Name: t.Name, Mean: t.mean}
	}
	for r.step < r.config.Steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.config.projecting() {
			if err := r.project(ctx); err != nil {
				return err
			}
			continue
		}
		if r.meter != nil && r.meter.allowed == 0 {
			return nil
		}
		if err := r.oneLot(); err != nil {
			return err
		}
		if r.keeper != nil {
			if err := r.keep(); err != nil {
				return err
			}
		}
		if observe == nil {
			continue
		}
		p.Lot, p.LearningRate = r.step, r.release.Rate
		if r.meter != nil {
			p.Epsilon = r.meter.shown(r.config.Steps - r.step)
		}
		if err := observe(&p); err != nil {
			return err
		}
	}
	return nil
}

// errBroken is what a lot leaves behind that ended in a panic of the user's code,
// such as a data set's; so does a projection.
var errBroken = errors.New("a lot was broken off by a panic: nothing more can be released; resume from a checkpoint, or begin another run")

// oneLot runs one lot. After an error, or a panic that the caller recovered from,
// nothing more may be run: records would be counted twice, or the same noise drawn
// again.
func (r *Run) oneLot() error {
	if r.fault != nil {
		return r.fault
	}
	r.fault = errBroken
	err := r.sum()
	if err == nil {
		err = r.spend()
	}
	if err == nil {
		err = r.publish()
	}
	if err != nil {
		r.fault = fmt.Errorf("lot %d: %w", r.step, err)
		return r.fault
	}
	r.fault = nil
	r.step++
	if r.mechanism.clipper == nil || r.step == r.config.Steps {
		return nil
	}
	if !r.changing() {
		return r.mechanism.clipper.BeginLot(r.step)
	}
	return r.prepare(r.step)
}

// sum draws a lot and adds up its records.
func (r *Run) sum() error {
	r.private = PrivateStats{}
	if err := r.sampler.StartLot(uint64(r.step - r.began)); err != nil {
		return err
	}
	for {
		n, err := r.sampler.Next(r.batch.records)
		if err != nil {
			return err
		}
		if n > 0 {
			if err := r.microbatch(n); err != nil {
				return err
			}
		}
		if n < len(r.batch.records) {
			break
		}
	}
	if r.pipeline != nil {
		return r.collect()
	}
	return nil
}

// spend has the lot on disk in the ledger when it returns nil.
func (r *Run) spend() error {
	if r.ledger == nil {
		return nil
	}
	r.reserve()
	if err := r.ledger.Spend(r.mechanism.lot); err != nil {
		return err
	}
	r.meter.spend()
	return nil
}

// publish adds the noise: to the sums, which become a step, to the statistics and
// to the counts of adaptive bounds.
func (r *Run) publish() error {
	e := r.Event()
	r.release.Lot, r.release.Step = uint64(r.step), r.step+1
	r.release.Rate = r.config.learning(r.step, e)
	r.keeper.still()
	if err := r.machine.Release(&r.release); err != nil {
		return err
	}
	for i, t := range r.tallies {
		if err := t.release(r.source, r.statisticStream(i), e.ExpectedLot()); err != nil {
			return err
		}
	}
	if r.mechanism.clipper == nil {
		return nil
	}
	r.private.NonFinite = r.mechanism.clipper.ExcludedRecords()
	return r.adapt()
}

// Close ends the run: what the ledger reserved and did not use is given back. What was
// trained is read as before.
func (r *Run) Close() error {
	if r.closed {
		return nil
	}
	_, err := r.BorrowParameters()
	r.closed = true
	if e := r.machine.Close(); err == nil {
		err = e
	}
	if r.keeper != nil {
		if e := r.keeper.wait(); err == nil {
			err = e
		}
	}
	if r.ledger != nil {
		if e := r.ledger.Close(); err == nil {
			err = e
		}
	}
	return err
}
