package optim

import (
	"fmt"
	"math"
	"slices"
)

// Kind names an optimiser.
type Kind string

const (
	KindSGD      Kind = "sgd"
	KindMomentum Kind = "momentum"
	KindNesterov Kind = "nesterov"
	KindAdam     Kind = "adam"
	KindAdamW    Kind = "adamw"
	KindRMSProp  Kind = "rmsprop"
	KindAdagrad  Kind = "adagrad"
)

// Optimizer is an optimiser and its hyper-parameters, none of which has a default
// here: [Parse] gives a kind with PyTorch's. Those that its kind does not use must be
// 0. With w the weight, g its gradient, η the learning rate and t the
// step, from 1:
//
//	all but adamw   g ← g + WeightDecay·w
//	sgd             w ← w − η·g
//	momentum        m ← Momentum·m + g,  w ← w − η·m
//	nesterov        m ← Momentum·m + g,  w ← w − η·(g + Momentum·m)
//	adam            m ← Beta1·m + (1−Beta1)·g,  v ← Beta2·v + (1−Beta2)·g²
//	                w ← w − η/(1−Beta1^t) · m / (√v/√(1−Beta2^t) + Epsilon)
//	adamw           w ← w − η·WeightDecay·w, then as adam
//	rmsprop         v ← Beta2·v + (1−Beta2)·g²,  w ← w − η·g/(√v + Epsilon)
//	adagrad         v ← v + g²,  w ← w − η·g/(√v + Epsilon)
//
// m and v start at 0.
type Optimizer struct {
	Kind        Kind
	Momentum    float64 // momentum, nesterov
	Beta1       float64 // adam, adamw: how much of the mean gradient is kept
	Beta2       float64 // adam, adamw, rmsprop: how much of the mean square is kept
	Epsilon     float64 // adam, adamw, rmsprop, adagrad
	WeightDecay float64
}

// defaults lists every optimiser as it is without options.
var defaults = []Optimizer{
	{Kind: KindSGD},
	{Kind: KindMomentum, Momentum: 0.9},
	{Kind: KindNesterov, Momentum: 0.9},
	{Kind: KindAdam, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8},
	{Kind: KindAdamW, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, WeightDecay: 0.01},
	{Kind: KindRMSProp, Beta2: 0.99, Epsilon: 1e-8},
	{Kind: KindAdagrad, Epsilon: 1e-10},
}

// Kinds are the names of all optimisers.
func Kinds() []string {
	names := make([]string, len(defaults))
	for i, o := range defaults {
		names[i] = string(o.Kind)
	}
	return names
}

// Slots is the number of state values that each weight needs, at first 0.
func (o Optimizer) Slots() int {
	switch o.Kind {
	case KindMomentum, KindNesterov, KindRMSProp, KindAdagrad:
		return 1
	case KindAdam, KindAdamW:
		return 2
	}
	return 0
}

// Check finds hyper-parameters that make no sense.
func (o Optimizer) Check() error {
	if _, err := defaultOf(string(o.Kind)); err != nil {
		return err
	}
	used := o.options()
	for _, p := range []option{{optionMomentum, &o.Momentum}, {optionBeta1, &o.Beta1}, {optionBeta2, &o.Beta2}, {optionEpsilon, &o.Epsilon}} {
		known := slices.ContainsFunc(used, func(u option) bool { return u.name == p.name })
		if *p.value != 0 && !known {
			return fmt.Errorf("optim: %s has no %s, and %v was given: leave it 0, or choose a Kind that has it", o.Kind, p.name, *p.value)
		}
	}
	for _, p := range used {
		x, limit := *p.value, 1.0
		if p.name == optionEpsilon || p.name == optionDecay {
			limit = math.Inf(1)
		}
		if !(x >= 0 && x < limit) {
			return fmt.Errorf("optim: %s: %s is %v, want a number from 0 to below %v", o.Kind, p.name, x, limit)
		}
		if p.name == optionEpsilon && float32(x) == 0 {
			return fmt.Errorf("optim: %s: %s is %v, want a positive number such as 1e-8, as Parse gives; without it a zero gradient divides by zero", o.Kind, p.name, x)
		}
		if p.name == optionMomentum && float32(x) == 0 {
			return fmt.Errorf("optim: %s: %s is %v, which is sgd: want a number such as 0.9, as Parse gives", o.Kind, p.name, x)
		}
	}
	return nil
}

