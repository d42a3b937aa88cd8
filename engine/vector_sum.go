package engine

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/internal/account"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/engine/internal/lot"
	"github.com/dptrain/dptrain/engine/internal/release"
	"github.com/dptrain/dptrain/engine/internal/state"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/noise"
	"gorgonia.org/tensor"
)

// VectorSum releases sums over lots of records of vectors that the caller computes: the updates of
// federated clients, histograms, gradients of another program. Each record contributes the same
// number of vectors. They are clipped in groups, summed, released with noise and written to a
// ledger, as the gradients of a [Run] are (McMahan et al. 2019, sections 2 and 3: the DPQuery of
// vectors with its ledger).
//
// The guarantee, under the adjacency and the unit that its ledger names: everything that Release
// returns in all lots together is (ε, δ)-differentially private, for the ε that an accountant
// computes from the ledger. It requires that
//
//   - the vectors of a record depend on this record, on earlier releases and on public values only;
//   - the operating system keyed the noise source (VectorSumConfig.Seed is nil);
//   - where the caller draws the lots (VectorSumConfig.CallerDraws), each lot has the distribution
//     that VectorSumConfig.Sampling states, and its members are secret;
//   - the number of lots does not depend on what was released. Where the caller ends because of it,
//     PlannedEpsilon is the cost: what was released is a function of what all lots would release.
//
// With ExactArithmetic, the default, it holds for the released bits: a record adds integers, whose
// norm is checked in integers, for every content of its vectors. With FloatArithmetic it holds up
// to the rounding of floating-point sums. Errors of StartLot and Add, Excluded, and durations are not
// covered.
//
// A VectorSum may be used by several goroutines. With exact arithmetic a release has the same bits
// for every order of the records.
type VectorSum struct {
	mu      sync.Mutex
	config  Config
	records int
	vectors []Vector
	weights RecordWeights
	source  *noise.Source
	sampler sample.Sampler

	lot       *lot.Lot
	account   *account.Account
	step      int
	firstStep int // lots released before this process
	fault     error

	callerDraws bool
	started     bool
	counted     map[int]bool // the lot's records; true if it was added
	added       int
}

// Vector is one of the vectors of each record.
type Vector struct {
	Name string
	Size int
}

// VectorSumConfig describes a VectorSum. All of it is public, except for Records where
// Sampling.Population is set.
type VectorSumConfig struct {
	Vectors []Vector
	Records int    // records from which lots are drawn, numbered from 0
	Unit    string // the unit of privacy, as the ledger names it; default: record

	// Sampling is how lots are drawn: Poisson, Truncated or Fixed.
	Sampling Sampling
	// CallerDraws states that the caller draws the lots, in the way that Sampling describes (for
	// example with package sample). The ledger then states what the caller promises. By default
	// StartLot draws them.
	CallerDraws bool

	// Mechanism has the groups of vectors, by the names of Vectors, their bounds and the noise. The
	// default is one group of all vectors with bound 1. Noise, clipping and arithmetic have the same
	// meaning as in a run, with vectors in place of gradients.
	Mechanism Mechanism
	Weights   RecordWeights
	Lots      int    // the largest number of lots
	Budget    Budget // δ, accountant and limit on ε
	Ledger    string // name of the ledger file
	// LedgerWriter takes the ledger in place of a file: no crash safety, see [ledger.NewWriter].
	// ResumeVectorSum needs a file.
	LedgerWriter io.Writer
	Seed         *uint64
}

// VectorSumState is what ResumeVectorSum needs in addition to the configuration. It is public.
type VectorSumState struct {
	Lots       int       `json:"lots"`        // released
	Bounds     []float64 `json:"bounds"`      // of groups with adaptive bounds; 0 for others
	LedgerHead string    `json:"ledger_head"` // hash of a line that the ledger must contain
}

// NewVectorSum checks a configuration and creates the ledger, which must not exist.
func NewVectorSum(c VectorSumConfig) (*VectorSum, error) {
	s, err := buildVectorSum(c)
	if err != nil {
		return nil, err
	}
	header := s.ledgerHeader(c.Unit)
	meter, err := account.NewMeter(s.config.plan(s.lot.Mechanism, ledger.History{Header: header}, 0))
	if err != nil {
		return nil, err
	}
	w, err := s.config.Files.createLedger(header)
	if err != nil {
		return nil, err
	}
	s.account = &account.Account{Ledger: w, Meter: meter, MaxLostLots: s.config.maxLostLots()}
	return s, nil
}

