package drawdiscard

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/models"
	"github.com/dptrain/dptrain/perexample"
)

// Spec is the public description of a model, from which server and clients build it.
type Spec struct {
	Model   string `json:"model" yaml:"model"`                         // linear, logistic, multinomial, poisson, or NAME[:ARGS] of package models
	Inputs  Shape  `json:"inputs" yaml:"inputs"`                       // of one record's features
	Classes int    `json:"classes,omitempty" yaml:"classes,omitempty"` // 0: a target is predicted
	// Vocabulary is the number of indices if the features are indices, for the models that read
	// them; 0 if they are numbers.
	Vocabulary int `json:"vocabulary,omitempty" yaml:"vocabulary,omitempty"`
}

// Shape is the shape of one record's features. Its text is 784 or 1x28x28.
type Shape []int

// ParseShape parses the text of a shape.
func ParseShape(text string) (Shape, error) {
	var s Shape
	for part := range strings.SplitSeq(text, "x") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 || n > maxInputs {
			return nil, fmt.Errorf("inputs %q: write a number of features such as 784, or CxHxW such as 1x28x28", text)
		}
		s = append(s, n)
	}
	if !s.valid() {
		return nil, fmt.Errorf("inputs %q: at most %d features", text, maxInputs)
	}
	return s, nil
}

const maxInputs = 1 << 26

// valid reports whether each axis has a length of at least 1, and there are at most maxInputs
// features. The shape may come from another host.
func (s Shape) valid() bool {
	left := maxInputs
	for _, n := range s {
		if n < 1 || n > left {
			return false
		}
		left /= n
	}
	return len(s) > 0
}

// Size is the number of features of a valid shape.
func (s Shape) Size() int {
	size := 1
	for _, n := range s {
		size *= n
	}
	return size
}

func (s Shape) String() string {
	parts := make([]string, len(s))
	for i, n := range s {
		parts[i] = strconv.Itoa(n)
	}
	return strings.Join(parts, "x")
}

// families are the models of this package, before those of package models.
var families = []Family{Linear, Logistic, Multinomial, Poisson}

// IsGLM reports whether the model is one of the generalised linear models.
func (s Spec) IsGLM() bool { return slices.Contains(families, Family(s.Model)) }

// maxModelText is the length of the longest name of a model. A name of many layers would make a large
// graph.
const maxModelText = 1000

func (s Spec) check() error {
	switch {
	case len(s.Model) > maxModelText:
		return fmt.Errorf("the name of the model has %d characters; use at most %d", len(s.Model), maxModelText)
	case !s.Inputs.valid():
		return fmt.Errorf("model %s: inputs of shape %v; each axis needs a length of at least 1, and there are at most %d features", s.Model, []int(s.Inputs), maxInputs)
	case s.Classes < 0 || s.Classes > maxInputs:
		return fmt.Errorf("model %s: %d classes; use at most %d", s.Model, s.Classes, maxInputs)
	case s.Vocabulary < 0 || s.Vocabulary > maxInputs:
		return fmt.Errorf("model %s: a vocabulary of %d; use at most %d", s.Model, s.Vocabulary, maxInputs)
	case s.IsGLM() && s.Vocabulary != 0:
		return fmt.Errorf("model %s reads numbers; omit the vocabulary of %d", s.Model, s.Vocabulary)
	}
	return nil
}

// Tensors describes the weights of the model. It allocates no memory for them, so it shows how large
// the model of a stranger is.
func (s Spec) Tensors() ([]TensorShape, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if s.IsGLM() {
		outputs, err := Family(s.Model).outputs(s.Inputs.Size(), s.Classes)
		return glmTensors(s.Inputs.Size(), outputs), err
	}
	build, err := parseNetwork(s)
	if err != nil {
		return nil, err
	}
	network, err := build(1)
	if err != nil {
		return nil, err
	}
	all := make([]TensorShape, len(network.Params))
	for i, p := range network.Params {
		all[i] = TensorShape{p.Name(), append([]int{}, p.Shape()...)}
	}
	return all, nil
}

// Build makes the model. Close it if it is a [Network]. The names of the generalised linear models
// go before those of package models; its logistic model of several classes is multinomial here.
func (s Spec) Build(threads int) (Model, error) { return s.BuildWithin(threads, math.MaxInt) }

// BuildWithin is Build for a model that computes within some bytes of memory.
func (s Spec) BuildWithin(threads, memory int) (Model, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if s.IsGLM() {
		return NewGLM(Family(s.Model), s.Inputs.Size(), s.Classes)
	}
	build, err := parseNetwork(s)
	if err != nil {
		return nil, err
	}
	return newNetwork(build, threads, memory)
}

func parseNetwork(s Spec) (perexample.Build, error) {
	data := models.DataSpec{Shape: s.Inputs, Vocabulary: s.Vocabulary, Classes: s.Classes}
	if s.Classes == 0 {
		data.Targets = 1
	}
	return models.Parse(s.Model, data, initialSeed)
}

// initialSeed is the public seed of the initial weights of networks.
const initialSeed = 1
