package engine

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/ranks"
	"github.com/dptrain/dptrain/internal/setting"
	"github.com/dptrain/dptrain/perexample"
)

// Config describes a training run: the network and the data, the mechanism that protects
// the records, and the length of the run. The zero value of a field selects its default.
//
// The guarantee is for the records of Train and Validation, as Records defines them. It
// holds for everything that a run releases: weights, averages, statistics.
type Config struct {
	Network perexample.Build // the network to train; a Projection builds its own
	Train   data.Set         // private training examples
	Records Records          // unit of privacy; default: one example

	// Weights limits the weights of records where Train is a data.WeightSet. The gradients are then a
	// weighted mean; what a record adds, and thus ε, is the same. A record with several examples has
	// the mean of their weights. Statistics and adaptive counts are not weighted. MinMean needs
	// the CPU, or LocalTraining.
	Weights Weights

	LocalTraining LocalTraining // steps of each user in a lot; default: users contribute gradients

	Validation   Validation   // held-out private records; default: none
	Projection   Projection   // private first layer; default: none
	Augmentation Augmentation // views of an example that replace the example; default: none
	Statistics   []Statistic  // further sums released with each lot; they cost ε in addition to the gradients

	Sampling     Sampling     // how lots are drawn
	Steps        int          // number of lots; required
	Mechanism    Mechanism    // clipping and noise
	Budget       Budget       // δ, accountant and limit on ε
	Optimization Optimization // how released sums change the weights

	Device     DeviceOptions // what executes the program
	Microbatch int           // records computed together; 0: the engine chooses
	Seed       *uint64       // makes the run reproducible and marks it insecure everywhere; nil: keys from the operating system
	Files      Files         // ledger and checkpoints

	// Ranks are the processes that compute the run together; nil: this process alone. All have the same
	// configuration and the same data. Each computes a part of every lot, their integers are added, and
	// the run has the bits of one process. Rank 0 has the files and the observer: the other ranks only
	// read Files, in Resume.
	Ranks ranks.Communicator

	// Fingerprint contains further public settings, by name, which must be equal for [Resume]
	// to continue a run; for example, how the data were read.
	Fingerprint map[string]string
}

// Sampling describes how lots are drawn. Set one of Rate and Lot.
type Sampling struct {
	Policy sample.Policy // default: Poisson
	Rate   float64       // probability of each record, or its share of a fixed-size lot
	Lot    int           // records in a lot; for Poisson the expected number

	// MaxLot is the largest number of records in a Truncated lot; 0: [accountant.DefaultMaxLot].
	MaxLot int
	// ConstantWork pads each Truncated lot to the same number of microbatches, so that a device
	// gets the same calls with the same shapes in each lot.
	ConstantWork bool

	// Population declares the number of records as a public constant N, which must not come
	// from the data; Poisson and Truncated only. The rate is then Lot/N and the normaliser q·N, everything
	// that is stated about the run uses N, and the number of records of Train is private:
	// neighbouring data sets differ by an added or removed record. Truncated lots require
	// that Train has at most N records. 0: the number of records is public.
	Population int

	// ReplaceOne states the guarantee for data sets in which a record is replaced by any other one, which
	// costs more than the relation that Adjacency states otherwise. Lots of a fixed size always have it.
	ReplaceOne bool
}

