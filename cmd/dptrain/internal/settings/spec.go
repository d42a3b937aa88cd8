package settings

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/budget"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/models"
)

// Spec is the specification of a run: the settings and what follows from them and the data.
type Spec struct {
	Flags   *Flags
	Config  engine.Config
	Task    *data.Task
	Network *Network
	Records int // private records, those held out included, or --population

	// Directions are the principal directions in front of the network; nil without a
	// projection. They are zero until the run has released them.
	Directions []float32

	// ValidationShare is the share of ε that the validation may cost alone, if its noise is
	// not given.
	ValidationShare float64

	Stop *StopCondition // nil without --stop-when

	NoiseRules *NoiseRules // nil without --noise-schedule

	// SchemaFindings are the columns of the public test file that leave the schema; nil if no
	// file was compared.
	SchemaFindings []data.SchemaFinding
}

// checkpointInterval bounds the work that a crash can lose. The privacy cost of lost lots
// is spent.
const checkpointInterval = 5 * time.Second

// New derives a specification from resolved flags and the data. It does not calibrate the
// noise: see [Spec.Calibrate].
func New(flags *Flags, task *data.Task) (*Spec, error) {
	s := &Spec{Flags: flags, Task: task, ValidationShare: ValidationShare}
	example := models.DataSpec{Classes: task.Classes, Unordered: task.Schema.Unordered()}
	s.Network = &Network{Example: example, flags: flags, schema: task.Schema, seed: publicSeed, elements: featureElements(task)}
	if flags.given["seed"] {
		s.Network.seed = flags.Seed
	}
	s.Network.describe(task.Train.Columns())
	var err error
	c := &s.Config
	c.Train = task.Train
	if c.Fingerprint, err = dataFingerprint(flags, task); err != nil {
		return nil, err
	}
	if c.Records, err = ParseRecord(flags.Record, flags.UserExamples); err != nil {
		return nil, err
	}
	c.LocalTraining = flags.localTraining()
	if c.Weights, err = weightLimits(flags, task.Train); err != nil {
		return nil, err
	}
	if err := s.holdOut(); err != nil {
		return nil, err
	}
	if err := s.resolveProjection(); err != nil {
		return nil, err
	}
	if err := s.resolveAugmentation(); err != nil {
		return nil, err
	}
	if err := s.addPooling(); err != nil {
		return nil, err
	}
	newDefaultRules(s).apply()
	if err := s.buildNetwork(); err != nil {
		return nil, err
	}
	c.Optimization.LearningRateMultiplier, c.Optimization.WeightDecayMultiplier, err = flags.multipliers(c.Network)
	return s, err
}

// WithFlags returns the specification of a run on the same data and network with other
// flags. Its noise is calibrated.
func (s *Spec) WithFlags(flags *Flags) (*Spec, error) {
	other := *s
	other.Flags = flags
	return &other, other.Calibrate()
}

// Calibrate checks the remaining settings, and calibrates the noise.
func (s *Spec) Calibrate() error {
	f, c := s.Flags, &s.Config
	if err := f.resolveLots(c); err != nil {
		return err
	}
	var err error
	if s.Stop, err = newStop(f, s.Task); err != nil {
		return err
	}
	if c.Optimization.Optimizer, err = optim.ParseRule(f.Optimizer); err != nil {
		return fmt.Errorf("--optimizer: %w", err)
	}
	if c.Optimization.Schedule, err = optim.ParseSchedule(f.Schedule, f.LearningRate); err != nil {
		if refused := (*engine.SettingError)(nil); errors.As(err, &refused) { // --lr
			return err
		}
		return fmt.Errorf("--schedule: %w", err)
	}
	if c.Optimization.WeightDecayMultiplier != nil && optim.WeightDecay(c.Optimization.Optimizer) == 0 {
		return exitcode.Usagef("--decay-of %s has no effect: --optimizer %s has no weight decay; give it a weight-decay, as in adamw:weight-decay=0.1, or drop --decay-of", f.WeightDecayOf, f.Optimizer)
	}
	c.Optimization.Average = optim.Average{Decay: f.EMA}
	c.Files.CheckpointFolder, c.Files.CheckpointInterval = filepath.Join(f.Out, rundir.CheckpointDir), checkpointInterval
	// A microbatch larger than the data would consist of padding and waste memory.
	c.Microbatch = min(f.Microbatch, max(1, c.PublicRecordCount()))
	c.Device = f.Device
	if f.given["seed"] {
		c.Seed = &f.Seed
	}
	if f.NonPrivate {
		if f.NoiseSchedule != "" {
			return exitcode.Usagef("--noise-schedule has no meaning with --non-private, which adds no noise: drop one of them")
		}
		c.Mechanism.NonPrivate = true
		c.Statistics, err = baselineStatistics(c.Network)
		return err
	}
	if err := s.resolveMechanism(); err != nil {
		return err
	}
	if err := s.resolveNoiseRules(); err != nil {
		return err
	}
	if err := f.saved.check(c, f.resumedEpsilon); err != nil {
		return err
	}
	return s.limitToDraw()
}