// ResumeVectorSum continues with the ledger of a process that ended. What the ledger states as
// spent stays spent, also lots that were not released. Noise and lots are drawn with a fresh key.
// c is the configuration that NewVectorSum got; Lots and the budget may differ.
func ResumeVectorSum(c VectorSumConfig, from VectorSumState) (*VectorSum, error) {
	if c.Ledger == "" {
		return nil, errNoLedger
	}
	spent, err := state.ReadHistory(c.Ledger, from.LedgerHead)
	if err != nil {
		return nil, err
	}
	if c.Seed != nil {
		c.Seed = state.Reseed(*c.Seed, state.CountRuns(c.Ledger))
	}
	s, err := buildVectorSum(c)
	if err != nil {
		return nil, err
	}
	want := s.ledgerHeader(c.Unit)
	if h := spent.Header; h.Unit != want.Unit || h.Records != want.Records || h.Adjacency != want.Adjacency {
		return nil, fmt.Errorf("the ledger %s is of %d records of the unit %s under %s adjacency, and the configuration has %d of the unit %s under %s: give the configuration that the ledger began with", c.Ledger, h.Records, h.Unit, h.Adjacency, want.Records, want.Unit, want.Adjacency)
	}
	if from.Lots < 0 || from.Lots > c.Lots {
		return nil, fmt.Errorf("%d lots were released, and VectorSumConfig.Lots is %d: give at least as many", from.Lots, c.Lots)
	}
	s.step, s.firstStep = from.Lots, from.Lots
	if err := s.lot.Mechanism.Clipper.Restore(from.Bounds); err != nil {
		return nil, err
	}
	if err := s.lot.Mechanism.SetLot(min(s.step, c.Lots-1)); err != nil {
		return nil, err
	}
	meter, err := account.NewMeter(s.config.plan(s.lot.Mechanism, spent, s.step))
	if err != nil {
		return nil, err
	}
	w, err := ledger.Open(c.Ledger)
	if err != nil {
		return nil, err
	}
	s.account = &account.Account{Ledger: w, Meter: meter, MaxLostLots: s.config.maxLostLots()}
	if w.History().LotCount() != spent.LotCount() {
		return nil, errors.Join(fmt.Errorf("another process wrote to the ledger %s while this one started; resume again", c.Ledger), w.Close())
	}
	if !s.source.Secure() {
		if err := w.MarkInsecure(); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	return s, nil
}

var errNoLedger = errors.New("a sum of vectors needs a ledger: set VectorSumConfig.Ledger to a file name")

// buildVectorSum makes a VectorSum without its ledger.
func buildVectorSum(c VectorSumConfig) (*VectorSum, error) {
	s := &VectorSum{vectors: slices.Clone(c.Vectors), records: c.Records, weights: c.Weights,
		callerDraws: c.CallerDraws, counted: map[int]bool{}}
	s.config = Config{Sampling: c.Sampling, Steps: c.Lots, Mechanism: c.Mechanism, Budget: c.Budget,
		Files: Files{Ledger: c.Ledger, LedgerWriter: c.LedgerWriter}}
	if err := s.check(); err != nil {
		return nil, err
	}
	var err error
	if c.Seed != nil {
		s.source = noise.NewSeeded(*c.Seed)
	} else if s.source, err = noise.New(); err != nil {
		return nil, err
	}
	public := s.config.publicRecords(c.Records)
	if s.sampler, err = s.config.Sampling.newSampler(public, c.Records, s.source); err != nil {
		return nil, err
	}
	s.config.Budget.setDelta(public)
	e := s.sampler.Event()
	if err := s.config.Budget.CheckDelta(e.Records); err != nil {
		return nil, err
	}
	parameters := make([]plan.Parameter, len(s.vectors))
	for i, v := range s.vectors {
		parameters[i] = plan.Parameter{Name: v.Name, Shape: tensor.Shape{v.Size}}
	}
	records, least := s.weights.denominator(e.ExpectedLot())
	m, err := release.NewMechanism(s.config.mechanism(e, least), release.Protected{Parameters: parameters})
	if err != nil {
		return nil, err
	}
	m.Step.Scale = 1 / records
	s.lot = lot.NewOfVectors(lot.Parts{Mechanism: m, Sums: release.NewSums(m.Releases, s.source, len(parameters)), Source: s.source})
	return s, nil
}

// check sets the defaults and refuses settings that are impossible or break the guarantee.
func (s *VectorSum) check() error {
	c := &s.config
	switch {
	case c.Files.Ledger == "" && c.Files.LedgerWriter == nil:
		return errNoLedger
	case c.Files.Ledger != "" && c.Files.LedgerWriter != nil:
		return errors.New("a sum of vectors has one ledger: set VectorSumConfig.Ledger or VectorSumConfig.LedgerWriter")
	case s.records < 1:
		return fmt.Errorf("%d records: give VectorSumConfig.Records, at least 1", s.records)
	case c.Steps < 1:
		return fmt.Errorf("VectorSumConfig.Lots is %d: give the largest number of lots, at least 1", c.Steps)
	case c.Mechanism.NonPrivate:
		return errors.New("a VectorSum is private: leave Mechanism.NonPrivate unset")
	case c.Mechanism.Distribution == LaplaceNoise:
		return errors.New("a VectorSum adds Gaussian noise only: leave Mechanism.Distribution unset")
	case c.Mechanism.Choose != nil || c.Budget.FilterOrder != 0:
		return errors.New("a VectorSum cannot choose noise from releases: leave Mechanism.Choose and Budget.FilterOrder unset")
	case len(s.vectors) == 0:
		return errors.New("a record has no vectors: set VectorSumConfig.Vectors")
	}
	size, seen := 0, map[string]bool{}
	for i, v := range s.vectors {
		switch size += v.Size; {
		case v.Name == "":
			return fmt.Errorf("vector %d has no name: give it one", i)
		case seen[v.Name]:
			return fmt.Errorf("two vectors have the name %q: give each its own", v.Name)
		case v.Size < 1 || v.Size > maxStatisticSize || size > maxStatisticSize:
			return fmt.Errorf("vector %q has %d elements: give at least 1, and at most %d in all vectors together", v.Name, v.Size, maxStatisticSize)
		}
		seen[v.Name] = true
	}
	c.Sampling.Policy = c.Sampling.policy()
	if c.Sampling.Policy == sample.PolicyShuffle || c.Sampling.ConstantWork {
		return fmt.Errorf("sums of vectors are over %s, %s or %s lots, without constant work: choose one of them", sample.PolicyPoisson, sample.PolicyTruncated, sample.PolicyFixed)
	}
	c.Mechanism.Arithmetic = cmp.Or(c.Mechanism.Arithmetic, ExactArithmetic)
	if a := c.Mechanism.Arithmetic; a != ExactArithmetic && a != FloatArithmetic {
		return fmt.Errorf("arithmetic %q is unknown: use %s or %s", a, ExactArithmetic, FloatArithmetic)
	}
	return cmp.Or(s.weights.check(c.Sampling.Policy), c.Mechanism.checkAllocation(), c.checkPrivacy())
}

func (s *VectorSum) ledgerHeader(unit string) ledger.Header {
	return ledger.Header{Unit: cmp.Or(unit, "record"), Records: s.sampler.Event().Records,
		Adjacency: s.config.Sampling.Adjacency(), Secure: s.source.Secure()}
}

// Event returns the sampling event of a lot, as the ledger states it.
func (s *VectorSum) Event() sample.Event { return s.sampler.Event() }

// LotsLeft returns how many lots can still be released: at most VectorSumConfig.Lots, and at most
// as many as Budget.StopAtEpsilon allows. It does not depend on the vectors.
func (s *VectorSum) LotsLeft() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lotsLeft()
}