// Mechanism describes how the influence of a record is bounded and which noise is added.
type Mechanism struct {
	NonPrivate        bool                  // no clipping, no noise, ε = ∞: the baseline
	Clipping          []clip.Group          // default: all parameters together, bound 1
	NoiseMultiplier   float64               // z = σ/S of adaptive counts and of the groups without noise of their own, all together
	NoiseMultiplierAt func(lot int) float64 // z of each lot, from 0, in place of NoiseMultiplier; no function of releases: see Choose
	Allocation        Allocation            // how this noise is divided among groups; default: Proportional
	Distribution      Distribution          // of the noise on gradients; default: GaussianNoise
	Arithmetic        Arithmetic            // how contributions are added and noised; default: exact

	// GroupNoiseMultipliers and GroupNoiseMultiplierAt give groups of Clipping noise of their own,
	// by name: z_g = σ_g/S_g (McMahan et al. 2019, section 3), the same in all lots or one for each
	// lot, from 0, which must depend on public values only. Where every group has its own,
	// NoiseMultiplier and NoiseMultiplierAt must be unset.
	GroupNoiseMultipliers  map[string]float64
	GroupNoiseMultiplierAt map[string]func(lot int) float64

	// Choose chooses the noise and the bounds of each lot from what earlier lots released: from its
	// argument, which describes the run before the lot, from the weights, and from public values.
	// An [accountant.Filter] then enforces Budget.StopAtEpsilon, which is required. A choice that
	// would exceed it ends Train with an error that wraps [ErrBudget], before the lot begins.
	// Choose must not depend on private data in another way, such as the duration of a lot.
	Choose   func(*Progress) LotChoice
	adaptive *adaptiveLots
}

// Budget describes how the cost of a run is computed and limited.
type Budget struct {
	Delta         float64 // δ; default: [accountant.DefaultDelta] of the number of records
	Accountant    string  // one of accountant.Names; default: the accountant's default
	StopAtEpsilon float64 // the run ends before the lot that would exceed this ε, and after Steps at the latest; 0: no limit

	// Project is the identity of a project budget that counts the cost of the run, as
	// [ledger.Writer.NameBudget] takes it. The ledger names it, and [Resume] requires the same one. "":
	// none.
	Project string

	// FilterOrder is the Rényi order of the filter of a run with Mechanism.Choose. It must not depend
	// on the data. 0: the best for lots with Mechanism.NoiseMultiplier that spend StopAtEpsilon.
	FilterOrder float64

	// AllowLargeDelta accepts a Delta for which CheckDelta would return an error.
	AllowLargeDelta bool
}

// Optimization describes how released sums change the weights. It comes after the noise and
// costs no privacy.
type Optimization struct {
	Optimizer      optim.Rule            // an optim.Optimizer, or a rule that the host computes; default: SGD
	Schedule       optim.Schedule        // learning rate; default shape: constant
	LearningRateAt func(lot int) float64 // learning rate of each lot, from 0; replaces Schedule; must depend on public values only
	Average        optim.Average         // moving average of the weights; Decay 0: none

	// LearningRateMultiplier and WeightDecayMultiplier give a factor for each parameter; nil:
	// 1. They must depend on public values only, and are called once for each parameter name.
	LearningRateMultiplier func(parameter string) float64 // above 0; omit a parameter from the network's Params to freeze it
	WeightDecayMultiplier  func(parameter string) float64 // 0: the parameter does not decay
}

// Files names the files that a run writes.
type Files struct {
	Ledger             string        // required unless Mechanism.NonPrivate, or LedgerWriter is set
	LedgerWriter       io.Writer     // in place of Ledger: no crash safety, see [ledger.NewWriter]; no checkpoints, no [Resume]
	CheckpointFolder   string        // folder that [Resume] reads; "": no checkpoints
	CheckpointInterval time.Duration // longest time between two checkpoints, unless a write takes longer; default: 30 s
}

// Arithmetic is how the contributions of records are added and noised.
type Arithmetic string

const (
	// ExactArithmetic adds integers, whose norms are checked in integers, and rounds Gaussian noise
	// correctly (package noise). The guarantee holds for the bits that are released.
	ExactArithmetic Arithmetic = "exact"
	// FloatArithmetic adds floating-point numbers and floating-point noise. The guarantee is
	// proved for real numbers.
	FloatArithmetic Arithmetic = "float"
)

// Distribution is the distribution of the noise on gradients.
type Distribution string

const (
	// GaussianNoise belongs to ℓ₂ norms: a record's gradient is clipped by its ℓ₂ norm.
	GaussianNoise Distribution = "gaussian"
	// LaplaceNoise belongs to ℓ₁ norms. A record contributes a vector of integers whose ℓ₁ norm is
	// checked in integers, and the noise is discrete Laplace, with its exact distribution
	// (noise.Source.DiscreteLaplaces). Lots in which every record takes part cost a pure ε. The
	// noise multiplier is its scale over the bound. It requires exact arithmetic, the device cpu,
	// one group without an adaptive bound, and lots that are not truncated.
	LaplaceNoise Distribution = "laplace"
)

