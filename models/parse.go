package models

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
)

// DataSpec describes the data that a model is built for. Its fields are public facts; none
// is computed from the data.
type DataSpec struct {
	Shape      []int // of one example's features: [784], [1, 28, 28], …
	Vocabulary int   // if the features are indices, they are below it; 0 if they are numbers
	Marked     bool  // an index from Vocabulary on is index − Vocabulary with a mark: see data.Column
	Padded     bool  // indices below 0 are padding and not part of an example
	Unordered  bool  // the order of an example's indices has no meaning
	Classes    int   // number of classes; 0 if targets are predicted
	Targets    int   // number of targets; 0 if a class is predicted
	LabelShape []int // shape of one example's label: empty, or the shape of a sequence with a label for each step
}

// outputs is the number of outputs for an example or for one of its steps.
func (data DataSpec) outputs() int { return data.Classes + data.Targets }

// ProjectionName is the name of the directions in a network from [ParseProjected].
const ProjectionName = "projection.weight"

// Parse parses NAME[:ARGS] and returns the function that builds this network for the given
// data, with initial weights from the given public seed. The network's inputs are the
// features and the label, in this order, and its loss is the cross-entropy. If targets are
// predicted, the second input is the targets, which are scaled to [-1, 1], the loss is the squared
// error, and the output stays within these limits.
func Parse(spec string, data DataSpec, seed uint64) (perexample.Build, error) {
	return ParseProjected(spec, data, seed, nil)
}

// ParseProjected is Parse for a network that reads only the products of an example with
// public directions. Directions contains the concatenated directions, each as long as an
// example's features. They are not trained. If directions is nil, ParseProjected is Parse.
func ParseProjected(spec string, data DataSpec, seed uint64, directions []float32) (perexample.Build, error) {
	name, text, _ := strings.Cut(spec, ":")
	f, ok := find(name)
	if !ok {
		return nil, unknown("model", name, likelyModel(name), names())
	}
	a, err := f.parse(text)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", spec, err)
	}
	if a.pretrained != nil && a.pretrained.ReadsPictures() {
		f.reads = pictures
	}
	if err := f.check(data); err != nil {
		return nil, fmt.Errorf("model %s: %w", spec, err)
	}
	if directions != nil && f.reads != numbers {
		return nil, fmt.Errorf("model %s: the model reads %s, and a projection gives numbers; use mlp, abadi-mlp or logistic", spec, f.reads)
	}
	build := func(batch int) (*perexample.Network, error) {
		b := layer.NewBuilder(batch, seed)
		x := b.Input("features", data.Shape...)
		if directions != nil {
			x = layer.FixedProjection(b, layer.Flatten(b, x), ProjectionName, directions)
		}
		output := f.body(b, x, data, a)
		if data.Targets > 0 {
			losses := layer.SquaredError(b, output, b.Input("target", data.Targets))
			b.SetLoss(losses, layer.Clamp(b, output, -1, 1)) // targets are scaled to these limits
		} else {
			b.SetLoss(layer.CrossEntropy(b, output, b.Input("label", data.LabelShape...)), output)
		}
		return b.Network()
	}
	if _, err := build(1); err != nil {
		return nil, fmt.Errorf("model %s: %w", spec, err)
	}
	return build, nil
}

// Description describes a model and its arguments.
type Description struct {
	Name    string
	Args    string // syntax of the arguments; empty if there are none
	Summary string
}

// Supported lists all models, the simplest first.
func Supported() []Description {
	list := make([]Description, len(families))
	for i, f := range families {
		list[i] = f.Description
	}
	return list
}

// family is a model with the functions that parse its arguments and build it.
type family struct {
	Description
	reads featureKind
	parse func(text string) (args, error)
	body  func(b *layer.Builder, x *G.Node, data DataSpec, a args) *G.Node
}

// featureKind is the kind of features that a model reads.
type featureKind uint8

const (
	numbers featureKind = iota
	pictures
	indices
	sequences // ordered indices; each step may have a label
	anything
)

func (k featureKind) String() string {
	return [...]string{"numbers", "pictures", "indices", "sequences", "anything"}[k]
}

