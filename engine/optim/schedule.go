package optim

import (
	"fmt"
	"math"
)

// Shape is how a learning rate goes over time.
type Shape string

const (
	ShapeConstant Shape = "constant"
	ShapeLinear   Shape = "linear" // to To over the first Over epochs, then flat (Abadi et al. 2016, section 5.2)
	ShapeCosine   Shape = "cosine" // from the end of the warm-up down to 0 at the end of the run (Loshchilov and Hutter 2017)
	ShapeStep     Shape = "step"   // times Factor at each epoch of At
)

// Schedule is a learning rate over time: a shape, and a warm-up over it in which
// the rate rises linearly from Base/Warmup at the first step to the shape's own.
// It is a function of public numbers alone.
type Schedule struct {
	Base   float64 // the rate at first, or after the warm-up
	Shape  Shape
	To     float64   // linear: the rate at its end
	Over   float64   // linear: how many epochs it takes
	Factor float64   // step
	At     []float64 // step: epochs, ascending
	Warmup int       // steps
}

// String says what matters of a schedule.
func (s Schedule) String() string {
	text := fmt.Sprintf("%s %g", s.Shape, s.Base)
	switch s.Shape {
	case ShapeLinear:
		text += fmt.Sprintf(" to %g over %g epochs", s.To, s.Over)
	case ShapeStep:
		text += fmt.Sprintf(" times %g at epochs %v", s.Factor, s.At)
	}
	if s.Warmup > 0 {
		text += fmt.Sprintf(" after %d steps of warm-up", s.Warmup)
	}
	return text
}

// Check finds a schedule that makes no sense.
func (s Schedule) Check() error {
	positive := func(x float64) bool { return x > 0 && !math.IsInf(x, 1) }
	if !positive(s.Base) {
		return fmt.Errorf("optim: learning rate %v, want a positive number", s.Base)
	}
	if s.Warmup < 0 {
		return fmt.Errorf("optim: warm-up of %d steps, want 0 or more", s.Warmup)
	}
	switch s.Shape {
	case ShapeConstant, ShapeCosine:
	case ShapeLinear:
		if !(s.To >= 0) || math.IsInf(s.To, 1) || !positive(s.Over) {
			return fmt.Errorf("optim: linear to %v over %v epochs, want a rate of 0 or more and a positive number of epochs", s.To, s.Over)
		}
	case ShapeStep:
		if !positive(s.Factor) {
			return fmt.Errorf("optim: step by a factor of %v, want a positive number", s.Factor)
		}
		if len(s.At) == 0 {
			return fmt.Errorf("optim: step by a factor of %v at no epoch; name the epochs", s.Factor)
		}
		last := 0.0
		for _, epoch := range s.At {
			if !(epoch > last) || math.IsInf(epoch, 1) {
				return fmt.Errorf("optim: step at epoch %v, want positive epochs in ascending order", epoch)
			}
			last = epoch
		}
	default:
		return unknown("schedule", string(s.Shape), shapes)
	}
	if s.Shape != ShapeLinear && (s.To != 0 || s.Over != 0) || s.Shape != ShapeStep && (s.Factor != 0 || len(s.At) > 0) {
		return fmt.Errorf("optim: a schedule of shape %q was given the numbers of another: To and Over are of %s, Factor and At of %s", s.Shape, ShapeLinear, ShapeStep)
	}
	return nil
}

// Rate is the learning rate of a step. Steps are numbered from 1; the first step
// of epoch e (from 0) is step e·stepsPerEpoch + 1. Total is the number of steps of
// the run, which only the cosine asks for; past it the rate is 0.
func (s Schedule) Rate(step int, stepsPerEpoch float64, total int) float64 {
	done := float64(step - 1)
	epoch := done / stepsPerEpoch
	rate := s.Base
	switch s.Shape {
	case ShapeLinear:
		rate += (s.To - s.Base) * min(1, epoch/s.Over)
	case ShapeCosine:
		if warm := float64(s.Warmup); done >= warm {
			left := 1.0
			if float64(total) > warm {
				left = (done - warm) / (float64(total) - warm)
			}
			rate *= (1 + math.Cos(math.Pi*min(1, left))) / 2
		}
	case ShapeStep:
		for _, at := range s.At {
			if epoch >= at {
				rate *= s.Factor
			}
		}
	}
	if step <= s.Warmup {
		rate *= float64(step) / float64(s.Warmup)
	}
	return rate
}