// checkDistribution sets the default, and the device of Laplace noise.
func (c *Config) checkDistribution() error {
	m := &c.Mechanism
	switch m.Distribution {
	case "":
		m.Distribution = GaussianNoise
		return nil
	case GaussianNoise:
		return nil
	case LaplaceNoise:
	default:
		return fmt.Errorf("noise distribution %q is unknown: use %s or %s", m.Distribution, GaussianNoise, LaplaceNoise)
	}
	c.Device.resolver().PreferCPU()
	useGaussian := setting.With("Mechanism.Distribution", GaussianNoise)
	switch {
	case c.Device.Name != "cpu":
		return setting.Errorf("Device.Name", "device %s adds no Laplace noise: use %v, or %v", c.Device.Name, setting.With("Device.Name", "cpu"), useGaussian)
	case m.Arithmetic == FloatArithmetic:
		return setting.Errorf("Mechanism.Arithmetic", "Laplace noise requires exact arithmetic: drop %v, or use %v", setting.With("Mechanism.Arithmetic", "float"), useGaussian)
	case len(m.Clipping) != 1 || len(m.GroupNoiseMultipliers)+len(m.GroupNoiseMultiplierAt) > 0:
		return setting.Errorf("Mechanism.Clipping", "Laplace noise requires that all parameters are clipped as one group without noise of its own: use %v, or %v", setting.With("Mechanism.Clipping", "flat"), useGaussian)
	case m.Choose != nil:
		return fmt.Errorf("Mechanism.Choose chooses Gaussian noise only: drop it, or use Gaussian noise")
	case c.LocalTraining.Steps > 0:
		return fmt.Errorf("Laplace noise is not available with local steps: drop one of them")
	case c.Sampling.Policy == sample.PolicyTruncated:
		return setting.Errorf("Sampling.Policy", "the cost of truncated lots is known for Gaussian noise only: use %v, or %v", setting.With("Sampling.Policy", "poisson"), useGaussian)
	}
	if _, adapts := m.Clipping[0].Bound.(clip.Quantile); adapts {
		return setting.Errorf("Mechanism.Clipping", "an adaptive bound follows ℓ₂ norms: use a constant bound with Laplace noise, or %v", useGaussian)
	}
	return nil
}

// Allocation is a way to divide the noise among groups (McMahan et al. 2019, section 4).
type Allocation string

const (
	// Proportional gives every group the same ratio of noise to sensitivity.
	Proportional Allocation = "proportional"
	// DimensionAdjusted gives a coordinate of a large group a smaller share of the budget.
	DimensionAdjusted Allocation = "dimension"
)

var errNoExamples = errors.New("no training data: set Config.Train to a set with at least one example")

// check sets the defaults and refuses settings that are impossible or break the guarantee.
func (c *Config) check() error {
	if c.Train == nil || c.Train.Len() == 0 {
		return errNoExamples
	}
	if err := data.Check(c.Train); err != nil {
		return fmt.Errorf("training data: %w", err)
	}
	if err := c.checkProjection(); err != nil {
		return err
	}
	if c.Network == nil {
		return fmt.Errorf("no network: set Config.Network")
	}
	if err := c.checkRanks(); err != nil {
		return err
	}
	if err := c.Augmentation.check(c.Train); err != nil {
		return err
	}
	if err := c.checkLocalTraining(); err != nil {
		return err
	}
	if err := c.checkWeights(); err != nil {
		return err
	}
	c.Sampling.Policy = c.Sampling.policy()
	if err := cmp.Or(c.Sampling.checkPopulation(), c.Sampling.checkTruncation()); err != nil {
		return err
	}
	if c.Steps < 1 {
		return fmt.Errorf("Config.Steps is %d: give at least 1 lot", c.Steps)
	}
	if c.Microbatch < 0 {
		return fmt.Errorf("a microbatch of %d records: give at least 1, or 0 to let the engine choose", c.Microbatch)
	}
	if c.Files.CheckpointInterval < 0 {
		return fmt.Errorf("a checkpoint every %v: give a positive time", c.Files.CheckpointInterval)
	}
	if c.Files.CheckpointInterval == 0 {
		c.Files.CheckpointInterval = 30 * time.Second
	}
	if err := c.Mechanism.checkAllocation(); err != nil {
		return err
	}
	if err := c.Optimization.check(c.Steps); err != nil {
		return err
	}
	return c.checkPrivacy()
}