// check returns an error if the model cannot read the data.
func (f family) check(data DataSpec) error {
	switch {
	case data.Targets < 0 || data.Targets > 0 && (data.Classes != 0 || len(data.LabelShape) > 0):
		return fmt.Errorf("%d targets and %d classes: a network predicts either targets or a class", data.Targets, data.Classes)
	case data.Targets == 0 && data.Classes < 2:
		return fmt.Errorf("%d classes: a classifier needs at least 2", data.Classes)
	}
	if len(data.Shape) == 0 {
		return fmt.Errorf("the examples have no features; at least one is needed")
	}
	for _, n := range data.Shape {
		if n < 1 {
			return fmt.Errorf("features of shape %v: every axis needs a length of at least 1", data.Shape)
		}
	}
	switch {
	case len(data.LabelShape) > 0 && (f.reads < sequences || !slices.Equal(data.LabelShape, data.Shape)):
		return fmt.Errorf("labels of shape %v for features of shape %v: use a sequence model, with one label for each step", data.LabelShape, data.Shape)
	case data.Marked && f.Name != pretrainedName:
		return fmt.Errorf("the examples are pairs of texts, and only the network of a public checkpoint reads these; write hf:DIR")
	case f.reads == anything: // the layers refuse what they cannot read
	case f.reads >= indices && (data.Vocabulary < 1 || len(data.Shape) != 1):
		return fmt.Errorf("the model reads lists of indices into a vocabulary, and the features have shape %v and a vocabulary of %d; use mlp for numbers", data.Shape, data.Vocabulary)
	case f.reads == sequences && data.Unordered:
		return fmt.Errorf("the model reads a sequence, and the order of the indices has no meaning; use bow or embbag")
	case f.reads < indices && data.Vocabulary > 0:
		return fmt.Errorf("the model reads numbers, and the features are indices into a vocabulary of %d; use bow or embbag", data.Vocabulary)
	case f.reads == pictures && len(data.Shape) != 3:
		return fmt.Errorf("the model reads pictures [channels, height, width], and the features have shape %v; use mlp", data.Shape)
	}
	return nil
}

var families = []family{
	{Description{"logistic", "", "one dense layer: multinomial logistic regression, or linear regression of a target"}, numbers, parseNone, logistic},
	{Description{"fourier", "[FEATURES][,columns=N]", "one dense layer over an example's numbers and over random Fourier features of them, 128 by default (Rahimi & Recht 2007): a kernel machine for few records; N is the number of columns, if the words of a column are several numbers"}, numbers, parseFourier, fourier},
	{Description{"mlp", "[HIDDEN,...][,act=relu|tanh][,dropout=RATE]", "dense layers over any features, including tables; 128 hidden units by default; RATE is the dropout rate"}, numbers, parseMLP, mlp},
	{Description{"abadi-mlp", "", "1000 hidden ReLU units (Abadi et al. 2016, section 5.2)"}, numbers, parseNone, abadiMLP},
	{Description{"digits-cnn", "[norm=batch|group]", "two small tanh convolutions, for a laptop and for strong noise; norm=batch adds batch normalization with private running statistics, norm=group group normalization"}, pictures, parsePicture(false), digitsCNN},
	{Description{"mnist-cnn", "[act=tanh][,norm=batch|group]", "the convolutional network of TensorFlow Privacy's MNIST tutorial; act=tanh uses bounded activations instead of ReLU (Papernot et al. 2021)"}, pictures, parsePicture(true), mnistCNN},
	{Description{"cifar-abadi", "[norm=batch|group]", "two 5×5 convolutions of 64 channels, 384 hidden units (after Abadi et al. 2016, section 5.3)"}, pictures, parsePicture(false), cifarAbadi},
	{Description{"cifar-tanh", "[norm=batch|group]", "six 3×3 tanh convolutions (after Papernot et al. 2021)"}, pictures, parsePicture(false), cifarTanh},
	{Description{"wrn16-4", "[standardized]", "Wide-ResNet-16-4 with group normalization (Zagoruyko & Komodakis 2016; De et al. 2022); standardized also standardizes the weights of the convolutions"}, pictures, parseStandardized, wideResNet},
	{Description{"bow", "", "a linear function of the set of an example's indices: a bag of words or of hashed n-grams"}, indices, parseNone, bagOfWords},
	{Description{"embbag", "[DIM]", "the mean of the indices' embeddings, of width 16 by default, then two dense layers"}, indices, parseWidth(16), embeddingBag},
	{Description{"lstm", "[HIDDEN]", "a long short-term memory over embedded indices; 128 units by default"}, sequences, parseWidth(128), lstm},
	{Description{"gru", "[HIDDEN]", "gated recurrent units over embedded indices; 128 units by default"}, sequences, parseWidth(128), gru},
	{Description{"transformer", "[tied]", "two blocks with 4 heads and width 128; tied shares the weight of embedding and head"}, sequences, parseTied, transformer},
	{Description{pretrainedName, "DIR[,train=all|head|bias|lora][,lora=RANK][,alpha=ALPHA][,targets=NAME|NAME][,rank-stabilised=true][,last=BLOCKS][,pool=mean|first|layers|head]", "a public checkpoint of BERT, RoBERTa, DistilBERT, GPT-2, Llama, Mistral, Qwen2, Qwen3, Gemma 1 to 3, ViT or DeiT: a folder with config.json, tokenizer.json or preprocessor_config.json, and model.safetensors, or a file of llama.cpp, FILE.gguf; it gets a new head, or predicts the next id"}, sequences, parsePretrained, checkpointed},
	{Description{"layers", "LAYER;LAYER;…", "your own layers, as in layers:fc1=linear(64);relu;fc2=linear(10); a layer is one of " + listSyntax() + "; from=NAME reads a named layer in place of the one before"}, anything, parseLayerList, buildLayerList},
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
