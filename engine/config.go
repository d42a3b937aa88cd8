package engine

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/sample"
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
	Weights RecordWeights

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
	// RankTimeout is how long ranks wait in a lot for one that does not respond; between lots, where rank 0
	// observes the run and writes files, and until the first lot is done, ten times as long. 0: five times the
	// longest lot so far, and at least a minute.
	RankTimeout time.Duration

	// Fingerprint contains further public settings, by name, which must be equal for [Resume]
	// to continue a run; for example, how the data were read.
	Fingerprint map[string]string
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

// Files names the files that a run writes.
type Files struct {
	Ledger             string        // required unless Mechanism.NonPrivate, or LedgerWriter is set
	LedgerWriter       io.Writer     // in place of Ledger: no crash safety, see [ledger.NewWriter]; no checkpoints, no [Resume]
	CheckpointFolder   string        // folder that [Resume] reads; "": no checkpoints
	CheckpointInterval time.Duration // longest time between two checkpoints, unless a write takes longer; default: 30 s
}

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
	case len(m.Clipping) != 1 || len(m.Clipping[0].Scales) > 0 || len(m.GroupNoiseMultipliers)+len(m.GroupNoiseMultiplierAt) > 0:
		return setting.Errorf("Mechanism.Clipping", "Laplace noise requires that all parameters are clipped as one group without scales and without noise of its own: use %v, or %v", setting.With("Mechanism.Clipping", "flat"), useGaussian)
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
	if c.Steps < 1 {
		return setting.Errorf("Steps", "%v: give at least 1", setting.With("Steps", c.Steps))
	}
	if c.Microbatch < 0 {
		return setting.Errorf("Microbatch", "%v: give at least 1; leave it out to let the engine choose", setting.With("Microbatch", c.Microbatch))
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
	case !c.isWeighted() && c.Weights != (RecordWeights{}):
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

func (c *Config) checkPrivacy() error {
	if len(c.Mechanism.Clipping) == 0 && !c.Mechanism.NonPrivate {
		c.Mechanism.Clipping = clip.Flat(clip.Constant(1), nil)
	}
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
	case !(b.StopAtEpsilon >= 0) || math.IsInf(b.StopAtEpsilon, 1):
		return setting.Errorf("Budget.StopAtEpsilon", "%v: give a finite number above 0; leave it out to train all steps", setting.With("Budget.StopAtEpsilon", b.StopAtEpsilon))
	}
	if err := cmp.Or(m.noise().Check(), c.checkDistribution()); err != nil {
		return err
	}
	return c.checkChoose()
}

// publicRecords returns the number of records that a run of c states: Sampling.Population, or
// the number of records in Train, which is counted.
func (c *Config) publicRecords(counted int) int { return cmp.Or(c.Sampling.Population, counted) }

// setDelta sets the default of Delta for a public number of records.
func (b *Budget) setDelta(records int) {
	if b.Delta == 0 {
		b.Delta = accountant.DefaultDelta(records)
	}
}

// CheckEpsilon returns an error if no run can have this ε as its budget.
func (b Budget) CheckEpsilon(epsilon float64) error {
	if epsilon > 0 && !math.IsInf(epsilon, 1) {
		return nil
	}
	return setting.Errorf("Epsilon", "%v: give a finite budget above 0", setting.With("Epsilon", epsilon))
}

// CheckDelta returns an error if δ is not between 0 and 1, and below one over the number of records. A
// mechanism that publishes one record in full, chosen at random, satisfies (0, δ) with a larger δ (Dwork
// and Roth 2014, section 2.3).
func (b Budget) CheckDelta(records int) error {
	if !(b.Delta > 0 && b.Delta < 1) {
		return setting.Errorf("Budget.Delta", "%v: give a number above 0 and below 1, usually well below one over the number of records", setting.With("Budget.Delta", b.Delta))
	}
	if b.AllowLargeDelta || b.Delta*float64(records) < 1 {
		return nil
	}
	return setting.Errorf("Budget.Delta", "δ = %v of %d records: with δ of at least one over the number of records, the guarantee permits publishing one record in full; give a smaller δ (%v), or accept this (%v)",
		b.Delta, records, setting.Named("Budget.Delta"), setting.Named("Budget.AllowLargeDelta"))
}
