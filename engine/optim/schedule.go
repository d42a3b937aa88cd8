package optim

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/internal/setting"
)

// ScheduleShape is the course of a learning rate over time.
type ScheduleShape string

// The shapes of schedules.
const (
	ShapeConstant ScheduleShape = "constant"
	ShapeLinear   ScheduleShape = "linear" // to FinalRate over the first FinalEpoch epochs, then constant (Abadi et al. 2016, section 5.2)
	ShapeCosine   ScheduleShape = "cosine" // to 0 between the end of the warm-up and the end of the run (Loshchilov and Hutter 2017)
	ShapeStep     ScheduleShape = "step"   // multiplied by Factor at each epoch of Milestones
)

// Schedule is a learning rate over time: a shape, and a warm-up in which a linear factor
// from 1/WarmupSteps to 1 multiplies the shape's rate. It depends only on public numbers.
type Schedule struct {
	Base        float64 // initial rate, or the rate after the warm-up
	Shape       ScheduleShape
	FinalRate   float64   // linear: the final rate
	FinalEpoch  float64   // linear: the number of epochs until the final rate
	Factor      float64   // step: multiplies the rate at each milestone
	Milestones  []float64 // step: epochs in ascending order
	WarmupSteps int
}

// String describes the schedule in words.
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

// Check returns an error if a number is out of range or not used by the shape.
func (s Schedule) Check() error {
	positive := func(x float64) bool { return x > 0 && !math.IsInf(x, 1) }
	if !positive(s.Base) {
		return setting.Errorf("Optimization.Schedule.Base", "%v: give a finite learning rate above 0", setting.With("Optimization.Schedule.Base", s.Base))
	}
	if s.WarmupSteps < 0 {
		return fmt.Errorf("optim: warm-up of %d steps; use 0 or more", s.WarmupSteps)
	}
	switch s.Shape {
	case ShapeConstant, ShapeCosine:
	case ShapeLinear:
		if !(s.FinalRate >= 0) || math.IsInf(s.FinalRate, 1) || !positive(s.FinalEpoch) {
			return fmt.Errorf("optim: linear to %v over %v epochs; use a rate of 0 or more and a positive number of epochs", s.FinalRate, s.FinalEpoch)
		}
	case ShapeStep:
		if !positive(s.Factor) {
			return fmt.Errorf("optim: step by a factor of %v; use a positive number", s.Factor)
		}
		if len(s.Milestones) == 0 {
			return fmt.Errorf("optim: step by a factor of %v without epochs; give the epochs", s.Factor)
		}
		last := 0.0
		for _, epoch := range s.Milestones {
			if !(epoch > last) || math.IsInf(epoch, 1) {
				return fmt.Errorf("optim: step at epoch %v; use positive epochs in ascending order", epoch)
			}
			last = epoch
		}
	default:
		return unknown("schedule", string(s.Shape), shapes)
	}
	if s.Shape != ShapeLinear && (s.FinalRate != 0 || s.FinalEpoch != 0) ||
		s.Shape != ShapeStep && (s.Factor != 0 || len(s.Milestones) > 0) {
		return fmt.Errorf("optim: a schedule of shape %q does not use all numbers that are set: FinalRate and FinalEpoch are for %s, Factor and Milestones for %s", s.Shape, ShapeLinear, ShapeStep)
	}
	return nil
}

// Rate is the learning rate of a step. Steps are numbered from 1. The first step of epoch e
// (from 0) is step e·stepsPerEpoch + 1. Total is the number of steps of the run. Only the
// cosine uses it, and its rate is 0 after that step.
func (s Schedule) Rate(step int, stepsPerEpoch float64, total int) float64 {
	done := float64(step - 1)
	epoch := done / stepsPerEpoch
	rate := s.Base
	switch s.Shape {
	case ShapeLinear:
		rate += (s.FinalRate - s.Base) * min(1, epoch/s.FinalEpoch)
	case ShapeCosine:
		if warm := float64(s.WarmupSteps); done >= warm {
			progress := 1.0
			if float64(total) > warm {
				progress = (done - warm) / (float64(total) - warm)
			}
			rate *= (1 + math.Cos(math.Pi*min(1, progress))) / 2
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
