package engine

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/device/plan"
)

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

// maxSlots bounds the memory of an optimizer.
const maxSlots = 64

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

// learningRate returns the learning rate of a lot, of a run of steps.
func (o *Optimization) learningRate(lot, steps int, e sample.Event) float64 {
	if o.LearningRateAt != nil {
		return o.LearningRateAt(lot)
	}
	return o.Schedule.Rate(lot+1, e.LotsPerEpoch(), steps)
}

// paramGroups returns the factors of each parameter's learning rate and weight decay; nil where
// all are 1.
func (o *Optimization) paramGroups(parameters []plan.Parameter) ([]plan.RateFactors, error) {
	if o.LearningRateMultiplier == nil && o.WeightDecayMultiplier == nil {
		return nil, nil
	}
	groups := make([]plan.RateFactors, len(parameters))
	for i, p := range parameters {
		g := plan.RateFactors{RateMultiplier: 1, DecayMultiplier: 1}
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