func (c *Config) checkWeights() error {
	switch {
	case !c.isWeighted() && c.Weights != Weights{}:
		return fmt.Errorf("Config.Weights is set, and the training data have no weights: use a data.WeightSet, or leave it unset")
	case !c.isWeighted():
		return nil
	case c.Weights.MinMean != 0 && c.Mechanism.addsLaplace():
		return setting.Errorf("Weights.MinMean", "a denominator that depends on the lot (%v) needs Gaussian noise: use %v, or a mean weight (%v)",
			setting.Named("Weights.MinMean"), setting.With("Mechanism.Distribution", GaussianNoise), setting.Named("Weights.Mean"))
	}
	if c.Weights.MinMean != 0 && c.LocalTraining.Steps == 0 {
		c.Device.resolver().PreferCPU()
		if c.Device.resolver().OnGPU() {
			return setting.Errorf("Device.Name", "device %s does not divide its sum of gradients by the weight of the lot (%v): use %v, local steps, or a mean weight (%v)",
				c.Device.Name, setting.Named("Weights.MinMean"), setting.With("Device.Name", "cpu"), setting.Named("Weights.Mean"))
		}
	}
	return c.Weights.check(c.Sampling.policy())
}

// isWeighted reports whether records have weights.
func (c *Config) isWeighted() bool { return data.Weights(c.Train) != nil }

func (m *Mechanism) checkAllocation() error {
	m.Allocation = cmp.Or(m.Allocation, Proportional)
	if a := m.Allocation; a != Proportional && a != DimensionAdjusted {
		return fmt.Errorf("allocation %q is unknown: use %s or %s", a, Proportional, DimensionAdjusted)
	}
	return nil
}

func (o *Optimization) check(steps int) error {
	if o.Optimizer == nil || o.Optimizer == (optim.Optimizer{}) {
		o.Optimizer = optim.Optimizer{Kind: optim.KindSGD}
	}
	if n := o.Optimizer.Slots(); n < 0 || n > maxSlots {
		return fmt.Errorf("optimizer %s has %d state values for each weight: Slots must return 0 to %d", o.Optimizer.Describe(), n, maxSlots)
	}
	if err := o.Optimizer.Check(); err != nil {
		return err
	}
	if o.Schedule.Shape == "" {
		o.Schedule.Shape = optim.ShapeConstant
	}
	if err := o.checkLearningRates(steps); err != nil {
		return err
	}
	if o.Average.Decay != 0 {
		return o.Average.Check()
	}
	return nil
}

// checkLearningRates computes every lot's learning rate before the first, so that one cannot
// fail in the middle of a run.
func (o *Optimization) checkLearningRates(steps int) error {
	if o.LearningRateAt == nil {
		return o.Schedule.Check()
	}
	if o.Schedule.Base != 0 {
		return fmt.Errorf("both a schedule (%v) and a learning rate for each lot are set: set one of Optimization.Schedule and Optimization.LearningRateAt", o.Schedule)
	}
	for lot := range steps {
		if rate := o.LearningRateAt(lot); !(rate >= 0) || math.IsInf(rate, 1) {
			return fmt.Errorf("lot %d: a learning rate of %v: LearningRateAt must return a number of at least 0", lot, rate)
		}
	}
	return nil
}

// learningRate returns the learning rate of a lot.
func (c *Config) learningRate(lot int, e sample.Event) float64 {
	if c.Optimization.LearningRateAt != nil {
		return c.Optimization.LearningRateAt(lot)
	}
	return c.Optimization.Schedule.Rate(lot+1, e.LotsPerEpoch(), c.Steps)
}

