package optim

import "math"

// WeightNoise is how far the noise in released gradients moves a weight.
type WeightNoise struct {
	All  float64 // standard deviation caused by the noise of all steps together
	Last float64 // by the noise of the last step alone
	// IsBound reports that the figures are approximate upper bounds, and not standard deviations.
	IsBound bool
}

// NoiseInWeights computes how far the noise of the gradients moves a weight, or its average, after
// the last step. Every step has independent noise of the same standard deviation. rates has the
// learning rate of each step. ok is false for a rule for which this is not known.
//
// It follows the noise itself through the optimizer, and leaves out that the weights which it moved
// change later gradients. Where these gradients pull weights back, as those of a convex loss do, less
// noise remains.
//
// sgd, momentum and nesterov, with weight decay, are linear in the gradients, and so is the average:
// the result is exact. adam and adamw divide by the root of the mean squared gradient. The mean
// squared gradient contains the variance of the noise, so on average it is at least that, and the
// result for a division by exactly the noise's standard deviation is approximately an upper bound.
func NoiseInWeights(r Rule, average Average, rates []float64, deviation float64) (n WeightNoise, ok bool) {
	o, isOptimizer := r.(Optimizer)
	if !isOptimizer || len(rates) == 0 {
		return n, false
	}
	switch o.Kind {
	case KindSGD, KindMomentum, KindNesterov:
	case KindAdam, KindAdamW:
		n.IsBound = true
	default:
		return n, false
	}
	// The derivatives of the result with respect to the weight, the slot m and the average after a
	// step, computed backwards.
	a := adjoint{weight: 1}
	if average.Decay > 0 {
		a = adjoint{average: 1}
	}
	squares := 0.0
	for step := len(rates); step >= 1; step-- {
		if average.Decay > 0 {
			share := average.Weight(step)
			a.weight += share * a.average
			a.average *= 1 - share
		}
		response := a.stepBack(o, rates[step-1], step, deviation) * deviation
		if squares += response * response; step == len(rates) {
			n.Last = math.Abs(response)
		}
	}
	n.All = math.Sqrt(squares)
	return n, true
}

// adjoint contains derivatives of the result.
type adjoint struct{ weight, slot, average float64 }

// stepBack moves the derivatives from after a step to before it, and returns the derivative with
// respect to the step's gradient.
func (a *adjoint) stepBack(o Optimizer, rate float64, step int, deviation float64) (gradient float64) {
	decay := o.WeightDecay
	switch o.Kind {
	case KindSGD:
		gradient = -rate * a.weight
	case KindMomentum:
		slot := a.slot - rate*a.weight
		gradient, a.slot = slot, o.Momentum*slot
	case KindNesterov:
		slot := a.slot - rate*o.Momentum*a.weight
		gradient, a.slot = slot-rate*a.weight, o.Momentum*slot
	case KindAdam, KindAdamW:
		slot := a.slot - rate/(1-math.Pow(o.Beta1, float64(step)))/(deviation+o.Epsilon)*a.weight
		gradient, a.slot = (1-o.Beta1)*slot, o.Beta1*slot
		if o.Kind == KindAdamW { // the weight decays apart from the gradient
			a.weight *= 1 - rate*o.WeightDecay
			decay = 0
		}
	}
	a.weight += decay * gradient
	return gradient
}
