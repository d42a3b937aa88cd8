package optim

import (
	"fmt"
	"math"
)

// AdamBC is Adam with the variance of the noise subtracted from its second moment (Tang,
// Shpilevskiy and Lécuyer 2024, "DP-AdamBC: Your DP-Adam Is Actually DP-SGD (Unless You Apply
// Bias Correction)", algorithm 1). The noise adds its variance Φ to the expectation of every
// squared gradient. Where Φ is much larger than the squares, Adam divides all elements by
// nearly the same number, √Φ. With weight w, released gradient g, learning rate η, step t and
// Φ = NoiseDeviation²:
//
//	m ← Beta1·m + (1−Beta1)·g,  v ← Beta2·v + (1−Beta2)·g²
//	w ← w − η · m/(1−Beta1^t) / √max(v/(1−Beta2^t) − Φ, Floor)
//
// Φ follows from the noise multiplier, the clip bound and the expected lot size, which are
// public; it is that of the parameter's group, and of the lot where the noise has a schedule.
// The average of Φ over the lots with the weights of v is the same as long as the noise is.
type AdamBC struct {
	Beta1, Beta2 float64
	Floor        float64 // γ' in the paper: the smallest corrected second moment, in units of the squared gradient
}

// defaultAdamBC has Adam's decays. The paper tunes the floor for each task, in a range that
// contains 5e-8.
var defaultAdamBC = AdamBC{Beta1: 0.9, Beta2: 0.999, Floor: 5e-8}

// Slots is 2: m and v.
func (a AdamBC) Slots() int { return 2 }

// Describe identifies the rule with its hyperparameters.
func (a AdamBC) Describe() string { return fmt.Sprintf("adambc%+v", a) }

// Check returns an error if a hyperparameter is out of range.
func (a AdamBC) Check() error {
	for _, b := range []option{{optionBeta1, &a.Beta1}, {optionBeta2, &a.Beta2}} {
		if !(*b.value >= 0 && *b.value < 1) {
			return fmt.Errorf("optim: adambc: %s is %v; use a number from 0 to less than 1", b.name, *b.value)
		}
	}
	if !(a.Floor > 0) || math.IsInf(a.Floor, 1) {
		return fmt.Errorf("optim: adambc: %s is %v; use a positive number such as %v, because the corrected second moment can be negative", optionFloor, a.Floor, defaultAdamBC.Floor)
	}
	return nil
}

// Update performs one step.
func (a AdamBC) Update(s Step, weights, gradient []float32, state [][]float32) error {
	if err := checkState(nameAdamBC, a.Slots(), s, weights, gradient, state); err != nil {
		return err
	}
	keep1, take1 := float32(a.Beta1), float32(1-a.Beta1)
	keep2, take2 := float32(a.Beta2), float32(1-a.Beta2)
	rate := s.Rate / (1 - math.Pow(a.Beta1, float64(s.Number)))
	bias2 := 1 - math.Pow(a.Beta2, float64(s.Number))
	variance := s.NoiseDeviation * s.NoiseDeviation
	m, v := state[0], state[1]
	for i, g := range gradient {
		m[i] = keep1*m[i] + take1*g
		v[i] = keep2*v[i] + take2*g*g
		second := max(float64(v[i])/bias2-variance, a.Floor)
		weights[i] -= float32(rate * float64(m[i]) / math.Sqrt(second))
	}
	return nil
}