// ParseRecord parses --record, with the value of --user-examples.
func ParseRecord(record string, userExamples int) (engine.Records, error) {
	kind, rest, _ := strings.Cut(record, ":")
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
		if userExamples < 1 {
			return engine.Records{}, exitcode.Usagef("--user-examples %d: give at least 1", userExamples)
		}
		if rest != "" {
			return engine.Records{Users: true, Examples: userExamples}, nil
		}
	}
	return engine.Records{}, exitcode.Usagef("--record %q: give example, microbatch:K with K of at least 1, or user:COLUMN", record)
}

// resolveLots sets the sampling and the number of steps.
func (s *Flags) resolveLots(c *engine.Config) error {
	n := c.PublicRecordCount()
	c.Sampling = engine.Sampling{Policy: sample.Policy(s.Sampling), Lot: s.Lot, Rate: s.Rate, Population: c.Sampling.Population,
		MaxLot: s.MaxLot, ConstantWork: s.ConstantWork, ReplaceOne: s.Adjacency == "replace-one"}
	if s.given["rate"] && s.Sampling != "poisson" && s.Sampling != "truncated" {
		return exitcode.Usagef("--rate requires --sampling poisson or truncated: with --sampling %s, give --lot", s.Sampling)
	}
	if err := c.Sampling.Check(n); err != nil {
		return err
	}
	if s.given["steps"] || slices.Contains(s.byRule, "steps") {
		c.Steps = s.Steps
		if s.Steps < 1 {
			return exitcode.Usagef("--steps %d: give at least 1", s.Steps)
		}
		return nil
	}
	if !(s.Epochs > 0) || math.IsInf(s.Epochs, 0) {
		return exitcode.Usagef("--epochs %v: give a finite number above 0", s.Epochs)
	}
	steps := budget.LotCount(s.Epochs, ledger.Policy(c.Sampling.Policy), float64(n), expectedLot(c))
	if steps > 1<<53 {
		return exitcode.Usagef("--epochs %v amounts to more than 2^53 lots: give fewer epochs", s.Epochs)
	}
	c.Steps = int(steps)
	return nil
}

// expectedLot returns the expected number of records in a lot.
func expectedLot(c *engine.Config) float64 {
	if c.Sampling.Rate > 0 {
		return c.Sampling.Rate * float64(c.PublicRecordCount())
	}
	return float64(c.Sampling.Lot)
}

// resolveMechanism sets clipping and noise.
func (s *Spec) resolveMechanism() error {
	f, c := s.Flags, &s.Config
	c.Files.Ledger = filepath.Join(f.Out, rundir.LedgerFile)
	if f.NoiseSchedule != "" && !f.given["accountant"] {
		f.Accountant = "rdp" // its ε for lots of equal noise is that of the filter
	}
	c.Budget = engine.Budget{Delta: f.Delta, Accountant: f.Accountant, StopAtEpsilon: f.StopAtEpsilon, AllowLargeDelta: f.AllowLargeDelta}
	c.Mechanism.Allocation, c.Mechanism.Arithmetic = engine.Allocation(f.Allocation), engine.Arithmetic(f.Arithmetic)
	c.Mechanism.Distribution = engine.Distribution(f.Mechanism)
	switch {
	case f.given["delta"]:
	case f.ProjectBudget != "":
		var err error
		if c.Budget.Delta, err = f.projectDelta(); err != nil {
			return err
		}
	default:
		c.Budget.Delta = accountant.DefaultDelta(s.Records)
	}
	if err := c.Budget.CheckDelta(s.Records); err != nil {
		return exitcode.AsUsage(err)
	}
	var err error
	c.Mechanism.Clipping = nil
	if len(f.Groups) > 0 {
		err = f.resolveGroups(c)
	} else {
		c.Mechanism.Clipping, err = f.clippingGroups(c)
	}
	if err != nil {
		return err
	}
	if f.allGroupsHaveNoise {
		if err := s.calibrateExtraReleases(cmp.Or(f.StopAtEpsilon, f.resumedEpsilon)); err != nil {
			return err
		}
		return s.extendSteps()
	}
	if f.given["noise"] {
		if !(f.Noise > 0) || math.IsInf(f.Noise, 0) {
			return exitcode.Usagef("--noise %v: give a finite multiplier above 0; --non-private trains without noise", f.Noise)
		}
		c.Mechanism.NoiseMultiplier = f.Noise
		if err := s.calibrateExtraReleases(cmp.Or(f.StopAtEpsilon, f.resumedEpsilon)); err != nil {
			return err
		}
		return s.extendSteps()
	}
	if err := c.Budget.CheckEpsilon(f.Epsilon); err != nil {
		return err
	}
	if err := s.calibrateExtraReleases(f.Epsilon); err != nil {
		return err
	}
	if c.Mechanism.NoiseMultiplier, err = c.CalibrateNoise(f.Epsilon); err != nil {
		return fmt.Errorf("--epsilon %v: %w", f.Epsilon, err)
	}
	// The budget holds even if a crash loses lots that the plan does not include.
	if c.Budget.StopAtEpsilon == 0 || f.Epsilon < c.Budget.StopAtEpsilon {
		c.Budget.StopAtEpsilon = f.Epsilon
	}
	return nil
}

