package engine

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/perexample"
)

// Config says what is trained, which mechanism guards it and how long.
//
// The guarantee is for the records of Train and Validation, as Records defines
// them, and holds for everything that a run releases: weights, averages, statistics.
type Config struct {
	Network perexample.Build // where there is no Projection, which gives its own
	Train   data.Set
	Records Records

	Validation Validation // private records that are held out
	Projection Projection // a first layer found privately

	Augmentation Augmentation // views of an example in place of itself

	Sampling sample.Policy // none given: Poisson
	Rate     float64       // each record's probability, or the share of them in a lot; or give Lot
	Lot      int           // records in a lot; for Poisson the expected number
	Steps    int           // lots

	Clipping   []clip.Group          // none given: all vectors together, bound 1
	Noise      float64               // z: noise over sensitivity, all gradient groups and adaptive counts together
	NoiseAt    func(lot int) float64 // z of each lot, from 0, in place of Noise; a function of public things
	Allocation Allocation
	Statistics []Statistic // other sums released with each lot, paid for on top of Noise

	Delta         float64 // none given: the largest power of ten below 1/records
	Accountant    string  // none given: the accountant's default
	StopAtEpsilon float64 // end before the lot that would exceed it (accountant.Answer.Bound), at most Steps; 0: only Steps ends the run

	Optimizer optim.Optimizer       // no kind given: SGD
	Schedule  optim.Schedule        // no shape given: constant
	RateAt    func(lot int) float64 // learning rate of each lot, from 0, in place of Schedule; a function of public things
	Average   optim.Average         // Decay 0: none is kept

	// What a parameter's learning rate and weight decay are multiplied by; none given: 1.
	// They are functions of public things, asked once for each parameter, by its name. What
	// they change comes after the noise and costs no privacy.
	RateOf  func(parameter string) float64 // above 0; a parameter left out of the network's Params stays as it is
	DecayOf func(parameter string) float64 // 0: it does not decay

	Microbatch int     // records computed together; 0: chosen
	Device     string  // auto, cpu, gorgonia, cuda:N
	Precision  string  // of products on a GPU: fp32 (if none is given), tf32, bf16
	Threads    int     // 0: one a processor
	Seed       *uint64 // reproducible, and marked insecure everywhere
	Ledger     string  // the file to be written; needed unless NonPrivate
	NonPrivate bool    // no clipping, no noise, ε = ∞: the baseline

	Same            map[string]string // other public things, by name, that must be the same for [Resume] to go on: how the data were read, say
	Checkpoint      string            // the folder that [Resume] goes on from; none given: nothing is saved
	CheckpointEvery time.Duration     // the most time between two, unless a write takes longer; 0: half a minute
}

// Allocation says how noise is shared among groups (McMahan et al. 2019,
// section 4).
type Allocation string

const (
	// Proportional noise has every group at the same ratio of noise to sensitivity.
	Proportional Allocation = "proportional"
	// DimensionAdjusted noise gives large groups less of the budget a coordinate.
	DimensionAdjusted Allocation = "dimension"
)

var errNoExamples = errors.New("no training data: set Config.Train to a set with at least one example")

// check fills in what was left out and refuses what would break the guarantee.
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
	if err := c.Augmentation.check(c.Train.Columns()); err != nil {
		return err
	}
	c.Sampling = c.policy()
	if c.Steps < 1 {
		return fmt.Errorf("%d steps: at least one lot is needed", c.Steps)
	}
	if c.Microbatch < 0 {
		return fmt.Errorf("a microbatch of %d records: give at least 1, or 0 to have it chosen", c.Microbatch)
	}
	if c.CheckpointEvery < 0 {
		return fmt.Errorf("a checkpoint every %v: give a positive time", c.CheckpointEvery)
	}
	if c.CheckpointEvery == 0 {
		c.CheckpointEvery = 30 * time.Second
	}
	if c.Allocation == "" {
		c.Allocation = Proportional
	}
	if c.Allocation != Proportional && c.Allocation != DimensionAdjusted {
		return fmt.Errorf("allocation %q is unknown: use %s or %s", c.Allocation, Proportional, DimensionAdjusted)
	}
	if err := c.checkLearning(); err != nil {
		return err
	}
	return c.checkPrivacy()
}

