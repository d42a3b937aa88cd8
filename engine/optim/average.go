package optim

import (
	"fmt"

	"github.com/dptrain/dptrain/internal/plan"
)

// Average is an exponential moving average of weights, often better to evaluate
// than the noisy weights themselves. After step t the average is
//
//	Σ_s Decay^(t−s)·w_s / Σ_s Decay^(t−s),  s = 1 … t
//
// so it owes nothing to where it starts (Adam's bias correction).
type Average struct{ Decay float64 }

// Check finds a decay that makes no sense.
func (a Average) Check() error {
	if !(a.Decay >= 0 && a.Decay < 1) {
		return fmt.Errorf("optim: the average keeps %v of itself, want a number from 0 to below 1 such as 0.999", a.Decay)
	}
	return nil
}

// ForDevice is the description of the average that devices compute with.
func (a Average) ForDevice() plan.Average { return plan.Average{Decay: a.Decay} }

// Weight is how far step t moves the average towards the weights:
// (1 − Decay)/(1 − Decay^t), which is 1 at the first step.
func (a Average) Weight(step int) float64 { return a.ForDevice().Weight(step) }

// Apply moves the average of a block of coordinates by their weights after a
// step. Steps are numbered from 1; what the average holds before the first is
// forgotten.
func (a Average) Apply(step int, average, weights []float32) error {
	return a.ForDevice().Apply(step, average, weights)
}