// HasGivenNoise reports whether every group of --group has noise of its own, so that none is calibrated.
func (s *Spec) HasGivenNoise() bool { return s.Flags.allGroupsHaveNoise }

// Recalibrate sets the noise for another budget. The run then has no limit on ε.
func (s *Spec) Recalibrate(epsilon float64) error {
	s.Flags.ForgetDerivedNoise()
	s.Flags.Epsilon = epsilon
	if err := s.calibrateExtraReleases(epsilon); err != nil {
		return err
	}
	var err error
	s.Config.Mechanism.NoiseMultiplier, err = s.Config.CalibrateNoise(epsilon)
	s.Config.Budget.StopAtEpsilon = 0
	return err
}

// ForgetDerivedNoise removes the noise of the extra releases, unless it is on the command
// line, so that the next calibration sets it again.
func (s *Flags) ForgetDerivedNoise() {
	for _, name := range []string{"validation-noise", "project-noise"} {
		if !s.OnCommandLine(name) {
			delete(s.given, name)
		}
	}
}

// calibrateExtraReleases sets the noise of the metrics, of the projection and of the validation for
// a budget; 0 stands for the cost of the lots.
func (s *Spec) calibrateExtraReleases(epsilon float64) error {
	if err := s.resolveMetrics(epsilon); err != nil {
		return err
	}
	if err := s.calibrateProjection(epsilon); err != nil {
		return err
	}
	return s.calibrateValidation(epsilon)
}

// noiseAlone returns the noise at which one release of sensitivity 1 over all records costs
// a share of the budget by itself.
func (s *Spec) noiseAlone(share, epsilon float64, records int) (float64, error) {
	epsilon, err := s.costOfLots(epsilon)
	if err != nil {
		return 0, err
	}
	c := &s.Config
	release := accountant.Plan{Sampling: ledger.Sampling{Policy: ledger.FullBatch, Records: records},
		Steps: 1, Adjacency: c.Sampling.Adjacency()}
	return accountant.CalibrateNoise(release, share*epsilon, c.Budget.Delta, c.Budget.Accountant)
}

// extendSteps gives a resumed run as many lots as its new budget allows.
func (s *Spec) extendSteps() error {
	epsilon := s.Flags.resumedEpsilon
	if epsilon == 0 {
		return nil
	}
	s.Config.Budget.StopAtEpsilon = epsilon
	steps, err := s.Config.AffordableSteps()
	if err != nil {
		return fmt.Errorf("--epsilon %v: %w", epsilon, err)
	}
	s.Config.Steps = steps
	return nil
}

// AdviceSettings returns what [budget.Advice] reads of a private run.
func AdviceSettings(s *Spec, d engine.RunDescription) budget.Settings {
	m := &s.Config.Mechanism
	a := budget.Settings{Delta: d.Delta, Records: d.Records, Lot: d.ExpectedLot, Steps: s.Config.Steps}
	for _, p := range d.Parameters {
		weights := 1
		for _, n := range p.Shape {
			weights *= n
		}
		a.Parameters += weights
	}
	if m.Distribution != engine.LaplaceNoise {
		a.NoiseMultiplier = m.CombinedNoiseMultiplier(0)
		if s.Flags.Clipping != "joint" && len(s.Flags.Groups) == 0 {
			a.Clip = s.Flags.Clip
			if o, plain := s.Config.Optimization.Optimizer.(optim.Optimizer); plain && (o.Kind == optim.KindSGD || o.Momentum > 0) {
				a.StepLength = s.Flags.LearningRate / (1 - o.Momentum) * a.Clip
			}
		}
	}
	return a
}
