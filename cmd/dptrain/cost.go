package main

import (
	"fmt"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/sample"
)

// plan is the run as an accountant sees it.
func (j *job) plan() accountant.Plan {
	c := &j.config
	n := engine.RecordCount(c.Train, c.Records)
	sampling := accountant.Sampling{Policy: accountant.Policy(c.Sampling), Rate: c.Rate, Lot: c.Lot, Records: n}
	if c.Sampling == sample.PolicyPoisson {
		if sampling.Rate == 0 {
			sampling.Rate = float64(c.Lot) / float64(n)
		}
		sampling.Lot = 0
	}
	return accountant.Plan{Sampling: sampling, Steps: c.Steps, Noise: c.Noise, Adjacency: engine.Adjacency(c.Sampling)}
}

// history is the ledger that the run will leave: its lots, and what is released
// beside them.
func (j *job) history() accountant.History {
	h := j.plan().History()
	beside := func(group string, sampling accountant.Sampling, noise float64) {
		h.Spent = append(h.Spent, accountant.Spent{Count: 1, Lot: accountant.Lot{Sampling: sampling, Queries: []accountant.Query{
			{Group: group, Mechanism: accountant.Gaussian, Sensitivity: 1, Noise: noise}}}})
	}
	if j.config.Projection.Directions > 0 {
		beside("second moments", j.everyone(), j.config.Projection.Noise)
	}
	if j.config.Validation.Set != nil {
		beside("validation accuracy", j.validationSampling(), j.config.Validation.Noise)
	}
	return h
}

// calibrate finds the noise with which all that is released costs the budget.
func (j *job) calibrate() (float64, error) {
	c, budget := &j.config, j.set.epsilon
	low, err := accountant.CalibrateNoise(j.plan(), budget, c.Delta, c.Accountant)
	if err != nil || c.Validation.Set == nil && c.Projection.Directions == 0 {
		return low, err
	}
	over := func(z float64) (bool, error) {
		c.Noise = z
		a, err := accountant.Epsilon(j.history(), c.Delta, c.Accountant)
		return a.Bound() > budget, err
	}
	high := low
	for {
		above, err := over(high)
		if err != nil {
			return 0, err
		}
		if !above {
			break
		}
		if low, high = high, high*1.1; high > 1e6 {
			return 0, fmt.Errorf("%w: what is released beside the lots costs it alone; give a larger --validation-noise or --project-noise", engine.ErrBudget)
		}
	}
	for high > low*(1+1e-4) {
		middle := (low + high) / 2
		above, err := over(middle)
		if err != nil {
			return 0, err
		}
		if above {
			low = middle
		} else {
			high = middle
		}
	}
	return high, nil
}

// hide fixes the noise on what is released beside the lots, given the budget; 0 where
// the run has none but what its lots cost.
func (j *job) hide(budget float64) error {
	if err := j.hideProjection(budget); err != nil {
		return err
	}
	return j.hideValidation(budget)
}

// alone is the noise with which one release of sensitivity 1 costs a share of the
// budget by itself.
func (j *job) alone(share, budget float64, sampling accountant.Sampling) (float64, error) {
	c := &j.config
	if budget == 0 {
		lots, err := accountant.Epsilon(j.plan().History(), c.Delta, c.Accountant)
		if err != nil {
			return 0, err
		}
		budget = lots.Bound()
	}
	one := accountant.Plan{Sampling: sampling, Steps: 1, Adjacency: engine.Adjacency(c.Sampling)}
	return accountant.CalibrateNoise(one, share*budget, c.Delta, c.Accountant)
}

// extend gives a resumed run the lots that a new budget allows.
func (j *job) extend() error {
	budget := j.set.extended
	if budget == 0 {
		return nil
	}
	j.config.StopAtEpsilon = budget
	steps, err := engine.Extended(j.config)
	if err != nil {
		return fmt.Errorf("--epsilon %v: %w", budget, err)
	}
	j.config.Steps = steps
	return nil
}

// hold makes a budget bind even where a crash cost lots that the plan did not
// know of.
func (j *job) hold(epsilon float64) {
	if j.config.StopAtEpsilon == 0 || epsilon < j.config.StopAtEpsilon {
		j.config.StopAtEpsilon = epsilon
	}
}