// paramGroups returns the factors of each parameter's learning rate and weight decay; nil where
// all are 1.
func (o *Optimization) paramGroups(parameters []plan.Parameter) ([]plan.ParamGroup, error) {
	if o.LearningRateMultiplier == nil && o.WeightDecayMultiplier == nil {
		return nil, nil
	}
	groups := make([]plan.ParamGroup, len(parameters))
	for i, p := range parameters {
		g := plan.ParamGroup{RateMultiplier: 1, DecayMultiplier: 1}
		if o.LearningRateMultiplier != nil {
			g.RateMultiplier = o.LearningRateMultiplier(p.Name)
		}
		if o.WeightDecayMultiplier != nil {
			g.DecayMultiplier = o.WeightDecayMultiplier(p.Name)
		}
		if !(g.RateMultiplier > 0) || math.IsInf(g.RateMultiplier, 1) {
			return nil, fmt.Errorf("parameter %s: %v times the learning rate: LearningRateMultiplier must return a number above 0; to freeze a parameter, omit it from the network's Params", p.Name, g.RateMultiplier)
		}
		if !(g.DecayMultiplier >= 0) || math.IsInf(g.DecayMultiplier, 1) {
			return nil, fmt.Errorf("parameter %s: %v times the weight decay: WeightDecayMultiplier must return a number of at least 0", p.Name, g.DecayMultiplier)
		}
		groups[i] = g
	}
	return groups, nil
}

func (c *Config) checkPrivacy() error {
	if err := c.checkStatistics(); err != nil {
		return err
	}
	if err := c.checkValidation(); err != nil {
		return err
	}
	m, b := &c.Mechanism, &c.Budget
	switch {
	case m.NonPrivate && m.Choose != nil:
		return fmt.Errorf("Mechanism.Choose in a run without privacy: there is no noise to choose; drop it")
	case m.NonPrivate:
		return nil
	case c.Files.Ledger == "" && c.Files.LedgerWriter == nil:
		return fmt.Errorf("a private run needs a ledger: set Config.Files.Ledger to a file name")
	case c.Files.Ledger != "" && c.Files.LedgerWriter != nil:
		return fmt.Errorf("a run has one ledger: set Config.Files.Ledger or Config.Files.LedgerWriter")
	case c.Files.CheckpointFolder != "" && c.Files.LedgerWriter != nil:
		return fmt.Errorf("a run with checkpoints needs a ledger in a file: set Config.Files.Ledger in place of LedgerWriter")
	case b.Delta != 0 && !(b.Delta > 0 && b.Delta < 1):
		return fmt.Errorf("delta %v: give a number between 0 and 1, well below one over the number of records", b.Delta)
	case !(b.StopAtEpsilon >= 0) || math.IsInf(b.StopAtEpsilon, 1):
		return fmt.Errorf("a budget of ε = %v: give a positive number", b.StopAtEpsilon)
	}
	if len(m.Clipping) == 0 {
		m.Clipping = clip.Flat(clip.Constant(1), nil)
	}
	if err := cmp.Or(m.noise().Check(), c.checkDistribution()); err != nil {
		return err
	}
	return c.checkChoose()
}

func (s *Sampling) policy() sample.Policy { return cmp.Or(s.Policy, sample.PolicyPoisson) }

// isPoisson reports whether records are drawn independently.
func (s *Sampling) isPoisson() bool {
	return s.Policy == sample.PolicyPoisson || s.Policy == sample.PolicyTruncated
}

func (s *Sampling) checkTruncation() error {
	switch {
	case s.MaxLot < 0:
		return fmt.Errorf("lots of at most %d records: give at least 1, or 0 for the default", s.MaxLot)
	case s.MaxLot > 0 && s.Policy != sample.PolicyTruncated:
		return fmt.Errorf("a largest lot (%d records) with %s lots: use %s sampling, or drop the limit", s.MaxLot, s.Policy, sample.PolicyTruncated)
	case s.ConstantWork && s.Policy != sample.PolicyTruncated:
		return fmt.Errorf("constant work with %s lots: only %s lots have a largest size; use them, or drop constant work", s.Policy, sample.PolicyTruncated)
	}
	return nil
}

