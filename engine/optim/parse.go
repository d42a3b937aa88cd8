package optim

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/internal/nearest"
)

// Parse parses the value of the flag --optimizer: a name, with options that replace
// defaults, such as
//
//	sgd   momentum:momentum=0.95   adamw:beta2=0.98,weight-decay=0.1
func Parse(spec string) (Optimizer, error) {
	name, _, _ := strings.Cut(spec, ":")
	o, err := defaultOf(name)
	if err == nil {
		err = parseOptions(spec, spec, o.options(), nil)
	}
	if err != nil {
		return Optimizer{}, err
	}
	return o, o.Check()
}

const (
	optionEpsilon  = "eps"
	optionDecay    = "weight-decay"
	optionMomentum = "momentum"
	optionBeta1    = "beta1"
	optionBeta2    = "beta2"
)

type option struct {
	name  string
	value *float64
}

// options lists the hyperparameters that the kind uses.
func (o *Optimizer) options() []option {
	decay := option{optionDecay, &o.WeightDecay}
	switch o.Kind {
	case KindMomentum, KindNesterov:
		return []option{{optionMomentum, &o.Momentum}, decay}
	case KindAdam, KindAdamW:
		return []option{{optionBeta1, &o.Beta1}, {optionBeta2, &o.Beta2}, {optionEpsilon, &o.Epsilon}, decay}
	case KindRMSProp:
		return []option{{optionBeta2, &o.Beta2}, {optionEpsilon, &o.Epsilon}, decay}
	case KindAdagrad:
		return []option{{optionEpsilon, &o.Epsilon}, decay}
	}
	return []option{decay}
}

func defaultOf(name string) (Optimizer, error) {
	for _, o := range defaults {
		if string(o.Kind) == name {
			return o, nil
		}
	}
	return Optimizer{}, unknown("optimizer", name, Kinds())
}

// shapes are the names in a schedule.
var shapes = []string{"constant", "linear", "cosine", "step", "warmup"}

// ParseSchedule parses the value of the flag --schedule, with the given base rate:
//
//	constant
//	linear:0.052@10      linear to 0.052 over the first 10 epochs, then constant
//	cosine               cosine decay to 0 at the end of the run
//	step:0.1@30,60       one tenth from epoch 30, one hundredth from epoch 60
//	warmup:500+cosine    warm-up over 500 steps, then cosine; it precedes any shape, or is used alone
func ParseSchedule(spec string, base float64) (Schedule, error) {
	s := Schedule{Base: base, Shape: ShapeConstant}
	rest := spec
	if word, steps, _ := strings.Cut(spec, ":"); word == "warmup" {
		steps, shape, more := strings.Cut(steps, "+")
		n, err := strconv.Atoi(steps)
		if err != nil || n < 1 {
			return s, fmt.Errorf("optim: schedule %q: %q warm-up steps; write a whole number such as warmup:500", spec, steps)
		}
		s.WarmupSteps, rest = n, shape
		if !more {
			return s, s.Check()
		}
	}
	name, arguments, hasArguments := strings.Cut(rest, ":")
	s.Shape = ScheduleShape(name)
	var err error
	switch s.Shape {
	case ShapeConstant, ShapeCosine:
		if hasArguments {
			return s, fmt.Errorf("optim: schedule %q: %s takes no arguments", spec, name)
		}
	case ShapeLinear:
		to, over, ok := strings.Cut(arguments, "@")
		if !ok {
			return s, fmt.Errorf("optim: schedule %q: write a rate and a number of epochs, such as linear:0.052@10", spec)
		}
		if s.FinalRate, err = parseNumber(spec, to); err != nil {
			return s, err
		}
		if s.FinalEpoch, err = parseNumber(spec, over); err != nil {
			return s, err
		}
	case ShapeStep:
		factor, epochs, ok := strings.Cut(arguments, "@")
		if !ok {
			return s, fmt.Errorf("optim: schedule %q: write a factor and epochs, such as step:0.1@30,60", spec)
		}
		if s.Factor, err = parseNumber(spec, factor); err != nil {
			return s, err
		}
		for text := range strings.SplitSeq(epochs, ",") {
			epoch, err := parseNumber(spec, text)
			if err != nil {
				return s, err
			}
			s.Milestones = append(s.Milestones, epoch)
		}
	case "warmup":
		return s, fmt.Errorf("optim: schedule %q: write the warm-up first and only once, such as warmup:500+cosine", spec)
	default:
		return s, unknown("schedule", name, shapes)
	}
	return s, s.Check()
}

func parseNumber(spec, text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("optim: %q: %q is not a number", spec, text)
	}
	return x, nil
}

func unknown(what, name string, known []string) error {
	return fmt.Errorf("optim: unknown %s %q; did you mean %s? Known are %s", what, name, nearest.Closest(name, known), strings.Join(known, ", "))
}
