package optim

import (
	"fmt"
	"slices"
	"strings"
)

// The rules that the host computes.
const (
	nameAdamBC  = "adambc"
	nameLowPass = "lowpass"
	nameDiSK    = "disk"
)

const (
	optionFloor = "floor"
	optionKappa = "kappa"
	optionA     = "a"
	optionB     = "b"
)

// Names lists the names that [ParseRule] accepts.
func Names() []string { return append(Kinds(), nameAdamBC, nameLowPass, nameDiSK) }

// ParseRule parses the value of the flag --optimizer: what [Parse] does, or one of
//
//	adambc                       adambc:beta2=0.99,floor=1e-8
//	lowpass                      lowpass:a=-0.9,b=0.05/0.05+adam:beta2=0.99
//	disk                         disk:kappa=0.5+momentum
//
// lowpass and disk filter gradients for the optimizer after the sign +, by default sgd.
func ParseRule(spec string) (Rule, error) {
	name, _, _ := strings.Cut(spec, ":")
	name, _, _ = strings.Cut(name, "+")
	switch name {
	case nameAdamBC:
		if name != spec && spec[len(name)] == '+' {
			return nil, fmt.Errorf("optim: %q: %s filters no gradients for another optimizer; use %s or %s before the sign +", spec, nameAdamBC, nameLowPass, nameDiSK)
		}
		a := defaultAdamBC
		err := parseOptions(spec, spec, []option{{optionBeta1, &a.Beta1}, {optionBeta2, &a.Beta2}, {optionFloor, &a.Floor}}, nil)
		return checked(a, err)
	case nameDiSK:
		d := defaultDiSK
		own, err := parseBase(spec, &d.Base)
		if err == nil {
			err = parseOptions(spec, own, []option{{optionKappa, &d.Kappa}}, nil)
		}
		return checked(d, err)
	case nameLowPass:
		l := defaultLowPass
		l.last = &lastGain{}
		own, err := parseBase(spec, &l.Base)
		if err == nil {
			err = parseOptions(spec, own, nil, []listOption{{optionA, &l.A}, {optionB, &l.B}})
		}
		return checked(l, err)
	}
	if _, err := defaultOf(name); err != nil {
		return nil, unknown("optimizer", name, Names())
	}
	return checked(Parse(spec))
}

func checked[R Rule](r R, err error) (Rule, error) {
	if err == nil {
		err = r.Check()
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// parseBase parses the optimizer after the sign +, and returns the part before it.
func parseBase(spec string, into *Optimizer) (own string, err error) {
	own, base, given := strings.Cut(spec, "+")
	if given {
		*into, err = Parse(base)
	}
	return own, err
}

// listOption is an option whose value is a list of numbers.
type listOption struct {
	name   string
	values *[]float64
}

// parseOptions parses the options in own, such as disk:kappa=0.5.
func parseOptions(spec, own string, numbers []option, lists []listOption) error {
	name, options, given := strings.Cut(own, ":")
	if !given {
		return nil
	}
	var known []string
	for _, o := range numbers {
		known = append(known, o.name)
	}
	for _, o := range lists {
		known = append(known, o.name)
	}
	for part := range strings.SplitSeq(options, ",") {
		key, text, _ := strings.Cut(part, "=")
		at := slices.Index(known, key)
		if at < 0 {
			return unknown("option of "+name, key, known)
		}
		var err error
		if at < len(numbers) {
			*numbers[at].value, err = parseNumber(spec, text)
		} else {
			*lists[at-len(numbers)].values, err = parseList(spec, text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// parseList parses numbers between the signs /.
func parseList(spec, text string) ([]float64, error) {
	var list []float64
	for part := range strings.SplitSeq(text, "/") {
		x, err := parseNumber(spec, part)
		if err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return list, nil
}
