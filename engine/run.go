package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/engine/internal/release"
	"github.com/dptrain/dptrain/engine/internal/state"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/noise"
	"github.com/dptrain/dptrain/perexample"
)

// Run is one training run. It serves one goroutine.
//
// The guarantee, under the adjacency and the unit that its ledger names: everything that Train
// passes to its observer, everything that is read from the run afterwards except
// [Run.PrivateStats], and every file that it writes is (ε, δ)-differentially private, for the ε
// that an accountant computes from the ledger. It requires that the noise source was keyed by
// the operating system (computational differential privacy, see package noise). With
// ExactArithmetic it holds for the released bits; with FloatArithmetic up to the rounding of
// floating-point sums (see package clip). It does not cover the duration of
// a lot, which depends on the number of records drawn, although less so with
// Sampling.ConstantWork. McMahan et al. 2019; Abadi et al. 2016.
//
// It does not cover a number of lots that depends on released values. To end a run because of
// them, by the observer's error or by ctx, or to give it more Steps, spends the cost of the
// largest possible number of lots ([Run.PlannedEpsilon], for the Steps of the run). The
// ledger's ε is that of a number of lots that was fixed beforehand; after such a choice the δ
// stated with it may be several times too low. With Mechanism.Choose, which may choose the noise
// of each lot, a filter enforces an ε that holds for all choices and ends.
type Run struct {
	config      Config
	index       *load.Index
	source      *noise.Source
	streams     release.Streams
	sampler     sample.Sampler
	compiled    *compiledNetwork
	loader      *load.Loader
	mechanism   *mechanism
	statistics  *lotStatistics
	lots        lotMethod       // how its lots are computed
	rankSums    [][]int64       // [parameter]: sums of all ranks; nil in one process, and where the host adds vectors
	optimizer   *hostOptimizer  // nil where the device computes the optimizer
	account     *privacyAccount // nil where the run is not private
	checkpoints *state.Writer   // nil where no checkpoints are kept

	learningRate float64 // of the last lot

	step      int // lots done
	firstStep int // lots done before this process
	// fault is the error of a failed lot. It ends the run: the next lot would draw the same
	// noise again.
	fault     error
	validated bool // the validation result was released
	closed    bool
}

// New checks a configuration, compiles the network and creates the ledger. To check it, New
// reads once a data set that package data did not create. When it returns, nothing private has been
// released; where it fails, it leaves no file behind.
//
// A panic in the user's code that reads data or clips passes through New and Train with the
// user's own stack and value. A caller that recovers from it may Close the run: its ledger and
// checkpoints are complete.
func New(c Config) (*Run, error) {
	if c.followsRankZero() {
		c.Files = Files{LedgerWriter: io.Discard}
	}
	r, err := buildOnRanks(c)
	if err != nil {
		return nil, err
	}
	if err := r.config.agree(r.createFiles()); err != nil {
		r.compiled.executable.Close()
		return nil, err
	}
	return r, nil
}

