package models

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
)

// DataSpec is what a network is told of the data: public facts, none of them
// learnt from it.
type DataSpec struct {
	Shape      []int // of one example's features: [784], [1, 28, 28], …
	Vocabulary int   // features are indices below it; 0 where they are numbers
	Padded     bool  // indices below 0 are no part of an example, which is shorter than others
	Classes    int
	Targets    int   // numbers that are predicted, in place of a class
	Labels     []int // shape of one example's label: none, or that of a sequence with a label for each step
}

// answers is how many numbers an example, or a step of it, is answered with.
func (e DataSpec) answers() int { return e.Classes + e.Targets }

// ProjectionName is the name of the directions in a network of [ParseProjected].
const ProjectionName = "projection.weight"

// Parse reads NAME[:ARGS] and gives the builder of that network for such
// examples, with starting weights from the given public seed. Its inputs are the
// features and the label, in this order; it ends in cross-entropy. Where targets
// are predicted these stand in the label's place, and it ends in the squared error.
func Parse(spec string, e DataSpec, seed uint64) (perexample.Build, error) {
	return ParseProjected(spec, e, seed, nil)
}

// ParseProjected is Parse for a network that sees of an example its products with
// some public directions alone: rows as long as an example's features, one after
// the other, which are not trained. None are given: it is Parse.
func ParseProjected(spec string, e DataSpec, seed uint64, directions []float32) (perexample.Build, error) {
	name, text, _ := strings.Cut(spec, ":")
	f, ok := find(name)
	if !ok {
		return nil, unknown("model", name, names())
	}
	a, err := f.read(text)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", spec, err)
	}
	if err := f.fits(e); err != nil {
		return nil, fmt.Errorf("model %s: %w", spec, err)
	}
	if directions != nil && f.reads != numbers {
		return nil, fmt.Errorf("model %s: it reads %s, and a projection leaves none; mlp, abadi-mlp and logistic take one", spec, f.reads)
	}
	build := func(batch int) (*perexample.Network, error) {
		b := layer.NewBuilder(batch, seed)
		x := b.Input("features", e.Shape...)
		if directions != nil {
			x = layer.FixedProjection(b, layer.Flatten(b, x), ProjectionName, directions)
		}
		answers := f.body(b, x, e, a)
		if e.Targets > 0 {
			b.SetLoss(layer.SquaredError(b, answers, b.Input("target", e.Targets)), answers)
		} else {
			b.SetLoss(layer.CrossEntropy(b, answers, b.Input("label", e.Labels...)), answers)
		}
		return b.Network()
	}
	if _, err := build(1); err != nil {
		return nil, fmt.Errorf("model %s: %w", spec, err)
	}
	return build, nil
}

// Description says what a model is and what can be said behind its name.
type Description struct {
	Name    string
	Args    string // how arguments are written; empty where there are none
	Summary string
}

// Supported describes every model, the simplest first.
func Supported() []Description {
	list := make([]Description, len(families))
	for i, f := range families {
		list[i] = f.Description
	}
	return list
}

// family is a model with the way to build it.
type family struct {
	Description
	reads takes
	read  func(text string) (args, error)
	body  func(b *layer.Builder, x *G.Node, e DataSpec, a args) *G.Node
}

// takes is what kind of features a model reads.
type takes uint8

const (
	numbers takes = iota
	pictures
	indices
	sequences // indices in order; labels may be one for each step
)

func (t takes) String() string {
	return [...]string{"numbers", "pictures", "indices", "sequences"}[t]
}

// fits says why the model cannot read such examples.
func (f family) fits(e DataSpec) error {
	switch {
	case e.Targets < 0 || e.Targets > 0 && (e.Classes != 0 || len(e.Labels) > 0):
		return fmt.Errorf("%d targets and %d classes: a network predicts numbers or a class", e.Targets, e.Classes)
	case e.Targets == 0 && e.Classes < 2:
		return fmt.Errorf("%d classes: a classifier needs at least 2", e.Classes)
	}
	if len(e.Shape) == 0 {
		return fmt.Errorf("the examples have no features")
	}
	for _, n := range e.Shape {
		if n < 1 {
			return fmt.Errorf("features of shape %v: every axis needs a length of at least 1", e.Shape)
		}
	}
	switch {
	case len(e.Labels) > 0 && (f.reads != sequences || !slices.Equal(e.Labels, e.Shape)):
		return fmt.Errorf("labels of shape %v for features of shape %v: one label for each step is what sequence models alone learn", e.Labels, e.Shape)
	case f.reads >= indices && (e.Vocabulary < 1 || len(e.Shape) != 1):
		return fmt.Errorf("it reads lists of indices into a vocabulary, and the features are numbers of shape %v", e.Shape)
	case f.reads < indices && e.Vocabulary > 0:
		return fmt.Errorf("it reads numbers, and the features are indices into a vocabulary of %d; embbag reads those", e.Vocabulary)
	case f.reads == pictures && len(e.Shape) != 3:
		return fmt.Errorf("it reads pictures [channels, height, width], and the features have shape %v; mlp reads any", e.Shape)
	}
	return nil
}

var families = []family{
	{Description{"logistic", "", "one dense layer: multinomial logistic regression or, of a --target, linear regression"}, numbers, none, logistic},
	{Description{"mlp", "[HIDDEN,...][,act=relu|tanh][,dropout=RATE]", "dense layers over any features, tables among them; 128 hidden units where none are given, of which RATE are dropped in training"}, numbers, hidden, mlp},
	{Description{"abadi-mlp", "", "1000 hidden ReLU units (Abadi et al. 2016, section 5.2)"}, numbers, none, abadiMLP},
	{Description{"digits-cnn", "", "two small tanh convolutions: light enough for a laptop and for much noise"}, pictures, none, digitsCNN},
	{Description{"mnist-cnn", "[act=tanh]", "the convolutional network of TensorFlow Privacy's MNIST tutorial; act=tanh: bounded activations in place of ReLU (Papernot et al. 2021)"}, pictures, tanh, mnistCNN},
	{Description{"cifar-abadi", "", "two 5×5 convolutions of 64 channels, 384 hidden units (after Abadi et al. 2016, section 5.3)"}, pictures, none, cifarAbadi},
	{Description{"cifar-tanh", "", "six 3×3 tanh convolutions (after Papernot et al. 2021)"}, pictures, none, cifarTanh},
	{Description{"wrn16-4", "[standardized]", "Wide-ResNet-16-4 with group normalisation (Zagoruyko & Komodakis 2016; De et al. 2022); standardized: so are the weights of its convolutions"}, pictures, standardized, wideResNet},
	{Description{"embbag", "[DIM]", "the mean of the indices' embeddings, 16 wide where not given, then two dense layers"}, indices, width(16), embeddingBag},
	{Description{"lstm", "[HIDDEN]", "a long short-term memory of 128 units, where not given, over embedded indices"}, sequences, width(128), lstm},
	{Description{"gru", "[HIDDEN]", "gated recurrent units, 128 where not given, over embedded indices"}, sequences, width(128), gru},
	{Description{"transformer", "[tied]", "two blocks of 4 heads, 128 wide; tied: embedding and head share a weight"}, sequences, tied, transformer},
}

func find(name string) (family, bool) {
	for _, f := range families {
		if f.Name == name {
			return f, true
		}
	}
	return family{}, false
}

func names() []string {
	list := make([]string, len(families))
	for i, f := range families {
		list[i] = f.Name
	}
	return list
}