// Apply is one step on a block of coordinates: state[s] holds slot s of the same
// coordinates. Steps are numbered from 1. Which coordinates share a block changes
// nothing.
func (o Optimizer) Apply(step int, rate float64, weights, gradient []float32, state [][]float32) error {
	if err := o.checkShapes(step, weights, gradient, state); err != nil {
		return err
	}
	decay := float32(o.WeightDecay)
	lr := float32(rate)
	switch o.Kind {
	case KindSGD:
		for i, w := range weights {
			weights[i] = w - lr*(gradient[i]+decay*w)
		}
	case KindMomentum:
		mu, m := float32(o.Momentum), state[0]
		for i, w := range weights {
			m[i] = mu*m[i] + (gradient[i] + decay*w)
			weights[i] = w - lr*m[i]
		}
	case KindNesterov:
		mu, m := float32(o.Momentum), state[0]
		for i, w := range weights {
			g := gradient[i] + decay*w
			m[i] = mu*m[i] + g
			weights[i] = w - lr*(g+mu*m[i])
		}
	case KindAdam:
		o.adam(step, rate, weights, gradient, state, decay, 1)
	case KindAdamW:
		o.adam(step, rate, weights, gradient, state, 0, float32(1-rate*o.WeightDecay))
	case KindRMSProp:
		keep, take, eps, v := float32(o.Beta2), float32(1-o.Beta2), float32(o.Epsilon), state[0]
		for i, w := range weights {
			g := gradient[i] + decay*w
			v[i] = keep*v[i] + take*g*g
			weights[i] = w - lr*(g/(sqrt(v[i])+eps))
		}
	case KindAdagrad:
		eps, v := float32(o.Epsilon), state[0]
		for i, w := range weights {
			g := gradient[i] + decay*w
			v[i] += g * g
			weights[i] = w - lr*(g/(sqrt(v[i])+eps))
		}
	default:
		return unknown("optimizer", string(o.Kind), Kinds())
	}
	return nil
}

// adam is Adam with decay in the gradient, or with the weight itself shrunk first.
func (o Optimizer) adam(step int, rate float64, weights, gradient []float32, state [][]float32, decay, shrink float32) {
	keep1, take1 := float32(o.Beta1), float32(1-o.Beta1)
	keep2, take2 := float32(o.Beta2), float32(1-o.Beta2)
	rate1 := float32(rate / (1 - math.Pow(o.Beta1, float64(step))))
	root2 := float32(1 / math.Sqrt(1-math.Pow(o.Beta2, float64(step))))
	eps := float32(o.Epsilon)
	m, v := state[0], state[1]
	for i, w := range weights {
		g := gradient[i] + decay*w
		m[i] = keep1*m[i] + take1*g
		v[i] = keep2*v[i] + take2*g*g
		weights[i] = w*shrink - rate1*(m[i]/(sqrt(v[i])*root2+eps))
	}
}

func sqrt(x float32) float32 { return float32(math.Sqrt(float64(x))) }

func (o Optimizer) checkShapes(step int, weights, gradient []float32, state [][]float32) error {
	if step < 1 {
		return fmt.Errorf("optim: step %d; steps are numbered from 1", step)
	}
	if len(gradient) != len(weights) {
		return fmt.Errorf("optim: %d gradients for %d weights", len(gradient), len(weights))
	}
	if len(state) != o.Slots() {
		return fmt.Errorf("optim: %s keeps %d values a weight, got %d", o.Kind, o.Slots(), len(state))
	}
	for _, slot := range state {
		if len(slot) != len(weights) {
			return fmt.Errorf("optim: state of %d values for %d weights", len(slot), len(weights))
		}
	}
	return nil
}
