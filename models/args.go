package models

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/internal/nearest"
	"github.com/dptrain/dptrain/models/layer"
)

// args are what was said behind a model's name.
type args struct {
	hidden  []int
	act     layer.Activation
	dropout float64
	tied    bool

	standardized bool
}

// maxWidth keeps a slip of the finger from asking for all memory.
const maxWidth = 1 << 16

func none(text string) (args, error) {
	if text != "" {
		return args{}, fmt.Errorf("it takes no arguments, and %q was given", text)
	}
	return args{}, nil
}

func units(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxWidth {
		return 0, fmt.Errorf("argument %q: a number of units from 1 to %d is needed", text, maxWidth)
	}
	return n, nil
}

// hidden reads 256,128,act=tanh,dropout=0.5.
func hidden(text string) (args, error) {
	a := args{act: layer.ReLU}
	given := map[string]bool{}
	for field := range strings.SplitSeq(text, ",") {
		if text == "" {
			break
		}
		name, value, named := strings.Cut(field, "=")
		if !named {
			n, err := units(field)
			if err != nil {
				return a, fmt.Errorf("%w, or act=relu or act=tanh, or dropout=RATE", err)
			}
			a.hidden = append(a.hidden, n)
			continue
		}
		if given[name] {
			return a, fmt.Errorf("%s is given twice", name)
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
			return fmt.Errorf("a rate from 0 to less than 1 is needed")
		}
	default:
		return fmt.Errorf("act=relu or act=tanh, or dropout=RATE, is needed")
	}
	return nil
}

// width reads one number, otherwise where none is given.
func width(otherwise int) func(text string) (args, error) {
	return func(text string) (args, error) {
		if text == "" {
			return args{hidden: []int{otherwise}}, nil
		}
		n, err := units(text)
		return args{hidden: []int{n}}, err
	}
}

func tanh(text string) (args, error) {
	a := args{act: layer.ReLU}
	if text != "" {
		a.act = layer.Tanh
	}
	return a, oneWord("act=tanh", text)
}

func tied(text string) (args, error) { return args{tied: text == "tied"}, oneWord("tied", text) }

func standardized(text string) (args, error) {
	return args{standardized: text == "standardized"}, oneWord("standardized", text)
}

func oneWord(known, text string) error {
	if text != "" && text != known {
		return fmt.Errorf("argument %q: %s or nothing is needed", text, known)
	}
	return nil
}

// unknown says what was meant, perhaps, and what there is.
func unknown(what, name string, known []string) error {
	return fmt.Errorf("unknown %s %q; did you mean %q? There are %s", what, name, nearest.Closest(name, known), strings.Join(known, ", "))
}