// build makes a run without its files.
func build(c Config) (*Run, error) {
	source, err := c.newSource()
	if err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	r := &Run{config: c, source: source}
	if r.index, err = c.Records.index(c.Train); err != nil {
		return nil, err
	}
	if r.sampler, err = newSampler(&r.config, r.index.Records, r.source); err != nil {
		return nil, err
	}
	if !c.Mechanism.NonPrivate {
		if err := r.config.Budget.CheckDelta(r.Event().Records); err != nil {
			return nil, err
		}
	}
	augmenter := load.NewAugmenter(c.Augmentation.Views, c.Augmentation.Transform, len(c.Train.Columns()))
	if r.compiled, err = compileNetwork(&r.config, r.index, r.index.PerRecord*augmenter.ViewsPerExample(), r.Event()); err != nil {
		return nil, err
	}
	built := false
	defer func() { // also after a panic of the user's code
		if !built {
			r.compiled.executable.Close()
		}
	}()
	r.streams = release.NewStreams(r.source, len(r.compiled.program.Parameters), len(r.config.Mechanism.Clipping), len(c.Statistics))
	weightCap := 0.0
	if c.isWeighted() {
		weightCap = r.config.Weights.Cap
	}
	r.loader = load.NewLoader(c.Train, r.index, augmenter, r.source, r.compiled.buffers(), weightCap)
	groups, err := c.Optimization.paramGroups(r.compiled.program.Parameters)
	if err != nil {
		return nil, err
	}
	if err := r.config.checkQueries(r.index.Records); err != nil {
		return nil, err
	}
	if r.statistics, err = newLotStatistics(&r.config, r.index.Records, len(r.loader.Output)/r.compiled.program.Batch,
		r.loader.ObservedOfFirst()); err != nil {
		return nil, err
	}
	gradients, denominator, least := r.compiled.executable, r.Event().ExpectedLot(), int64(0)
	if c.LocalTraining.Steps > 0 {
		gradients = nil
	}
	if c.isWeighted() {
		denominator, least = r.config.Weights.denominator(denominator)
	}
	protected := protectedVectors{r.compiled.program.Parameters, gradients, r.compiled.program.Records}
	if r.mechanism, err = newMechanism(&r.config, protected, least, r.Event(), r.statistics.queries()); err != nil {
		return nil, err
	}
	release := &r.mechanism.release
	release.Source, release.ParamGroups, release.Scale = r.source, groups, 1/denominator
	if release.Optimizer = r.config.Optimization.ofDevice(); !r.config.Optimization.onHost() {
		release.Average = c.Optimization.Average.ForDevice()
	}
	if err := r.config.Mechanism.adaptive.setOrder(r); err != nil {
		return nil, err
	}
	r.optimizer = newHostOptimizer(&r.config.Optimization, r.compiled, groups)
	plain := &gradientLots{loader: r.loader, network: r.compiled, mechanism: r.mechanism, statistics: r.statistics}
	var local *localTrainer
	if c.LocalTraining.Steps > 0 {
		local = newLocalTrainer(&r.config, r.index, plain, r.streams)
	}
	if r.lots, err = newLotMethod(&r.config, plain, local); err != nil {
		return nil, err
	}
	if c.Ranks != nil {
		if err := r.prepareRanks(); err != nil {
			return nil, err
		}
	}
	built = true
	return r, nil
}

// newSampler returns the sampler of c for a number of records. It sets the default of
// Budget.Delta. Where the number of records is private, no error and no setting depends on it.
func newSampler(c *Config, records int, source *noise.Source) (s sample.Sampler, err error) {
	public := c.publicRecords(records)
	switch q := &c.Sampling; {
	case q.Rate < 0 || q.Rate > 1 || math.IsNaN(q.Rate):
		return nil, fmt.Errorf("sampling rate %v: give a probability between 0 and 1", q.Rate)
	case q.Lot < 0 || q.Lot > public:
		return nil, fmt.Errorf("a lot of %d records from %d: give between 1 and %d", q.Lot, public, public)
	case q.Lot == 0 && q.Rate == 0:
		return nil, fmt.Errorf("neither a lot nor a sampling rate is set: set one of Sampling.Lot and Sampling.Rate")
	case q.Lot != 0 && q.Rate != 0:
		return nil, fmt.Errorf("both a lot (%d) and a sampling rate (%v) are set: set one of Sampling.Lot and Sampling.Rate", q.Lot, q.Rate)
	}
	lot, rate := c.Sampling.lotAndRate(public)
	switch c.Sampling.Policy {
	case sample.PolicyPoisson:
		s, err = sample.NewPoissonOf(public, rate, records, source)
	case sample.PolicyTruncated:
		s, err = sample.NewTruncated(public, rate, c.Sampling.maxLot(public), records, source)
	case sample.PolicyFixed:
		s, err = sample.NewFixed(lot, records, source)
	case sample.PolicyShuffle:
		s, err = sample.NewShuffle(lot, records, source)
	default:
		err = fmt.Errorf("sampling policy %q is unknown: use %s, %s, %s or %s", c.Sampling.Policy, sample.PolicyPoisson, sample.PolicyTruncated, sample.PolicyFixed, sample.PolicyShuffle)
	}
	if c.Budget.Delta == 0 {
		c.Budget.Delta = accountant.DefaultDelta(public)
	}
	return s, err
}

