package runspec

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/internal/exitcode"
)

// ValidationShare is the share of ε that the validation may cost alone, if its noise is not
// given. Composed with the lots it costs less.
const ValidationShare = 0.05

// holdOut moves private records from the training set to the validation set. Their number
// follows from public numbers. With --population the number of training records is that
// constant without the records held out.
func (s *Spec) holdOut() error {
	f, c := s.Flags, &s.Config
	c.Sampling.Population = f.Population
	s.Records = engine.PublicRecordCount(*c)
	if !f.given["validation-split"] {
		if f.given["validation-noise"] {
			return exitcode.Usagef("--validation-noise %v needs --validation-split: without it no records are held out", f.ValidationNoise)
		}
		return nil
	}
	switch {
	case !(f.ValidationSplit > 0 && f.ValidationSplit < 1):
		return exitcode.Usagef("--validation-split %v: give a share above 0 and below 1, usually 0.1", f.ValidationSplit)
	case f.given["validation-noise"] && (!(f.ValidationNoise > 0) || math.IsInf(f.ValidationNoise, 0)):
		return exitcode.Usagef("--validation-noise %v: give a finite standard deviation above 0 for the %s", f.ValidationNoise, s.ValidationStatistic())
	}
	heldOut := int(math.Round(f.ValidationSplit * float64(s.Records)))
	if heldOut < 1 || heldOut >= s.Records {
		return exitcode.Usagef("--validation-split %v of %d records holds out %d: at least one record is needed for validation and one for training; change the share", f.ValidationSplit, s.Records, heldOut)
	}
	var err error
	if f.Population > 0 {
		c.Sampling.Population -= heldOut
	}
	c.Train, c.Validation.Set, err = engine.HoldOut(c.Train, c.Records, heldOut)
	return err
}

// calibrateValidation sets the noise of the validation for a budget; 0 stands for the cost
// of the lots.
func (s *Spec) calibrateValidation(epsilon float64) (err error) {
	f, c := s.Flags, &s.Config
	if c.Validation.Set == nil {
		return nil
	}
	if !f.given["validation-noise"] {
		if f.ValidationNoise, err = s.noiseAlone(s.ValidationShare, epsilon, engine.RecordCount(c.Validation.Set, c.Records)); err != nil {
			return fmt.Errorf("--validation-split: %w; give --validation-noise", err)
		}
		f.given["validation-noise"] = true
	}
	c.Validation.Noise = f.ValidationNoise
	return nil
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
