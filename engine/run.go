package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/internal/account"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/engine/internal/lot"
	"github.com/dptrain/dptrain/engine/internal/network"
	"github.com/dptrain/dptrain/engine/internal/release"
	"github.com/dptrain/dptrain/engine/internal/state"
	"github.com/dptrain/dptrain/engine/internal/team"
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
	given       Config // config before its check
	index       *load.Index
	source      *noise.Source
	sampler     sample.Sampler
	network     *network.Network
	lot         *lot.Lot
	account     *account.Account // nil where the run is not private
	checkpoints *state.Writer    // nil where no checkpoints are kept
	team        *team.Team       // nil in one process
	constants   string           // digest of the network's, at the start

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
	if err := r.team.Agree(r.createFiles()); err != nil {
		r.network.Executable.Close()
		return nil, err
	}
	return r, nil
}

// build makes a run without its files, in one process.
func build(c Config) (*Run, error) {
	r, err := newUncompiled(c)
	if err == nil {
		err = r.compile()
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// newUncompiled checks a configuration, and makes a run that has its records.
func newUncompiled(c Config) (*Run, error) {
	given := c
	source, err := c.newSource()
	if err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	r := &Run{config: c, given: given, source: source}
	r.index, err = c.Records.index(c.Train)
	return r, err
}

// compile makes the sampler, the network and the mechanism of a run.
func (r *Run) compile() (err error) {
	c := &r.config
	public := c.publicRecords(r.index.Records)
	if r.sampler, err = c.Sampling.newSampler(public, r.index.Records, r.source); err != nil {
		return err
	}
	c.Budget.setDelta(public)
	if !c.Mechanism.NonPrivate {
		if err := c.Budget.CheckDelta(r.Event().Records); err != nil {
			return err
		}
	}
	augmenter := load.NewAugmenter(c.Augmentation.Views, c.Augmentation.Transform, c.Train)
	if r.network, err = c.compile(r.index, r.index.PerRecord*augmenter.ViewsPerExample(), r.Event()); err != nil {
		return err
	}
	built := false
	defer func() { // also after a panic of the user's code
		if !built {
			r.network.Executable.Close()
		}
	}()
	if r.lot, err = r.newLot(augmenter); err != nil {
		return err
	}
	if err := r.setFilterOrder(); err != nil {
		return err
	}
	built = true
	return nil
}

// newLot returns what computes the lots of a compiled network.
func (r *Run) newLot(augmenter *load.Augmenter) (*lot.Lot, error) {
	c, e, program := &r.config, r.Event(), r.network.Program
	weightCap, denominator, least := 0.0, e.ExpectedLot(), int64(0)
	if c.isWeighted() {
		weightCap = c.Weights.Cap
		denominator, least = c.Weights.denominator(denominator)
	}
	groups, err := c.Optimization.paramGroups(program.Parameters)
	if err != nil {
		return nil, err
	}
	settings := c.mechanism(e, least)
	if err := settings.Releases.Check(settings.Arithmetic, e.Records); err != nil {
		return nil, err
	}
	p := lot.Parts{Ranks: c.Ranks, Source: r.source, Index: r.index, Network: r.network, Average: c.Optimization.Average.ForDevice(),
		Loader: load.NewLoader(c.Train, r.index, augmenter, r.source, r.network.Buffers(), weightCap),
		Sums:   release.NewSums(settings.Releases, r.source, len(program.Parameters))}
	p.Least = c.Sampling.leastMicrobatches(e, len(p.Loader.Records))
	if p.Statistics, err = c.newStatistics(p.Sums, p.Loader, program.Batch); err != nil {
		return nil, err
	}
	protected := release.Protected{Parameters: program.Parameters, Executable: r.network.Executable, Microbatch: program.Records}
	if c.LocalTraining.Steps > 0 {
		protected.Executable = nil
	}
	if p.Mechanism, err = release.NewMechanism(settings, protected); err != nil {
		return nil, err
	}
	step := &p.Mechanism.Step
	step.Source, step.ParamGroups, step.Scale, step.Optimizer = r.source, groups, 1/denominator, c.Optimization.ofDevice()
	if c.Optimization.onHost() {
		p.Optimizer = lot.NewOptimizer(c.Optimization.Optimizer, c.Optimization.Average, r.network, groups)
	} else {
		step.Average = c.Optimization.Average.ForDevice()
	}
	return lot.New(p, c.lotOptions())
}

// lotOptions returns how the lots of a run of c are computed.
func (c *Config) lotOptions() lot.Options {
	return lot.Options{Train: c.Train, Augmented: c.Augmentation.Views > 0, Local: c.LocalTraining,
		OnHost: len(c.Statistics) > 0 || c.isWeighted() || c.awaitsProjection()} // another network is compiled after a projection
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
		planned := ledger.History{Header: r.ledgerHeader(), Lots: r.lot.Sums.AppendOnce(nil)}
		meter, err := account.NewMeter(c.plan(r.lot.Mechanism, planned, 0))
		if err != nil {
			return err
		}
		w, err := c.Files.createLedger(r.ledgerHeader())
		if err != nil {
			return err
		}
		r.account = &account.Account{Ledger: w, Meter: meter, MaxLostLots: c.maxLostLots()}
		err = r.account.NameProject(c.Budget.Project)
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
	o, running := &r.config.Optimization, r.network.Running.All()
	start := state.Checkpoint{Run: settings, Average: o.Average.Decay > 0, Slots: o.Optimizer.Slots(),
		Memory:     r.lot.Optimizer.State(r.network.Executable),
		Projection: len(r.config.Projection.released), Directions: r.Directions(), Running: len(running), RunningStatistics: running}
	for _, p := range r.network.Program.Parameters {
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
	executable, clipper, spent := r.network.Executable, r.lot.Mechanism.Clipper, r.account
	return state.NewWriter(f.CheckpointFolder, f.CheckpointInterval, r.config.maxLostLots(), start, func(c *state.Checkpoint) error {
		if spent != nil {
			c.Head, c.Bounds = spent.Ledger.Head(), clipper.State(c.Bounds[:0])
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
	if r.team != nil && r.fault == nil {
		r.checkpoints.WaitUntilRead()
		err = cmp.Or(err, r.lot.GatherState())
	}
	if r.checkpoints != nil && r.fault == nil {
		if saveErr := r.checkpoints.Save(r.step); err == nil {
			err = saveErr
		}
	}
	return err
}

func (r *Run) runLots(ctx context.Context, observe func(*Progress) error) error {
	p := Progress{Lots: r.config.Steps, Released: r.releasedStatistics()}
	var err error
	for {
		if err = r.checkContinue(ctx, err); err != nil || r.step >= r.config.Steps {
			break
		}
		if r.config.awaitsProjection() {
			err = r.releaseProjection(ctx)
			continue
		}
		if r.account != nil && r.account.Meter.Allowed == 0 {
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
	if r.team != nil {
		ctx = context.WithoutCancel(ctx) // ranks end between lots, together
	}
	err := r.lot.Method.Prepare(ctx)
	if r.step == r.firstStep {
		err = r.team.Agree(err)
	}
	if err != nil {
		return err
	}
	if err := r.chooseNoise(p); err != nil {
		return err
	}
	if err := r.runLot(); err != nil {
		return err
	}
	for i := range p.Released {
		if r.lot.Sums.List[r.config.entryOf(i)].IsDue(r.step - 1) {
			p.Released[i].Lot = r.step
			p.Released[i].Deviation = r.deviationOf(r.config.entryOf(i))
		}
	}
	if observe != nil {
		r.describeLot(p)
		if err := observe(p); err != nil {
			return err
		}
	}
	if r.checkpoints != nil && r.team == nil { // ranks save together, in checkContinue
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
	if r.team == nil {
		return err
	}
	return r.agreeToContinue(err)
}

// describeLot describes the last lot.
func (r *Run) describeLot(p *Progress) {
	p.Lot, p.LearningRate = r.step, r.learningRate
	if r.account != nil {
		p.Epsilon = r.account.Meter.Current(r.config.Steps - r.step)
	}
	if a := r.config.Mechanism.adaptive; a != nil {
		p.BudgetUsed = a.UsedFraction()
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
	r.team.StartLot()
	err := r.sumLot()
	if r.account != nil && (err == nil || r.team != nil) {
		err = r.spendLot(err)
	}
	if err == nil {
		err = r.releaseLot()
	}
	r.team.EndLot()
	if err != nil {
		r.fault = fmt.Errorf("lot %d: %w", r.step, err)
		return r.fault
	}
	r.fault = nil
	r.step++
	return r.lot.Mechanism.Advance(r.step)
}

// sumLot draws a lot and adds up the clipped contributions of its records.
func (r *Run) sumLot() error {
	if r.config.LocalTraining.Steps > 0 { // local steps change the state that a checkpoint reads
		r.checkpoints.WaitUntilRead()
	}
	return r.lot.Sum(r.sampler, r.step-r.firstStep, r.step)
}

// spendLot returns when the ledger on disk has the lot. err is the error of its sums. A lot that several ranks
// began and did not complete counts as spent: whether they complete it may depend on its records.
func (r *Run) spendLot(err error) error {
	spent := r.account.SpendLot(r.lot.Mechanism.Entry, r.config.Steps-r.step, r.lot.Mechanism.EqualLots(r.step))
	return r.team.AgreeOnSpent(err, spent)
}

// releaseLot adds noise to the sums, which become a step, and to what the lot releases beside them. The
// ledger on disk contains the lot.
func (r *Run) releaseLot() error {
	r.learningRate = r.config.Optimization.learningRate(r.step, r.config.Steps, r.Event())
	r.checkpoints.WaitUntilRead()
	return r.lot.Release(r.step, r.learningRate)
}

// SetReleasedWeights gives the SHA-256 of the file of weights that the caller releases. The
// ledger's end line states it. Without a ledger it has no effect.
func (r *Run) SetReleasedWeights(sum [sha256.Size]byte) {
	if r.account != nil {
		r.account.Ledger.SetWeights(sum)
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
	if e := r.network.Executable.Close(); err == nil {
		err = e
	}
	if r.checkpoints != nil {
		if e := r.checkpoints.Wait(); err == nil {
			err = e
		}
	}
	if r.account != nil {
		validated := r.config.Validation.Set == nil || r.validated
		if r.fault == nil && r.account.IsPlanDone(r.config.Steps-r.step, validated) {
			r.account.Ledger.SetComplete()
		}
		if e := r.account.Ledger.Close(); err == nil {
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
		if err := r.network.Executable.SyncState(); err != nil {
			return nil, err
		}
	}
	state := r.lot.Optimizer.State(r.network.Executable)
	values, averaged := state.Weights, r.step > 0 && state.Average != nil
	switch {
	case r.step == 0:
	case averaged:
		values = state.Average
	case r.lot.Optimizer != nil:
		values = r.lot.Optimizer.Results()
	}
	out := make([]Parameter, len(values))
	for v, p := range r.network.Program.Parameters {
		out[v] = Parameter{Name: p.Name, Shape: p.Shape, Values: values[v]}
	}
	return r.insertRunning(out, averaged), nil
}

// insertRunning returns the network's parameters: the trained ones and the running statistics, or their
// averages.
func (r *Run) insertRunning(trained []Parameter, averaged bool) []Parameter {
	order := r.network.Running.Order()
	if order == nil {
		return trained
	}
	var all []Parameter
	for _, part := range order {
		if part < 0 {
			all, trained = append(all, trained[0]), trained[1:]
		} else {
			all = append(all, Parameter(r.network.Running.Parts(averaged)[part]))
		}
	}
	return all
}
