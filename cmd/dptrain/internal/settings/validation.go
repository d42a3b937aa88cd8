package settings

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// ValidationShare is the share of ε that the validation may cost alone, if its noise is not
// given. Composed with the lots it costs less.
const ValidationShare = 0.05

// holdOut moves private records from the training set to the validation set.
func (s *Spec) holdOut() error {
	f, c := s.Flags, &s.Config
	c.Sampling.Population = f.Population
	s.Records = c.PublicRecordCount()
	if !f.given["validation-split"] {
		if f.given["validation-noise"] {
			return exitcode.Usagef("--validation-noise %v needs --validation-split: without it no records are held out", f.ValidationNoise)
		}
		return nil
	}
	return c.HoldOut(f.ValidationSplit)
}

// calibrateValidation sets the noise of the validation for a budget; 0 stands for the cost
// of the lots.
func (s *Spec) calibrateValidation(epsilon float64) (err error) {
	f, c := s.Flags, &s.Config
	if c.Validation.Set == nil {
		return nil
	}
	if !f.given["validation-noise"] {
		records := c.Records.Count(c.Validation.Set)
		if f.ValidationNoise, err = s.noiseAlone(s.ValidationShare, epsilon, records); err != nil {
			return fmt.Errorf("--validation-split: %w; give --validation-noise", err)
		}
		if err := s.checkValidationNoise(epsilon, records); err != nil {
			return err
		}
		f.given["validation-noise"] = true
	}
	c.Validation.Noise = f.ValidationNoise
	return nil
}

// maxValidationDeviation is the largest standard deviation of the noise in an accuracy, or in an error as
// a share of the bounds' width, that a run releases without being told to. With 0.3, an accuracy of
// 90% and one of 50% are hard to tell apart.
const maxValidationDeviation = 0.3

// checkValidationNoise refuses the noise that a small share of the budget pays for where it makes the
// release useless. A selection, which has a larger share, decides for itself.
func (s *Spec) checkValidationNoise(epsilon float64, records int) error {
	f, c := s.Flags, &s.Config
	deviation := f.ValidationNoise / float64(records)
	if c.Mechanism.NonPrivate || s.ValidationShare != ValidationShare || deviation <= maxValidationDeviation {
		return nil
	}
	budget, err := s.costOfLots(epsilon)
	if err != nil {
		return err
	}
	enough := maxValidationDeviation * float64(records)
	all := ledger.Sampling{Policy: ledger.FullBatch, Records: records}
	release := accountant.Plan{Sampling: all, Steps: 1, Noise: enough, Adjacency: c.Sampling.Adjacency()}
	alone, err := accountant.Epsilon(release.History(), c.Budget.Delta, c.Budget.Accountant)
	if err != nil {
		return err
	}
	return exitcode.Usagef("--validation-split %v: the %s of %s would have noise of ±%.0f%%, which shows nothing: it needs about %s records in all, or --validation-noise %s (±%.0f%%), which alone costs ε = %s of %s; or declare rows public with --split 0.2 or --test",
		f.ValidationSplit, s.ValidationMetric(), number.Plural(records, "record"), 100*deviation,
		number.Thousands(int(math.Ceil(float64(s.Records)*deviation/maxValidationDeviation))),
		number.Short(enough), 100*maxValidationDeviation, number.RoundUp(alone.Epsilon), number.Short(budget))
}

// ValidationStatistic names the sum over the held-out records to which noise is added.
func (s *Spec) ValidationStatistic() string {
	if s.Network.Example.Targets > 0 {
		return "sum of errors in widths of the target's bounds"
	}
	return "count of correct predictions"
}

// ValidationMetric names the value that is released about held-out records.
func (s *Spec) ValidationMetric() string {
	if s.Network.Example.Targets > 0 {
		return "error"
	}
	return "accuracy"
}
