package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/engine"
)

// chooseShare is what the validation that runs are compared by may cost alone, of
// one run's ε. Composed with the lots it adds about a thirtieth to their noise.
const chooseShare = 0.25

// candidates are the settings to choose among, accounted as a choice is.
func (s *settings) candidates(base *job, trials int) ([]*job, error) {
	list := make([]*job, trials)
	for i := range list {
		v := s.variant(i, base)
		v.accountant = "rdp"
		v.forgetNoise()
		one := *base
		one.validationShare = chooseShare
		var err error
		if list[i], err = one.with(v); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// share gives every setting the same ε, as much as the budget for all of them
// allows, and states what they release.
func (p *selection) share(settings []*job) (accountant.Guarantee, error) {
	var answer accountant.Guarantee
	cost := func(each float64) (float64, error) {
		p.Candidates = p.Candidates[:0]
		for _, j := range settings {
			if err := j.recalibrate(each); err != nil {
				return 0, err
			}
			h := engine.PlannedHistory(j.config)
			p.Unit, p.Records, p.Adjacency = j.config.Records.Unit(), h.Header.Records, h.Header.Adjacency
			p.Candidates = append(p.Candidates, candidate{j.flags(), spentOf(h)})
		}
		var err error
		answer, err = p.accounted().Epsilon(p.Delta)
		return answer.Epsilon, err
	}
	// All runs together cost more than one, and less than so much more. A share that
	// is too small for the noise that is given hides nothing more by being smaller.
	low, high := p.Budget/64, p.Budget
	for high > low*1.005 {
		middle := math.Sqrt(low * high)
		all, err := cost(middle)
		switch {
		case err == nil && all > p.Budget:
			high = middle
		case err == nil || errors.Is(err, engine.ErrBudget):
			low = middle
		default:
			return answer, err
		}
	}
	all, err := cost(low)
	if err == nil && all > p.Budget {
		err = fmt.Errorf("%w: a choice costs ε = %.4g even where one run's is %.4g; raise the budget or δ, or lower --trials", engine.ErrBudget, all, low)
	}
	return answer, err
}

// recalibrate fixes the noise anew, for a budget of one run.
func (j *job) recalibrate(epsilon float64) error {
	j.set.forgetNoise()
	j.set.epsilon = epsilon
	if err := j.hide(epsilon); err != nil {
		return err
	}
	var err error
	j.config.Mechanism.NoiseMultiplier, err = engine.CalibrateNoise(j.config, j.set.epsilon)
	j.config.Budget.StopAtEpsilon = 0
	return err
}

// forgetNoise leaves the noise on what is released beside the lots to be worked out
// again, where it was not given.
func (s *settings) forgetNoise() {
	for _, name := range []string{"validation-noise", "project-noise"} {
		if !s.cmd.Flags().Changed(name) {
			delete(s.given, name)
		}
	}
}