// createFiles creates the ledger, then the first checkpoint: a ledger without a checkpoint
// shows that nothing was spent.
func (r *Run) createFiles() (err error) {
	c := &r.config
	var start state.Checkpoint
	if c.Files.CheckpointFolder != "" {
		if start, err = r.describeStart(); err != nil {
			return err
		}
		if err := state.RefuseOtherRun(c.Files.CheckpointFolder); err != nil {
			return err
		}
	}
	if !c.Mechanism.NonPrivate {
		meter, err := newEpsilonMeter(c, r.mechanism, c.withLaterReleases(ledger.History{Header: r.ledgerHeader()}), 0)
		if err != nil {
			return err
		}
		w, err := c.Files.createLedger(r.ledgerHeader())
		if err != nil {
			return err
		}
		r.account = &privacyAccount{ledger: w, meter: meter, maxLostLots: c.maxLostLots()}
		err = r.account.nameProject(c.Budget.Project)
	}
	if r.checkpoints = r.newCheckpoints(start); err == nil && r.checkpoints != nil {
		err = r.checkpoints.Save(r.step)
	}
	if err != nil {
		r.removeFiles()
	}
	return err
}

// describeStart describes the run before its first lot, for its checkpoints.
func (r *Run) describeStart() (state.Checkpoint, error) {
	settings, err := r.fingerprint()
	if err != nil {
		return state.Checkpoint{}, err
	}
	o, running := &r.config.Optimization, r.compiled.running.all()
	start := state.Checkpoint{Run: settings, Average: o.Average.Decay > 0, Slots: o.Optimizer.Slots(),
		Memory:     r.optimizer.state(r.compiled.executable),
		Projection: len(r.config.Projection.released), Directions: r.Directions(), Running: len(running), RunningStatistics: running}
	for _, p := range r.compiled.program.Parameters {
		start.Sizes = append(start.Sizes, p.Shape.TotalSize())
	}
	return start, nil
}

// newCheckpoints returns the writer of a run's checkpoints; nil where none are kept. The account of the
// run is open.
func (r *Run) newCheckpoints(start state.Checkpoint) *state.Writer {
	f := &r.config.Files
	if f.CheckpointFolder == "" {
		return nil
	}
	executable, clipper, account := r.compiled.executable, r.mechanism.clipper, r.account
	return state.NewWriter(f.CheckpointFolder, f.CheckpointInterval, r.config.maxLostLots(), start, func(c *state.Checkpoint) error {
		if account != nil {
			c.Head, c.Bounds = account.ledger.Head(), clipper.State(c.Bounds[:0])
		}
		return executable.SyncState()
	})
}

func (r *Run) ledgerHeader() ledger.Header {
	return ledger.Header{Unit: r.config.Records.Unit(), Records: r.Event().Records,
		Adjacency: r.config.Sampling.Adjacency(), Secure: r.source.Secure()}
}

// Event returns the sampling event of a lot, as the accountant uses it.
func (r *Run) Event() sample.Event { return r.sampler.Event() }

// Network returns the network that is trained: Config.Network or, where the run has a
// projection, the one behind it. Before Train the latter sees directions of zeros.
func (r *Run) Network() perexample.Build { return r.config.Network }

// StepsDone returns how many lots were released.
func (r *Run) StepsDone() int { return r.step }

// Progress describes what is public after a lot.
type Progress struct {
	Lot  int // lots done, from 1
	Lots int // lots of the whole run
	// Epsilon is the ε that a budget limits: of the lots so far and, where it takes long to compute, of
	// some later lots. With Mechanism.Choose it is the odometer's, and BudgetUsed is the share of
	// Budget.StopAtEpsilon that the filter has spent, from 0 to 1.
	Epsilon      float64
	BudgetUsed   float64
	LearningRate float64             // of the lot, before Optimization.LearningRateMultiplier
	Released     []ReleasedStatistic // one for each of Config.Statistics
}

// Train releases the directions of a projection, if there is one, and runs lots until the last
// step, the budget's end or the end of ctx. It checks ctx between lots and while it computes
// directions. It calls the observer, if any, after each lot and before a checkpoint contains the
// lot, so that the observer has seen every lot of a checkpoint; the next lot overwrites the values
// that the observer gets. When Train ends, the checkpoint, if there is one, contains the result
// of all lots, unless a lot failed: then the checkpoint is older, the run cannot continue, and
// what the ledger states as spent stays spent. After the observer's error or the end of ctx,
// another call continues. Where the observer returns [ErrStop], Train returns nil.
func (r *Run) Train(ctx context.Context, observe func(*Progress) error) error {
	if r.closed {
		return errors.New("the run is closed: call Train before Close, or resume the run from a checkpoint")
	}
	err := r.runLots(ctx, observe)
	if r.checkpoints != nil && r.fault == nil {
		if saveErr := r.checkpoints.Save(r.step); err == nil {
			err = saveErr
		}
	}
	return err
}