// maxLot returns the largest number of records in a truncated lot.
func (s *Sampling) maxLot(records int) int {
	if s.MaxLot > 0 {
		return s.MaxLot
	}
	_, rate := s.lotAndRate(records)
	return accountant.DefaultMaxLot(rate, records)
}

// leastMicrobatches returns the number of microbatches of the given size that every lot has:
// with constant work as many as the largest lot needs.
func (s *Sampling) leastMicrobatches(e sample.Event, size int) int {
	if !s.ConstantWork {
		return 0
	}
	return (e.LotSize + size - 1) / size
}

func (s *Sampling) checkPopulation() error {
	switch {
	case s.Population < 0:
		return fmt.Errorf("a population of %d records: give at least 1, or 0 where the number of records is public", s.Population)
	case s.Population > 0 && !s.isPoisson():
		return fmt.Errorf("a population of %d records with %s lots: their size makes the number of records public; use %s sampling, or drop the population", s.Population, s.Policy, sample.PolicyPoisson)
	}
	return nil
}

// publicRecords returns the number of records that a run of c states: Sampling.Population, or
// the number of records in Train, which is counted.
func (c *Config) publicRecords(counted int) int { return cmp.Or(c.Sampling.Population, counted) }

// lotAndRate returns the expected lot size and the sampling rate for a number of records, of
// which one is set.
func (s *Sampling) lotAndRate(records int) (lot int, rate float64) {
	if s.Lot == 0 {
		return max(1, int(math.Round(s.Rate*float64(records)))), s.Rate
	}
	return s.Lot, float64(s.Lot) / float64(records)
}

// Adjacency returns the relation between neighbouring data sets that the guarantee covers:
//
//   - Lots of a fixed size, and all lots with ReplaceOne: a record is replaced by another. A sum then
//     moves by the contributions of both, which the accountants count as twice the sensitivity.
//   - Shuffled lots, and Poisson and truncated lots without Population: a record is replaced by a null record,
//     which contributes nothing. The number of records is public, because the rate or the
//     normaliser q·N follows from it, so the data sets have equal numbers of records. The
//     dominating pairs of Poisson lots, and thus ε, are those of adding or removing a record
//     (arXiv 2605.15648).
//   - Poisson and truncated lots with Population: a record is added or removed. The rate and the normaliser
//     follow from a constant, which is assumed not to come from the data.
func (s Sampling) Adjacency() ledger.Adjacency {
	switch {
	case s.Policy == sample.PolicyFixed || s.ReplaceOne:
		return ledger.ReplaceOne
	case s.Policy == sample.PolicyShuffle || s.Population == 0:
		return ledger.ZeroOut
	}
	return ledger.AddRemove
}

// CheckDelta returns an error if δ is not below one over the number of records. A mechanism
// that publishes one record in full, chosen at random, satisfies (0, δ) with such a δ (Dwork and
// Roth 2014, section 2.3).
func (b Budget) CheckDelta(records int) error {
	if b.AllowLargeDelta || b.Delta*float64(records) < 1 {
		return nil
	}
	return setting.Errorf("Budget.Delta", "δ = %v of %d records: with δ of at least one over the number of records, the guarantee permits publishing one record in full; give a smaller δ (%v), or accept this (%v)",
		b.Delta, records, setting.Named("Budget.Delta"), setting.Named("Budget.AllowLargeDelta"))
}

// maxSlots bounds the memory of an optimizer.
const maxSlots = 64

// onHost reports whether the host computes the optimizer.
func (o *Optimization) onHost() bool {
	_, known := o.Optimizer.(optim.Optimizer)
	return !known
}

// ofDevice returns the optimizer that devices compute in one pass with the noise. Where the host
// computes another one, the device keeps the released gradient: momentum with a decay of 0 stores
// it in its slot, and a learning rate of 0 leaves the weights as they are.
func (o *Optimization) ofDevice() plan.Optimizer {
	if known, ok := o.Optimizer.(optim.Optimizer); ok {
		return known.ForDevice()
	}
	return plan.Optimizer{Kind: plan.Momentum}
}