func (s *VectorSum) lotsLeft() int {
	if s.fault != nil {
		return 0
	}
	return max(0, min(s.config.Steps-s.step, s.account.Meter.Allowed))
}

// StartLot begins a lot. Unless the caller draws lots, it draws the lot and returns its records in
// ascending order; they are private. Each may then be added once. A record that is not added
// contributes nothing.
func (s *VectorSum) StartLot() ([]int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.fault != nil:
		return nil, s.fault
	case s.started:
		return nil, errors.New("a lot has begun: call Release before StartLot")
	case s.lotsLeft() == 0:
		return nil, fmt.Errorf("%w: all %d lots are released, or the next one would exceed the limit on ε", ErrBudget, s.step)
	}
	clear(s.counted)
	s.added = 0
	if s.callerDraws {
		s.started = true
		return nil, nil
	}
	if err := s.sampler.StartLot(uint64(s.step - s.firstStep)); err != nil {
		return nil, err
	}
	var lot []int
	for block := make([]int, 256); ; {
		n, err := s.sampler.Next(block)
		if err != nil {
			return nil, err
		}
		lot = append(lot, block[:n]...)
		if n < len(block) {
			break
		}
	}
	for _, record := range lot {
		s.counted[record] = false
	}
	s.started = true
	return lot, nil
}