func (r *Run) runLots(ctx context.Context, observe func(*Progress) error) error {
	p := Progress{Lots: r.config.Steps, Released: r.statistics.released(r.Event().ExpectedLot())}
	var err error
	for {
		if err = r.checkContinue(ctx, err); err != nil || r.step >= r.config.Steps {
			break
		}
		if r.config.awaitsProjection() {
			err = r.releaseProjection(ctx)
			continue
		}
		if r.account != nil && r.account.meter.allowed == 0 {
			break
		}
		err = r.observeLot(ctx, &p, observe)
	}
	if errors.Is(err, ErrStop) {
		return nil
	}
	return err
}

// observeLot runs a lot and shows it to the observer.
func (r *Run) observeLot(ctx context.Context, p *Progress, observe func(*Progress) error) error {
	if r.config.Ranks != nil {
		ctx = context.WithoutCancel(ctx) // ranks end between lots, together
	}
	if err := r.lots.prepare(ctx); err != nil {
		return err
	}
	if err := r.config.Mechanism.adaptive.beginLot(r, p); err != nil {
		return err
	}
	if err := r.runLot(); err != nil {
		return err
	}
	for i := range p.Released {
		if r.config.Statistics[i].isDue(r.step - 1) {
			p.Released[i].Lot = r.step
		}
	}
	if observe != nil {
		p.update(r)
		if err := observe(p); err != nil {
			return err
		}
	}
	if r.checkpoints != nil {
		return r.checkpoints.SaveIfDue(r.step)
	}
	return nil
}

// checkContinue returns why the run ends before its next lot: the error of the last one, or the end of
// ctx. On several ranks it is the reason of any.
func (r *Run) checkContinue(ctx context.Context, err error) error {
	if err == nil && r.step < r.config.Steps {
		err = ctx.Err()
	}
	if r.config.Ranks == nil {
		return err
	}
	return r.agreeToContinue(err)
}

// update describes the last lot.
func (p *Progress) update(r *Run) {
	p.Lot, p.LearningRate = r.step, r.learningRate
	if r.account != nil {
		p.Epsilon = r.account.meter.current(r.config.Steps - r.step)
	}
	if a := r.config.Mechanism.adaptive; a != nil {
		p.BudgetUsed = a.filter.UsedFraction()
	}
}

// errPanicked is the fault of a run in which the user's code, such as a data set, panicked
// during a lot or a projection.
var errPanicked = errors.New("a panic interrupted a lot: the run can release nothing more; resume it from a checkpoint, or begin another run")

// runLot runs one lot. After an error, or a panic that the caller recovered from, no other lot
// may run: records would be counted twice, or the same noise drawn again.
func (r *Run) runLot() error {
	if r.fault != nil {
		return r.fault
	}
	r.fault = errPanicked
	err := r.sumLot()
	if r.config.Ranks != nil {
		err = r.combineRanks(err)
	}
	if err == nil && r.account != nil {
		// The other ranks wait until rank 0 has the entry on disk.
		err = r.config.agree(r.account.spendLot(r.mechanism.entry, r.config.Steps-r.step, r.mechanism.equalLots(r.step)))
	}
	if err == nil {
		err = r.releaseLot()
	}
	if err != nil {
		r.fault = fmt.Errorf("lot %d: %w", r.step, err)
		return r.fault
	}
	r.fault = nil
	r.step++
	return r.mechanism.advance(r.step)
}

// sumLot draws a lot and sums the clipped gradients of its records.
func (r *Run) sumLot() error {
	r.statistics.startLot(r.step)
	r.loader.StartLot(r.step)
	r.lots.start(r.checkpoints)
	if err := r.sampler.StartLot(uint64(r.step - r.firstStep)); err != nil {
		return err
	}
	records := r.loader.Records[:r.recordsAtOnce()]
	least := r.config.Sampling.leastMicrobatches(r.Event(), len(records))
	for microbatch := 1; ; microbatch++ {
		n, err := r.sampler.Next(records)
		if err != nil {
			return err
		}
		loaded := r.index.WithoutBlank(records[:n])
		switch {
		case len(loaded) == 0 && microbatch > least:
		case !r.config.computesMicrobatch(microbatch):
			r.loader.Skip(len(loaded))
		default:
			if err := r.lots.add(len(loaded)); err != nil {
				return err
			}
		}
		if n < len(records) && microbatch >= least {
			break
		}
	}
	return r.lots.finish()
}

