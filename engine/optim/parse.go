package optim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/internal/nearest"
)

// Parse reads an optimiser as the command line has it: a name, and options where
// the defaults do not serve, such as
//
//	sgd   momentum:momentum=0.95   adamw:beta2=0.98,weight-decay=0.1
func Parse(spec string) (Optimizer, error) {
	name, options, given := strings.Cut(spec, ":")
	o, err := defaultOf(name)
	if err != nil || !given {
		return o, err
	}
	fields := o.options()
	known := make([]string, len(fields))
	for i, f := range fields {
		known[i] = f.name
	}
	for option := range strings.SplitSeq(options, ",") {
		key, text, _ := strings.Cut(option, "=")
		at := slices.Index(known, key)
		if at < 0 {
			return Optimizer{}, unknown("option of "+name, key, known)
		}
		if *fields[at].value, err = number(spec, text); err != nil {
			return Optimizer{}, err
		}
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

// options are the hyper-parameters that the optimiser's kind uses.
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

// shapes are the words of a schedule.
var shapes = []string{"constant", "linear", "cosine", "step", "warmup"}

// ParseSchedule reads a schedule as the command line has it, for a base rate:
//
//	constant
//	linear:0.052@10      to 0.052 over the first 10 epochs, then flat
//	cosine               down to 0 at the end of the run
//	step:0.1@30,60       a tenth from epoch 30, a hundredth from epoch 60
//	warmup:500+cosine    rising over 500 steps, then cosine; before any shape, or alone
func ParseSchedule(spec string, base float64) (Schedule, error) {
	s := Schedule{Base: base, Shape: ShapeConstant}
	rest := spec
	if word, steps, _ := strings.Cut(spec, ":"); word == "warmup" {
		steps, shape, more := strings.Cut(steps, "+")
		n, err := strconv.Atoi(steps)
		if err != nil || n < 1 {
			return s, fmt.Errorf("optim: schedule %q: warm-up of %q steps, want a whole number such as warmup:500", spec, steps)
		}
		s.WarmupSteps, rest = n, shape
		if !more {
			return s, s.Check()
		}
	}
	word, arguments, given := strings.Cut(rest, ":")
	s.Shape = ScheduleShape(word)
	var err error
	switch s.Shape {
	case ShapeConstant, ShapeCosine:
		if given {
			return s, fmt.Errorf("optim: schedule %q: %s takes no arguments", spec, word)
		}
	case ShapeLinear:
		to, over, ok := strings.Cut(arguments, "@")
		if !ok {
			return s, fmt.Errorf("optim: schedule %q: want a rate and epochs, such as linear:0.052@10", spec)
		}
		if s.FinalRate, err = number(spec, to); err != nil {
			return s, err
		}
		if s.FinalEpoch, err = number(spec, over); err != nil {
			return s, err
		}
	case ShapeStep:
		factor, epochs, ok := strings.Cut(arguments, "@")
		if !ok {
			return s, fmt.Errorf("optim: schedule %q: want a factor and epochs, such as step:0.1@30,60", spec)
		}
		if s.Factor, err = number(spec, factor); err != nil {
			return s, err
		}
		for text := range strings.SplitSeq(epochs, ",") {
			epoch, err := number(spec, text)
			if err != nil {
				return s, err
			}
			s.Milestones = append(s.Milestones, epoch)
		}
	case "warmup":
		return s, fmt.Errorf("optim: schedule %q: a warm-up comes first and once, such as warmup:500+cosine", spec)
	default:
		return s, unknown("schedule", word, shapes)
	}
	return s, s.Check()
}

func number(spec, text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("optim: %q: %q is not a number", spec, text)
	}
	return x, nil
}

func unknown(what, name string, known []string) error {
	return fmt.Errorf("optim: unknown %s %q; the nearest is %s (of %s)", what, name, nearest.Closest(name, known), strings.Join(known, ", "))
}