// Add adds the vectors of a record, one of each of VectorSumConfig.Vectors in their order, with a
// weight: see RecordWeights. It does not keep them.
//
// A record with vectors of another number or size, or with a number that is not finite, counts as
// a record of the lot and contributes nothing: an error would depend on its content. Excluded
// counts such records. An error means that the caller broke the order of calls: the record is not
// in the lot, or was added before. Nothing is added then.
func (s *VectorSum) Add(record int, weight float64, vectors ...[]float64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	counted, drawn := s.counted[record]
	e := s.sampler.Event()
	switch {
	case s.fault != nil:
		return s.fault
	case !s.started:
		return errors.New("no lot has begun: call StartLot before Add")
	case record < 0 || record >= s.records || !s.callerDraws && !drawn:
		return fmt.Errorf("record %d is not in the lot: add the records that StartLot returned", record)
	case counted:
		return fmt.Errorf("record %d was added to the lot before: a record counts once", record)
	case e.LotSize > 0 && s.added == e.LotSize:
		return fmt.Errorf("the lot has %d records, its largest size: draw lots as the sampling describes", s.added)
	}
	s.counted[record] = true
	s.added++
	return s.lot.AddVectors(load.StepsOfWeight(weight, s.weights.Cap), vectors)
}

// Excluded returns the number of records that were added to the current lot and contribute nothing
// because of the content of their vectors. It is private: no noise protects it.
func (s *VectorSum) Excluded() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lot.Mechanism.Clipper.ExcludedRecords()
}

// Release ends a lot. It writes the lot to the ledger and, when this is on disk, returns the mean of
// each vector: the sum of the clipped vectors with noise, divided by the public number q·N of
// records, or as [RecordWeights] describes. After an error nothing more can be released; the lot may
// count as spent.
func (s *VectorSum) Release() ([][]float64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil {
		return nil, s.fault
	}
	if !s.started {
		return nil, errors.New("no lot has begun: call StartLot before Release")
	}
	means, err := s.releaseLot()
	if err != nil {
		s.fault = fmt.Errorf("lot %d: %w", s.step, err)
		return nil, s.fault
	}
	return means, nil
}

func (s *VectorSum) releaseLot() ([][]float64, error) {
	m := s.lot.Mechanism
	s.started = false
	if err := s.lot.Finish(s.step); err != nil {
		return nil, err
	}
	if err := s.account.SpendLot(m.Entry, s.config.Steps-s.step, m.EqualLots(s.step)); err != nil {
		return nil, err
	}
	if err := s.lot.Release(s.step, 0); err != nil {
		return nil, err
	}
	s.step++
	means := make([][]float64, len(m.Vectors.Means))
	for v, mean := range m.Vectors.Means {
		means[v] = slices.Clone(mean)
	}
	return means, m.Advance(s.step)
}

// Deviations returns the standard deviation of the noise in each number of the means of the next
// lot, for each vector. It is public.
func (s *VectorSum) Deviations() []float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	deviations := make([]float64, len(s.vectors))
	for v := range deviations {
		deviations[v] = s.lot.Mechanism.NoiseOf(v) * s.lot.Mechanism.Step.Scale
	}
	return deviations
}

// Epsilon returns an upper bound of the ε of the lots that were released, for Budget.Delta, and of
// lots that a process before a crash may have released.
func (s *VectorSum) Epsilon() (float64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.account.Meter.Cost(s.account.Meter.Done)
}

// PlannedEpsilon returns the ε of all lots up to VectorSumConfig.Lots, or up to the end of the
// budget.
func (s *VectorSum) PlannedEpsilon() (float64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.account.Meter.Planned(s.config.Steps - s.step)
}

// Spent returns the cost according to the ledger, which may have reserved lots before Close. name is
// one of accountant.Names, or "" for the default.
func (s *VectorSum) Spent(name string) (accountant.Guarantee, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, err := s.config.Files.readLedger(s.account.Ledger)
	if err != nil {
		return accountant.Guarantee{}, err
	}
	return accountant.Epsilon(h, s.config.Budget.Delta, name)
}

// State returns what ResumeVectorSum needs to continue. Store it after each release, with what was
// computed from the release.
func (s *VectorSum) State() VectorSumState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return VectorSumState{Lots: s.step, Bounds: s.lot.Mechanism.Clipper.State(nil), LedgerHead: s.account.Ledger.Head()}
}

// Close ends the ledger, and returns what it reserved and did not use.
func (s *VectorSum) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault == nil {
		if s.lotsLeft() == 0 { // no release decides when the lots end
			s.account.Ledger.SetComplete()
		}
		s.fault = errors.New("the sum of vectors is closed")
	}
	return s.account.Ledger.Close()
}
