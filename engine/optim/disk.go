package optim

import "fmt"

// DiSK estimates the gradient from released gradients by a simplified Kalman filter, and passes
// the estimate to an optimizer (Zhang, Bu, Balle, Hong, Razaviyayn and Mirrokni 2025, "DiSK:
// Differentially Private Optimizer with Simplified Kalman Filter for Noise Reduction").
//
// In the paper, a record contributes the clipped vector
//
//	(1−κ)/(κγ)·∇f(x_t + γ·d_(t−1)) + (1 − (1−κ)/(κγ))·∇f(x_t),  d_(t−1) = x_t − x_(t−1)
//
// This type is the algorithm with γ = (1−κ)/κ, for which the second factor is 0: a record
// contributes its clipped gradient at one point, the extrapolated one. A lot then has the
// sensitivity, the cost in ε and the computation of an ordinary lot, and the rest is
// post-processing: the extrapolated point follows from released weights. Other values of γ,
// with which both gradients of a record are combined before they are clipped, are not
// implemented. With g_t the released gradient at x_t + γ·d_(t−1):
//
//	g̃_1 = g_1,  g̃_t = (1−κ)·g̃_(t−1) + κ·g_t
//	x_(t+1) = the optimizer's step from x_t with g̃_t
//
// The weights of a run with DiSK are the extrapolated point. The run releases and evaluates x.
type DiSK struct {
	Kappa float64   // κ: gain of the filter, above 0 and at most 1; with 1 it is the optimizer alone
	Base  Optimizer // updates the weights from estimated gradients
}

// defaultDiSK has the gain of the authors' code for Opacus.
var defaultDiSK = DiSK{Kappa: 0.7, Base: Optimizer{Kind: KindSGD}}

// Slots is that of the optimizer and 2: x and g̃.
func (d DiSK) Slots() int { return 2 + d.Base.Slots() }

// Describe identifies the rule with its hyperparameters.
func (d DiSK) Describe() string { return fmt.Sprintf("disk{Kappa:%v}+%s", d.Kappa, d.Base.Describe()) }

// Check returns an error if a hyperparameter is out of range.
func (d DiSK) Check() error {
	if !(d.Kappa > 0 && d.Kappa <= 1) {
		return fmt.Errorf("optim: disk: %s is %v; use a number above 0 and at most 1", optionKappa, d.Kappa)
	}
	return d.Base.Check()
}

// Result returns x.
func (d DiSK) Result(state [][]float32) []float32 { return state[0] }

// Update performs one step from x, and sets the weights to the next extrapolated point.
func (d DiSK) Update(s Step, weights, gradient []float32, state [][]float32) error {
	if err := checkState(nameDiSK, d.Slots(), s, weights, gradient, state); err != nil {
		return err
	}
	x, estimate := state[0], state[1]
	if s.Number == 1 {
		copy(x, weights)
		copy(estimate, gradient)
	}
	keep, take := float32(1-d.Kappa), float32(d.Kappa)
	for i, g := range gradient {
		estimate[i] = keep*estimate[i] + take*g
		gradient[i] = estimate[i]
	}
	copy(weights, x)
	if err := d.Base.Update(s, x, gradient, state[2:]); err != nil {
		return err
	}
	gamma := float32((1 - d.Kappa) / d.Kappa)
	for i, old := range weights {
		weights[i] = x[i] + gamma*(x[i]-old)
	}
	return nil
}