func (c *Config) checkLearning() error {
	if c.Optimizer.Kind == "" {
		c.Optimizer.Kind = optim.KindSGD
	}
	if err := c.Optimizer.Check(); err != nil {
		return err
	}
	if c.Schedule.Shape == "" {
		c.Schedule.Shape = optim.ShapeConstant
	}
	if err := c.checkRates(); err != nil {
		return err
	}
	if c.Average.Decay != 0 {
		return c.Average.Check()
	}
	return nil
}

// checkRates asks for every lot's learning rate before the first, so that one cannot
// fail in the middle of a run.
func (c *Config) checkRates() error {
	if c.RateAt == nil {
		return c.Schedule.Check()
	}
	if c.Schedule.Base != 0 {
		return fmt.Errorf("both a schedule (%v) and a learning rate for each lot were given: set one of Schedule and RateAt", c.Schedule)
	}
	for lot := range c.Steps {
		if rate := c.RateAt(lot); !(rate >= 0) || math.IsInf(rate, 1) {
			return fmt.Errorf("lot %d: a learning rate of %v: RateAt must give a number from 0 on", lot, rate)
		}
	}
	return nil
}

// learning is the learning rate of a lot.
func (c *Config) learning(lot int, e sample.Event) float64 {
	if c.RateAt != nil {
		return c.RateAt(lot)
	}
	return c.Schedule.Rate(lot+1, e.LotsPerEpoch(), c.Steps)
}

func (c *Config) checkPrivacy() error {
	if err := checkStatistics(c.Statistics); err != nil {
		return err
	}
	if err := c.checkValidation(); err != nil {
		return err
	}
	switch {
	case c.NonPrivate:
		return nil
	case c.Ledger == "":
		return fmt.Errorf("a private run needs a ledger: set Config.Ledger to a file")
	case c.Delta != 0 && !(c.Delta > 0 && c.Delta < 1):
		return fmt.Errorf("delta %v: it must lie between 0 and 1, well below one over the number of records", c.Delta)
	case !(c.StopAtEpsilon >= 0) || math.IsInf(c.StopAtEpsilon, 1):
		return fmt.Errorf("a budget of ε = %v: it must be a positive number", c.StopAtEpsilon)
	case c.NoiseAt == nil:
		if err := checkNoise(c.Noise); err != nil {
			return err
		}
	case c.Noise != 0:
		return fmt.Errorf("both a noise (%v) and one for each lot were given: set one of Noise and NoiseAt", c.Noise)
	}
	if len(c.Clipping) == 0 {
		c.Clipping = clip.Flat(clip.Constant(1), nil)
	}
	return nil
}

func checkNoise(z float64) error {
	switch {
	case math.IsNaN(z) || z < 0:
		return fmt.Errorf("noise %v: the multiplier must be a positive number", z)
	case z == 0:
		return fmt.Errorf("noise 0 protects nobody: give a multiplier above 0, or train without privacy by NonPrivate (--non-private)")
	case math.IsInf(z, 1):
		return fmt.Errorf("noise is infinite: nothing can be learnt; give a finite multiplier")
	}
	return nil
}

// multiplier is z of a lot.
func (c *Config) multiplier(lot int) float64 {
	if c.NoiseAt != nil {
		return c.NoiseAt(lot)
	}
	return c.Noise
}

// policy is how lots are drawn.
func (c *Config) policy() sample.Policy { return cmp.Or(c.Sampling, sample.PolicyPoisson) }

// DefaultDelta is the largest power of ten below 1/records.
func DefaultDelta(records int) float64 {
	k := 1
	for math.Pow10(-k)*float64(records) >= 1 {
		k++
	}
	return math.Pow10(-k)
}
