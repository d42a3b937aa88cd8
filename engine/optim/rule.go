package optim

import "fmt"

// Rule is an optimizer: it turns the released gradient of a parameter into new weights. A
// program can use one of its own as Optimization.Optimizer of package engine. [Optimizer] is
// the rule that devices compute in one pass with the noise. Every other rule runs on the host
// after the release, on every device: the device hands over the gradient and gets the weights
// back.
//
// A rule costs no privacy, because it gets released values and public numbers only: the sum of
// clipped gradients with its noise, divided by the public expected lot size, and what follows
// from earlier releases. Everything that it computes is post-processing (Dwork and Roth 2014,
// proposition 2.1). This requires that the rule reads no private data by other means.
type Rule interface {
	// Slots is the number of state values for each weight. They start at 0, and are all of
	// the state that a checkpoint contains. A rule must have no other state: what depends on
	// time follows from [Step].
	Slots() int
	// Check returns an error if a hyperparameter is out of range.
	Check() error
	// Describe identifies the rule with all its hyperparameters. A run is resumed only with
	// a rule that has the same description.
	Describe() string
	// Update performs one step of a whole parameter: state[s] contains slot s of its weights.
	// It may overwrite the gradient. It must not allocate, because it runs in every lot.
	Update(s Step, weights, gradient []float32, state [][]float32) error
}

// Step is what a rule knows about a step of a parameter besides its values. All of it is
// public.
type Step struct {
	Number          int     // from 1
	Rate            float64 // learning rate, with the parameter's multiplier
	DecayMultiplier float64 // of the parameter's weight decay; 1 unless the run sets another
	NoiseDeviation  float64 // standard deviation of the noise in each element of the gradient; 0 where the run is not private
}

// Extrapolator is a Rule that computes gradients at another point than the weights that it
// produces. Its weights are the point of the next gradient. The run releases, evaluates and
// averages the result.
type Extrapolator interface {
	Rule
	// Result returns the weights that the rule produces, after the first step: one of the slots.
	Result(state [][]float32) []float32
}

// Describe identifies the optimizer with its hyperparameters.
func (o Optimizer) Describe() string { return fmt.Sprintf("%+v", o) }

// Update is Apply with the parameter's multiplier of the weight decay.
func (o Optimizer) Update(s Step, weights, gradient []float32, state [][]float32) error {
	o.WeightDecay *= s.DecayMultiplier
	return o.Apply(s.Number, s.Rate, weights, gradient, state)
}

// checkState returns an error unless the slices of a rule's step fit each other.
func checkState(name string, slots int, s Step, weights, gradient []float32, state [][]float32) error {
	if s.Number < 1 {
		return fmt.Errorf("optim: step %d; steps are numbered from 1", s.Number)
	}
	if len(gradient) != len(weights) {
		return fmt.Errorf("optim: %d gradients for %d weights", len(gradient), len(weights))
	}
	if len(state) != slots {
		return fmt.Errorf("optim: %s needs %d state values per weight, got %d", name, slots, len(state))
	}
	for _, slot := range state {
		if len(slot) != len(weights) {
			return fmt.Errorf("optim: state of %d values for %d weights", len(slot), len(weights))
		}
	}
	return nil
}

// WeightDecay returns the weight decay of a rule of this package; 0 where it has none.
func WeightDecay(r Rule) float64 {
	switch r := r.(type) {
	case Optimizer:
		return r.WeightDecay
	case LowPass:
		return r.Base.WeightDecay
	case DiSK:
		return r.Base.WeightDecay
	}
	return 0
}