// releaseLot adds noise to the sums, which become a step, to the statistics and to the counts
// behind adaptive bounds. The ledger on disk contains the lot.
func (r *Run) releaseLot() error {
	e, m := r.Event(), r.mechanism
	m.release.Lot, m.release.Step = uint64(r.step), r.step+1
	r.learningRate = r.config.learningRate(r.step, e)
	if r.optimizer == nil {
		m.release.Rate = r.learningRate
	}
	r.checkpoints.WaitUntilRead()
	if err := r.lots.release(r.step); err != nil {
		return err
	}
	if r.optimizer != nil {
		if err := r.optimizer.update(m, r.learningRate); err != nil {
			return err
		}
	}
	if err := r.statistics.release(r.streams, r.step, e.ExpectedLot()); err != nil {
		return err
	}
	r.statistics.updateRunning(r.compiled.running, r.step, e.ExpectedLot())
	if err := r.compiled.running.updateAverage(r.config.Optimization.Average.ForDevice(), r.step+1); err != nil {
		return err
	}
	if m.clipper == nil {
		return nil
	}
	r.statistics.private.NonFinite = m.clipper.ExcludedRecords()
	if c := m.contributions; c != nil {
		r.statistics.private.Reduced, r.statistics.private.Omitted = c.Reduced, c.Omitted
		c.Reduced, c.Omitted = 0, 0
	}
	return m.releaseCounts(r.streams, r.step, e.ExpectedLot())
}

// SetReleasedWeights gives the SHA-256 of the file of weights that the caller releases. The
// ledger's end line states it. Without a ledger it has no effect.
func (r *Run) SetReleasedWeights(sum [sha256.Size]byte) {
	if r.account != nil {
		r.account.ledger.SetWeights(sum)
	}
}

// Close ends the run and returns what the ledger reserved and did not use. Parameters can be
// read afterwards.
func (r *Run) Close() error {
	if r.closed {
		return nil
	}
	_, err := r.BorrowParameters()
	r.closed = true
	if e := r.compiled.executable.Close(); err == nil {
		err = e
	}
	if r.checkpoints != nil {
		if e := r.checkpoints.Wait(); err == nil {
			err = e
		}
	}
	if r.account != nil {
		validated := r.config.Validation.Set == nil || r.validated
		if r.fault == nil && r.account.isPlanDone(r.config.Steps-r.step, validated) {
			r.account.ledger.SetComplete()
		}
		if e := r.account.ledger.Close(); err == nil {
			err = e
		}
	}
	return err
}

// Parameter is a trained parameter, or a running statistic of layer.BatchNorm.
type Parameter struct {
	Name   string
	Shape  []int
	Values []float32
}

// Values returns the values of parameters, as an [Evaluator] takes them.
func Values(parameters []Parameter) [][]float32 {
	values := make([][]float32, len(parameters))
	for i, p := range parameters {
		values[i] = p.Values
	}
	return values
}

// Parameters returns the trained weights, or their moving average where the run keeps one.
// They are a released value: public once the ledger is.
func (r *Run) Parameters() ([]Parameter, error) {
	out, err := r.BorrowParameters()
	for v := range out {
		out[v].Values = slices.Clone(out[v].Values)
	}
	return out, err
}

// BorrowParameters is Parameters without a copy: the next lot overwrites the values.
func (r *Run) BorrowParameters() ([]Parameter, error) {
	if !r.closed {
		r.checkpoints.WaitUntilRead()
		if err := r.compiled.executable.SyncState(); err != nil {
			return nil, err
		}
	}
	state := r.optimizer.state(r.compiled.executable)
	values, averaged := state.Weights, r.step > 0 && state.Average != nil
	switch {
	case r.step == 0:
	case averaged:
		values = state.Average
	case r.optimizer != nil:
		values = r.optimizer.results()
	}
	out := make([]Parameter, len(values))
	for v, p := range r.compiled.program.Parameters {
		out[v] = Parameter{Name: p.Name, Shape: p.Shape, Values: values[v]}
	}
	return r.compiled.running.insert(out, averaged), nil
}
