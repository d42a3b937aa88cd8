package optim

import (
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/internal/device/plan"
)

// Kind is the name of an optimizer.
type Kind string

// The optimizers.
const (
	KindSGD      Kind = Kind(plan.SGD)
	KindMomentum Kind = Kind(plan.Momentum)
	KindNesterov Kind = Kind(plan.Nesterov)
	KindAdam     Kind = Kind(plan.Adam)
	KindAdamW    Kind = Kind(plan.AdamW)
	KindRMSProp  Kind = Kind(plan.RMSProp)
	KindAdagrad  Kind = Kind(plan.Adagrad)
)

// Optimizer is an optimizer with its hyperparameters. The zero value of a hyperparameter is
// not a default: [Parse] returns a kind with PyTorch's defaults. The hyperparameters that
// the kind does not use must be 0. With weight w, its gradient g, learning rate η and step
// t (from 1):
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
	Beta1       float64 // adam, adamw: decay of the mean gradient
	Beta2       float64 // adam, adamw, rmsprop: decay of the mean squared gradient
	Epsilon     float64 // adam, adamw, rmsprop, adagrad
	WeightDecay float64
}

// defaults lists every optimizer with its default hyperparameters.
var defaults = []Optimizer{
	{Kind: KindSGD},
	{Kind: KindMomentum, Momentum: 0.9},
	{Kind: KindNesterov, Momentum: 0.9},
	{Kind: KindAdam, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8},
	{Kind: KindAdamW, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, WeightDecay: 0.01},
	{Kind: KindRMSProp, Beta2: 0.99, Epsilon: 1e-8},
	{Kind: KindAdagrad, Epsilon: 1e-10},
}

// Kinds lists the names of all optimizers.
func Kinds() []string {
	names := make([]string, len(defaults))
	for i, o := range defaults {
		names[i] = string(o.Kind)
	}
	return names
}

// ForDevice converts the optimizer to the form that devices read.
func (o Optimizer) ForDevice() plan.Optimizer {
	return plan.Optimizer{
		Kind: plan.OptimizerKind(o.Kind), Momentum: o.Momentum, Beta1: o.Beta1, Beta2: o.Beta2,
		Epsilon: o.Epsilon, WeightDecay: o.WeightDecay,
	}
}

// Slots is the number of state values for each weight. They start at 0.
func (o Optimizer) Slots() int { return o.ForDevice().Slots() }

// Check returns an error if a hyperparameter is out of range or not used by the kind.
func (o Optimizer) Check() error {
	if _, err := defaultOf(string(o.Kind)); err != nil {
		return err
	}
	used := o.options()
	for _, p := range []option{{optionMomentum, &o.Momentum}, {optionBeta1, &o.Beta1}, {optionBeta2, &o.Beta2},
		{optionEpsilon, &o.Epsilon}} {
		known := slices.ContainsFunc(used, func(u option) bool { return u.name == p.name })
		if *p.value != 0 && !known {
			return fmt.Errorf("optim: %s does not use %s, which is %v; set it to 0 or choose a Kind that uses it", o.Kind, p.name, *p.value)
		}
	}
	for _, p := range used {
		x, limit := *p.value, 1.0
		if p.name == optionEpsilon || p.name == optionDecay {
			limit = math.Inf(1)
		}
		if !(x >= 0 && x < limit) {
			return fmt.Errorf("optim: %s: %s is %v; use a number from 0 to less than %v", o.Kind, p.name, x, limit)
		}
		if p.name == optionEpsilon && float32(x) == 0 {
			return fmt.Errorf("optim: %s: %s is %v; use a positive number such as the default of Parse, 1e-8, because a zero gradient would divide by zero", o.Kind, p.name, x)
		}
		if p.name == optionMomentum && float32(x) == 0 {
			return fmt.Errorf("optim: %s: %s is %v, which is sgd; use a number such as the default of Parse, 0.9", o.Kind, p.name, x)
		}
	}
	return nil
}

// Apply performs one step on a block of coordinates: state[s] contains slot s of the same
// coordinates. Steps are numbered from 1. The result does not depend on the division into
// blocks.
func (o Optimizer) Apply(step int, rate float64, weights, gradient []float32, state [][]float32) error {
	return o.ForDevice().Apply(step, rate, weights, gradient, state)
}
