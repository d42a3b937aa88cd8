package optim

import (
	"fmt"

	"github.com/dptrain/dptrain/internal/device/plan"
)

// Average is an exponential moving average of weights. It often gives better predictions
// than the noisy weights. After step t the average is
//
//	Σ_s Decay^(t−s)·w_s / Σ_s Decay^(t−s),  s = 1 … t
//
// so it does not depend on its initial value (this is Adam's bias correction).
type Average struct{ Decay float64 }

// Check returns an error if the decay is out of range.
func (a Average) Check() error {
	if !(a.Decay >= 0 && a.Decay < 1) {
		return fmt.Errorf("optim: the decay of the average is %v; use a number from 0 to less than 1, such as 0.999", a.Decay)
	}
	return nil
}

// ForDevice converts the average to the form that devices read.
func (a Average) ForDevice() plan.Average { return plan.Average{Decay: a.Decay} }

// Weight is the share of the new weights in the average after step t:
// (1 − Decay)/(1 − Decay^t). It is 1 at the first step.
func (a Average) Weight(step int) float64 { return a.ForDevice().Weight(step) }

// Apply updates the average of a block of coordinates with their weights after a step.
// Steps are numbered from 1. The content of average before the first step has no
// effect.
func (a Average) Apply(step int, average, weights []float32) error {
	return a.ForDevice().Apply(step, average, weights)
}
