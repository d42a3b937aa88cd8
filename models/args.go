package models

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/models/pretrained"
)

// args are the parsed arguments of a model's name.
type args struct {
	hidden  []int
	act     layer.Activation
	dropout float64
	tied    bool
	columns int // of fourier; 0: as many as an example has numbers

	pretrained *pretrained.Model
	layers     layerList // of layers

	standardized bool
	norm         string // batch, group, or "" for none
}

// maxWidth limits the width of a layer, so that a typing error does not allocate all
// memory.
const maxWidth = 1 << 16

// parseNone parses the arguments of a model without arguments.
func parseNone(text string) (args, error) {
	if text != "" {
		return args{}, fmt.Errorf("the model takes no arguments; remove %q", text)
	}
	return args{}, nil
}

func parseUnits(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxWidth {
		return 0, fmt.Errorf("argument %q: write a number of units from 1 to %d", text, maxWidth)
	}
	return n, nil
}

// parseMLP parses arguments such as 256,128,act=tanh,dropout=0.5.
func parseMLP(text string) (args, error) {
	a := args{act: layer.ReLU}
	given := map[string]bool{}
	for field := range strings.SplitSeq(text, ",") {
		if text == "" {
			break
		}
		name, value, named := strings.Cut(field, "=")
		if !named {
			n, err := parseUnits(field)
			if err != nil {
				return a, fmt.Errorf("%w, or act=relu, act=tanh or dropout=RATE", err)
			}
			a.hidden = append(a.hidden, n)
			continue
		}
		if given[name] {
			return a, fmt.Errorf("%s is given twice; remove one", name)
		}
		given[name] = true
		if err := a.set(name, value); err != nil {
			return a, fmt.Errorf("argument %q: %w", field, err)
		}
	}
	if len(a.hidden) == 0 {
		a.hidden = []int{128}
	}
	return a, nil
}

func (a *args) set(name, value string) (err error) {
	switch {
	case name == "act" && value == "relu":
		a.act = layer.ReLU
	case name == "act" && value == "tanh":
		a.act = layer.Tanh
	case name == "dropout":
		a.dropout, err = strconv.ParseFloat(value, 64)
		if err != nil || !(a.dropout >= 0 && a.dropout < 1) {
			return fmt.Errorf("write a rate from 0 to less than 1")
		}
	default:
		return fmt.Errorf("write act=relu, act=tanh or dropout=RATE")
	}
	return nil
}

// parseWidth parses one optional number. The default is defaultWidth.
func parseWidth(defaultWidth int) func(text string) (args, error) {
	return func(text string) (args, error) {
		if text == "" {
			return args{hidden: []int{defaultWidth}}, nil
		}
		n, err := parseUnits(text)
		return args{hidden: []int{n}}, err
	}
}

// parseFourier parses arguments such as 256,columns=5.
func parseFourier(text string) (args, error) {
	a := args{}
	for field := range strings.SplitSeq(text, ",") {
		value, isColumns := strings.CutPrefix(field, "columns=")
		n, err := strconv.Atoi(value)
		switch {
		case text == "":
		case err != nil || n < 1 || n > maxWidth:
			return a, fmt.Errorf("argument %q: write a number of features, or columns=N, from 1 to %d", field, maxWidth)
		case isColumns && a.columns > 0 || !isColumns && len(a.hidden) > 0:
			return a, fmt.Errorf("argument %q is given twice; remove one", field)
		case isColumns:
			a.columns = n
		default:
			a.hidden = []int{n}
		}
	}
	if len(a.hidden) == 0 {
		a.hidden = []int{128}
	}
	return a, nil
}

// parsePicture parses arguments such as act=tanh,norm=batch. Without hasActivation, act is refused.
func parsePicture(hasActivation bool) func(text string) (args, error) {
	return func(text string) (args, error) {
		a := args{act: layer.ReLU}
		given := map[string]bool{}
		for field := range strings.SplitSeq(text, ",") {
			name, value, _ := strings.Cut(field, "=")
			switch {
			case text == "":
			case given[name]:
				return a, fmt.Errorf("%s is given twice; remove one", name)
			case name == "norm" && (value == "batch" || value == "group"):
				a.norm = value
			case name == "act" && value == "tanh" && hasActivation:
				a.act = layer.Tanh
			case hasActivation:
				return a, fmt.Errorf("argument %q: write act=tanh, norm=batch or norm=group, or remove it", field)
			default:
				return a, fmt.Errorf("argument %q: write norm=batch or norm=group, or remove it", field)
			}
			given[name] = true
		}
		return a, nil
	}
}

func parseTied(text string) (args, error) {
	return args{tied: text == "tied"}, checkOnlyArgument("tied", text)
}

func parseStandardized(text string) (args, error) {
	return args{standardized: text == "standardized"}, checkOnlyArgument("standardized", text)
}

// checkOnlyArgument returns an error unless the argument is empty or known.
func checkOnlyArgument(known, text string) error {
	if text != "" && text != known {
		return fmt.Errorf("argument %q: write %s or remove it", text, known)
	}
	return nil
}

// unknown reports an unknown name with the known name that is probably meant, if there is one,
// and a list of all.
func unknown(what, name, meant string, known []string) error {
	hint := ""
	if meant != "" {
		hint = fmt.Sprintf("did you mean %q? ", meant)
	}
	return fmt.Errorf("unknown %s %q; %sKnown are %s", what, name, hint, strings.Join(known, ", "))
}
