package optim

import (
	"fmt"
	"math"
	"sync"
)

// LowPass passes released gradients through a linear low-pass filter before an optimizer sees
// them (Zhang, Bu, Hong and Razaviyayn 2024, "DOPPLER: Differentially Private Optimizers with
// Low-pass Filter for Privacy Noise Reduction"). Gradients of successive lots resemble each
// other and their noise does not, so that the filter attenuates the noise more. With released
// gradient g of step t, and values of 0 before the first step:
//
//	m_t = −Σ_τ A[τ−1]·m_(t−τ) + Σ_τ B[τ]·g_(t−τ)
//	c_t = −Σ_τ A[τ−1]·c_(t−τ) + Σ_(τ<t) B[τ]
//
// The optimizer gets m_t/c_t. The filter with A = −β and B = 1−β is an exponential moving
// average with Adam's bias correction.
type LowPass struct {
	A    []float64 // recursive coefficients, of m_(t−1), m_(t−2), …
	B    []float64 // coefficients of g_t, g_(t−1), …
	Base Optimizer // updates the weights from filtered gradients

	last *lastGain // nil: c_t is computed for every parameter
}

// lastGain is c_t of the last step: all parameters of a step have the same.
type lastGain struct {
	sync.Mutex
	step int
	gain float64
}

// maxFilterOrder bounds the memory of a filter: one value for each weight and past step.
const maxFilterOrder = 8

// defaultLowPass is the first-order filter with the pole 0.9 and the zero −1, which is a
// first-order Butterworth filter up to a factor.
var defaultLowPass = LowPass{A: []float64{-0.9}, B: []float64{0.05, 0.05}, Base: Optimizer{Kind: KindSGD}}

// Slots is the number of past values of the filter and of slots of the optimizer.
func (l LowPass) Slots() int { return len(l.A) + len(l.B) - 1 + l.Base.Slots() }

// Describe identifies the rule with its hyperparameters.
func (l LowPass) Describe() string {
	return fmt.Sprintf("lowpass{A:%v B:%v}+%s", l.A, l.B, l.Base.Describe())
}

// Check returns an error if a coefficient is not finite, the filter is not stable, or its gain
// c_t can vanish.
func (l LowPass) Check() error {
	if len(l.B) == 0 {
		return fmt.Errorf("optim: lowpass: no coefficient %s; give at least one", optionB)
	}
	if max(len(l.A), len(l.B)-1) > maxFilterOrder {
		return fmt.Errorf("optim: lowpass: a filter of order %d; use at most %d", max(len(l.A), len(l.B)-1), maxFilterOrder)
	}
	for _, x := range append(append([]float64(nil), l.A...), l.B...) {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("optim: lowpass: the coefficient %v is not finite; use numbers", x)
		}
	}
	if !isStable(l.A) {
		return fmt.Errorf("optim: lowpass: with %s = %v the filter is not stable; use a filter whose poles are inside the unit circle", optionA, l.A)
	}
	if g := l.smallestGain(); !(g > 0) {
		return fmt.Errorf("optim: lowpass: the filter has a gain of %.3g for constant gradients after some step; use coefficients with a positive one", g)
	}
	return l.Base.Check()
}

// isStable reports whether all zeros of z^n + a[0]·z^(n−1) + … + a[n−1] are inside the unit
// circle: all reflection coefficients of the step-down recursion are (Schur and Cohn; Oppenheim
// and Schafer, Discrete-Time Signal Processing, section 11.6).
func isStable(a []float64) bool {
	p := append([]float64(nil), a...)
	for n := len(p); n > 0; n-- {
		k := p[n-1]
		if !(math.Abs(k) < 1) {
			return false
		}
		next := make([]float64, n-1)
		for i := range next {
			next[i] = (p[i] - k*p[n-2-i]) / (1 - k*k)
		}
		p = next
	}
	return true
}

// gains calls yield with c_1, c_2, … until they have converged to float64's precision, at most
// for the given number of steps. It allocates nothing.
func (l LowPass) gains(steps int, yield func(c float64)) {
	var past [maxFilterOrder]float64
	unchanged := 0
	for t := 1; t <= steps && unchanged <= maxFilterOrder; t++ {
		c := 0.0
		for i, b := range l.B {
			if i < t {
				c += b
			}
		}
		for i, a := range l.A {
			c -= a * past[i]
		}
		if t > len(l.B) && math.Abs(c-past[0]) <= 1e-15*math.Abs(c) {
			unchanged++
		} else {
			unchanged = 0
		}
		copy(past[1:], past[:maxFilterOrder-1])
		past[0] = c
		yield(c)
	}
}

// gain returns c_t.
func (l LowPass) gain(step int) (gain float64) {
	if l.last != nil {
		l.last.Lock()
		defer l.last.Unlock()
		if l.last.step == step {
			return l.last.gain
		}
	}
	l.gains(step, func(c float64) { gain = c })
	if l.last != nil {
		l.last.step, l.last.gain = step, gain
	}
	return gain
}

// smallestGain returns the smallest c_t of all steps and their limit.
func (l LowPass) smallestGain() float64 {
	b, a := 0.0, 1.0
	for _, x := range l.B {
		b += x
	}
	for _, x := range l.A {
		a += x
	}
	smallest := b / a
	if !(smallest > 0) {
		return smallest
	}
	l.gains(1<<20, func(c float64) { smallest = min(smallest, c) })
	return smallest
}

// Update filters the gradient, and passes the result to the optimizer.
func (l LowPass) Update(s Step, weights, gradient []float32, state [][]float32) error {
	if err := checkState(nameLowPass, l.Slots(), s, weights, gradient, state); err != nil {
		return err
	}
	outputs, inputs := state[:len(l.A)], state[len(l.A):len(l.A)+len(l.B)-1]
	scale := 1 / l.gain(s.Number)
	for i, g := range gradient {
		m := l.B[0] * float64(g)
		for k, b := range l.B[1:] {
			m += b * float64(inputs[k][i])
		}
		for k, a := range l.A {
			m -= a * float64(outputs[k][i])
		}
		shift(inputs, i, g)
		shift(outputs, i, float32(m))
		gradient[i] = float32(m * scale)
	}
	return l.Base.Update(s, weights, gradient, state[len(l.A)+len(l.B)-1:])
}

// shift makes x the newest of the past values of weight i.
func shift(past [][]float32, i int, x float32) {
	for _, slot := range past {
		slot[i], x = x, slot[i]
	}
}
