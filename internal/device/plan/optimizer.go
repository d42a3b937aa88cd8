package plan

import (
	"fmt"
	"math"
)

// OptimizerKind names an optimiser.
type OptimizerKind string

// The optimisers that every device implements.
const (
	SGD      OptimizerKind = "sgd"
	Momentum OptimizerKind = "momentum"
	Nesterov OptimizerKind = "nesterov"
	Adam     OptimizerKind = "adam"
	AdamW    OptimizerKind = "adamw"
	RMSProp  OptimizerKind = "rmsprop"
	Adagrad  OptimizerKind = "adagrad"
)

// Optimizer describes an optimiser to a device: its kind and the hyper-parameters that
// the kind uses; the others are 0. The formulas are documented in package engine/optim,
// which makes these descriptions. [Optimizer.Apply] is the reference of every device.
type Optimizer struct {
	Kind        OptimizerKind
	Momentum    float64
	Beta1       float64
	Beta2       float64
	Epsilon     float64
	WeightDecay float64
}

// Slots is the number of state values that the optimiser keeps for each weight.
// They start at 0.
func (o Optimizer) Slots() int {
	switch o.Kind {
	case Momentum, Nesterov, RMSProp, Adagrad:
		return 1
	case Adam, AdamW:
		return 2
	}
	return 0
}

// Apply runs one step on a block of weights: state[s] contains slot s of the same
// weights. Steps are numbered from 1. The result does not depend on how the weights
// are cut into blocks.
func (o Optimizer) Apply(step int, rate float64, weights, gradient []float32, state [][]float32) error {
	if err := o.checkBlock(step, weights, gradient, state); err != nil {
		return err
	}
	decay := float32(o.WeightDecay)
	lr := float32(rate)
	switch o.Kind {
	case SGD:
		for i, w := range weights {
			weights[i] = w - lr*(gradient[i]+decay*w)
		}
	case Momentum:
		mu, m := float32(o.Momentum), state[0]
		for i, w := range weights {
			m[i] = mu*m[i] + (gradient[i] + decay*w)
			weights[i] = w - lr*m[i]
		}
	case Nesterov:
		mu, m := float32(o.Momentum), state[0]
		for i, w := range weights {
			g := gradient[i] + decay*w
			m[i] = mu*m[i] + g
			weights[i] = w - lr*(g+mu*m[i])
		}
	case Adam:
		o.adam(step, rate, weights, gradient, state, adamDecay{decay, 1})
	case AdamW:
		o.adam(step, rate, weights, gradient, state, adamDecay{0, float32(1 - rate*o.WeightDecay)})
	case RMSProp:
		keep, take, eps, v := float32(o.Beta2), float32(1-o.Beta2), float32(o.Epsilon), state[0]
		for i, w := range weights {
			g := gradient[i] + decay*w
			v[i] = keep*v[i] + take*g*g
			weights[i] = w - lr*(g/(sqrt(v[i])+eps))
		}
	case Adagrad:
		eps, v := float32(o.Epsilon), state[0]
		for i, w := range weights {
			g := gradient[i] + decay*w
			v[i] += g * g
			weights[i] = w - lr*(g/(sqrt(v[i])+eps))
		}
	default:
		return fmt.Errorf("optim: unknown optimizer %q; optim.Kinds lists the known ones", o.Kind)
	}
	return nil
}

// adamDecay is weight decay: Adam adds gradient·w to the gradient; AdamW multiplies the weight by weight
// first.
type adamDecay struct{ gradient, weight float32 }

// adam runs a step of Adam.
func (o Optimizer) adam(step int, rate float64, weights, gradient []float32, state [][]float32, decay adamDecay) {
	keep1, take1 := float32(o.Beta1), float32(1-o.Beta1)
	keep2, take2 := float32(o.Beta2), float32(1-o.Beta2)
	rate1 := float32(rate / (1 - math.Pow(o.Beta1, float64(step))))
	root2 := float32(1 / math.Sqrt(1-math.Pow(o.Beta2, float64(step))))
	eps := float32(o.Epsilon)
	m, v := state[0], state[1]
	for i, w := range weights {
		g := gradient[i] + decay.gradient*w
		m[i] = keep1*m[i] + take1*g
		v[i] = keep2*v[i] + take2*g*g
		weights[i] = w*decay.weight - rate1*(m[i]/(sqrt(v[i])*root2+eps))
	}
}

func sqrt(x float32) float32 { return float32(math.Sqrt(float64(x))) }

func (o Optimizer) checkBlock(step int, weights, gradient []float32, state [][]float32) error {
	if step < 1 {
		return fmt.Errorf("optim: step %d; steps are numbered from 1", step)
	}
	if len(gradient) != len(weights) {
		return fmt.Errorf("optim: %d gradients for %d weights", len(gradient), len(weights))
	}
	if len(state) != o.Slots() {
		return fmt.Errorf("optim: %s needs %d state values per weight, got %d", o.Kind, o.Slots(), len(state))
	}
	for _, slot := range state {
		if len(slot) != len(weights) {
			return fmt.Errorf("optim: state of %d values for %d weights", len(slot), len(weights))
		}
	}
	return nil
}

// Average describes an exponential moving average of the weights, documented in
// package engine/optim. A Decay of 0 means that no average is kept.
type Average struct{ Decay float64 }

// Weight is how far step t moves the average towards the weights:
// (1 − Decay)/(1 − Decay^t), which is 1 at the first step.
func (a Average) Weight(step int) float64 {
	return (1 - a.Decay) / (1 - math.Pow(a.Decay, float64(step)))
}

// Apply moves the average of a block of weights after a step. Steps are numbered from 1.
// The first step overwrites what the average contained.
func (a Average) Apply(step int, average, weights []float32) error {
	if step < 1 {
		return fmt.Errorf("optim: step %d; steps are numbered from 1", step)
	}
	if len(average) != len(weights) {
		return fmt.Errorf("optim: an average of %d values for %d weights", len(average), len(weights))
	}
	if step == 1 {
		copy(average, weights)
		return nil
	}
	k := float32(a.Weight(step))
	for i, w := range weights {
		average[i] += k * (w - average[i])
	}
	return nil
}
