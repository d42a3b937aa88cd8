package main

import (
	"fmt"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine"
)

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
func (j *job) alone(share, budget float64, sampling ledger.Sampling) (float64, error) {
	c := &j.config
	if budget == 0 {
		alone := *c
		alone.Projection, alone.Validation = engine.Projection{}, engine.Validation{}
		lots, err := accountant.Epsilon(engine.PlannedHistory(alone), c.Budget.Delta, c.Budget.Accountant)
		if err != nil {
			return 0, err
		}
		budget = lots.UpperBound()
	}
	one := accountant.Plan{Sampling: sampling, Steps: 1, Adjacency: engine.Adjacency(c.Sampling.Policy)}
	return accountant.CalibrateNoise(one, share*budget, c.Budget.Delta, c.Budget.Accountant)
}

// extend gives a resumed run the lots that a new budget allows.
func (j *job) extend() error {
	budget := j.set.extended
	if budget == 0 {
		return nil
	}
	j.config.Budget.StopAtEpsilon = budget
	steps, err := engine.AffordableSteps(j.config)
	if err != nil {
		return fmt.Errorf("--epsilon %v: %w", budget, err)
	}
	j.config.Steps = steps
	return nil
}

// hold makes a budget bind even where a crash cost lots that the plan did not
// know of.
func (j *job) hold(epsilon float64) {
	if j.config.Budget.StopAtEpsilon == 0 || epsilon < j.config.Budget.StopAtEpsilon {
		j.config.Budget.StopAtEpsilon = epsilon
	}
}
