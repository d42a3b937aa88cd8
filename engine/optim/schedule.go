package optim

import (
	"fmt"
	"math"
)

// ScheduleShape is how a learning rate goes over time.
type ScheduleShape string

const (
	ShapeConstant ScheduleShape = "constant"
	ShapeLinear   ScheduleShape = "linear" // to To over the first Over epochs, then flat (Abadi et al. 2016, section 5.2)
	ShapeCosine   ScheduleShape = "cosine" // from the end of the warm-up down to 0 at the end of the run (Loshchilov and Hutter 2017)
	ShapeStep     ScheduleShape = "step"   // times Factor at each epoch of At
)

// Schedule is a learning rate over time: a shape, and a warm-up over it in which
// the rate rises linearly from Base/Warmup at the first step to the shape's own.
// It is a function of public numbers alone.
type Schedule struct {
	Base        float64 // the rate at first, or after the warm-up
	Shape       ScheduleShape
	FinalRate   float64   // linear: the rate at its end
	FinalEpoch  float64   // linear: how many epochs it takes
	Factor      float64   // step
	Milestones  []float64 // step: epochs, ascending
	WarmupSteps int       // steps
}

// String says what matters of a schedule.
func (s Schedule) String() string {
	text := fmt.Sprintf("%s %g", s.Shape, s.Base)
	switch s.Shape {
	case ShapeLinear:
		text += fmt.Sprintf(" to %g over %g epochs", s.FinalRate, s.FinalEpoch)
	case ShapeStep:
		text += fmt.Sprintf(" times %g at epochs %v", s.Factor, s.Milestones)
	}
	if s.WarmupSteps > 0 {
		text += fmt.Sprintf(" after %d steps of warm-up", s.WarmupSteps)
	}
	return text
}

// Check finds a schedule that makes no sense.
func (s Schedule) Check() error {
	positive := func(x float64) bool { return x > 0 && !math.IsInf(x, 1) }
	if !positive(s.Base) {
		return fmt.Errorf("optim: learning rate %v, want a positive number", s.Base)
	}
	if s.WarmupSteps < 0 {
		return fmt.Errorf("optim: warm-up of %d steps, want 0 or more", s.WarmupSteps)
	}
	switch s.Shape {
	case ShapeConstant, ShapeCosine:
	case ShapeLinear:
		if !(s.FinalRate >= 0) || math.IsInf(s.FinalRate, 1) || !positive(s.FinalEpoch) {
			return fmt.Errorf("optim: linear to %v over %v epochs, want a rate of 0 or more and a positive number of epochs", s.FinalRate, s.FinalEpoch)
		}
	case ShapeStep:
		if !positive(s.Factor) {
			return fmt.Errorf("optim: step by a factor of %v, want a positive number", s.Factor)
		}
		if len(s.Milestones) == 0 {
			return fmt.Errorf("optim: step by a factor of %v at no epoch; name the epochs", s.Factor)
		}
		last := 0.0
		for _, epoch := range s.Milestones {
			if !(epoch > last) || math.IsInf(epoch, 1) {
				return fmt.Errorf("optim: step at epoch %v, want positive epochs in ascending order", epoch)
			}
			last = epoch
		}
	default:
		return unknown("schedule", string(s.Shape), shapes)
	}
	if s.Shape != ShapeLinear && (s.FinalRate != 0 || s.FinalEpoch != 0) || s.Shape != ShapeStep && (s.Factor != 0 || len(s.Milestones) > 0) {
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
		rate += (s.FinalRate - s.Base) * min(1, epoch/s.FinalEpoch)
	case ShapeCosine:
		if warm := float64(s.WarmupSteps); done >= warm {
			left := 1.0
			if float64(total) > warm {
				left = (done - warm) / (float64(total) - warm)
			}
			rate *= (1 + math.Cos(math.Pi*min(1, left))) / 2
		}
	case ShapeStep:
		for _, at := range s.Milestones {
			if epoch >= at {
				rate *= s.Factor
			}
		}
	}
	if step <= s.WarmupSteps {
		rate *= float64(step) / float64(s.WarmupSteps)
	}
	return rate
}
