package models

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/internal/nearest"
	"github.com/dptrain/dptrain/models/layer"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// layerList is a network that its name spells out: the layers between ";", each of which reads the output
// of the layer before.
//
//	conv1=conv2d(16,8,stride=2,pad=3);tanh;maxpool(2);flatten;fc=linear(10)
//
// NAME= names a layer and its parameters, and from=NAME reads the output of a named layer in place of that
// of the layer before. add(NAME) adds the output of a named layer to it. The name input stands for the features.
type layerList []listedLayer

type listedLayer struct {
	name    string
	kind    layerKind
	numbers []float64
	options map[string]float64
	from    string // "": the layer before
	adds    string
}

// layerKind describes a kind of layer.
type layerKind struct {
	name     string
	required []string // numbers that must be given, in order
	options  []string
	names    bool // its parameters have the layer's name
	fraction bool // its number is from 0 to less than 1, and need not be whole
	open     bool // it takes more numbers, at least one
	build    func(b *layer.Builder, x *G.Node, l *listedLayer, data DataSpec) *G.Node
}

var windowOptions = []string{"stride", "pad", "dilation"}

var layerKinds = []layerKind{
	{name: "linear", required: []string{"outputs"}, options: []string{"bias"}, names: true,
		build: func(b *layer.Builder, x *G.Node, l *listedLayer, _ DataSpec) *G.Node {
			return layer.Dense(b, x, l.name, l.number(0), layer.Identity)
		}},
	{name: "conv2d", required: []string{"channels", "size"}, options: append([]string{"groups", "bias"}, windowOptions...), names: true,
		build: func(b *layer.Builder, x *G.Node, l *listedLayer, _ DataSpec) *G.Node {
			return layer.Conv2D(b, x, l.name, l.number(0), l.window(l.number(1), 1), layer.Identity)
		}},
	{name: "conv1d", required: []string{"channels", "size"}, options: append([]string{"groups", "bias"}, windowOptions...), names: true,
		build: func(b *layer.Builder, x *G.Node, l *listedLayer, _ DataSpec) *G.Node {
			return layer.Conv1D(b, x, l.name, l.number(0), l.window(l.number(1), 1), layer.Identity)
		}},
	{name: "maxpool", required: []string{"size"}, options: windowOptions,
		build: func(b *layer.Builder, x *G.Node, l *listedLayer, _ DataSpec) *G.Node {
			return layer.MaxPool(b, x, l.window(l.number(0), l.number(0)))
		}},
	{name: "avgpool", required: []string{"size"}, options: windowOptions,
		build: func(b *layer.Builder, x *G.Node, l *listedLayer, _ DataSpec) *G.Node {
			return layer.AvgPool(b, x, l.window(l.number(0), l.number(0)))
		}},
	{name: "globalavgpool", build: func(b *layer.Builder, x *G.Node, _ *listedLayer, _ DataSpec) *G.Node {
		return layer.GlobalAvgPool(b, x)
	}},
	{name: "meanovertime", build: func(b *layer.Builder, x *G.Node, _ *listedLayer, _ DataSpec) *G.Node { return layer.MeanOverTime(b, x) }},
	{name: "flatten", build: func(b *layer.Builder, x *G.Node, _ *listedLayer, _ DataSpec) *G.Node { return layer.Flatten(b, x) }},
	{name: "reshape", required: []string{"axis"}, open: true,
		build: func(b *layer.Builder, x *G.Node, l *listedLayer, _ DataSpec) *G.Node {
			dims := make([]int, len(l.numbers))
			for i := range dims {
				dims[i] = l.number(i)
			}
			return layer.Reshape(b, x, dims...)
		}},
	{name: "layernorm", names: true, build: func(b *layer.Builder, x *G.Node, l *listedLayer, _ DataSpec) *G.Node {
		return layer.LayerNorm(b, x, l.name)
	}},
	{name: "groupnorm", required: []string{"groups"}, names: true,
		build: func(b *layer.Builder, x *G.Node, l *listedLayer, _ DataSpec) *G.Node {
			return layer.GroupNorm(b, x, l.name, l.number(0))
		}},
	{name: "embedding", required: []string{"width"}, names: true,
		build: func(b *layer.Builder, x *G.Node, l *listedLayer, data DataSpec) *G.Node {
			return layer.Embedding(b, x, l.name, data.Vocabulary, l.number(0))
		}},
	{name: "dropout", required: []string{"rate"}, fraction: true,
		build: func(b *layer.Builder, x *G.Node, l *listedLayer, _ DataSpec) *G.Node {
			return layer.Dropout(b, x, l.numbers[0])
		}},
	{name: "relu", build: activation(layer.ReLU)},
	{name: "tanh", build: activation(layer.Tanh)},
	{name: "sigmoid", build: activation(layer.Sigmoid)},
	{name: "gelu", build: activation(layer.GELU)},
	{name: "silu", build: activation(layer.SiLU)},
	{name: "elu", build: activation(layer.ELU)},
	{name: "leakyrelu", build: activation(layer.LeakyReLU)},
	{name: "softplus", build: activation(layer.Softplus)},
}

func activation(act layer.Activation) func(*layer.Builder, *G.Node, *listedLayer, DataSpec) *G.Node {
	return func(b *layer.Builder, x *G.Node, _ *listedLayer, _ DataSpec) *G.Node {
		return layer.Activate(b, x, act)
	}
}

// addKind is the kind of a sum, the only one that reads two layers.
const addKind = "add"

func (l *listedLayer) number(i int) int { return int(l.numbers[i]) }

func (l *listedLayer) option(name string, byDefault int) int {
	if v, given := l.options[name]; given {
		return int(v)
	}
	return byDefault
}

func (l *listedLayer) window(size, stride int) layer.Window {
	return layer.Window{Size: size, Stride: l.option("stride", stride), Pad: l.option("pad", 0),
		Dilation: l.option("dilation", 1), Groups: l.option("groups", 0)}
}

const (
	// maxLayers and maxListNumber bound what a typing error, or a file of others, can ask for.
	maxLayers     = 10_000
	maxListNumber = 1 << 24

	featuresName = "input"
)

var layerName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.]*$`)

// parseLayerList parses the layers of a network.
func parseLayerList(text string) (args, error) {
	known := map[string]bool{featuresName: true}
	var list layerList
	for i, statement := range strings.Split(text, ";") {
		l, err := parseListedLayer(strings.TrimSpace(statement), known)
		if err == nil && i >= maxLayers {
			err = fmt.Errorf("a network has at most %d layers", maxLayers)
		}
		if err != nil {
			return args{}, fmt.Errorf("layer %d, %q: %w", i+1, statement, err)
		}
		if l.name != "" {
			known[l.name] = true
		}
		list = append(list, l)
	}
	return args{layers: list}, nil
}

// parseListedLayer parses NAME=KIND(NUMBERS,OPTION=NUMBER,from=NAME).
func parseListedLayer(text string, known map[string]bool) (l listedLayer, err error) {
	head, inside, hasArguments := strings.Cut(text, "(")
	name, kind, named := strings.Cut(head, "=")
	if !named {
		name, kind = "", head
	}
	l.name = name
	switch {
	case text == "":
		return l, fmt.Errorf("it is empty: write layers between semicolons, as in fc1=linear(64);relu;fc2=linear(10)")
	case named && (!layerName.MatchString(name) || known[name]):
		return l, fmt.Errorf("the name %q is taken or has other characters than letters, digits, _ and points: give each layer its own name", name)
	case hasArguments && !strings.HasSuffix(inside, ")"):
		return l, fmt.Errorf("it does not end with a closing parenthesis")
	}
	var fields []string
	if inside = strings.TrimSuffix(inside, ")"); inside != "" {
		fields = strings.Split(inside, ",")
	}
	if kind == addKind {
		l.kind.name = addKind
		if len(fields) == 0 || !known[fields[0]] {
			return l, fmt.Errorf("write add(NAME) or add(NAME,from=NAME) with names of earlier layers, or input")
		}
		l.adds, fields = fields[0], fields[1:]
	}
	if l.kind.name != addKind {
		if l.kind, err = findLayerKind(kind); err != nil {
			return l, err
		}
	}
	if l.kind.names && !named {
		return l, fmt.Errorf("its parameters have no name: write NAME=%s", text)
	}
	l.options = map[string]float64{}
	for _, field := range fields {
		if err := l.set(field, known); err != nil {
			return l, err
		}
	}
	if n := len(l.numbers); n < len(l.kind.required) || n > len(l.kind.required) && !l.kind.open {
		return l, fmt.Errorf("it has %d numbers: write %s", n, l.kind)
	}
	return l, nil
}

// set adds an argument.
func (l *listedLayer) set(field string, known map[string]bool) error {
	key, value, isOption := strings.Cut(field, "=")
	switch {
	case key == "from" && isOption:
		if !known[value] {
			return fmt.Errorf("from=%s names no earlier layer", value)
		}
		l.from = value
		return nil
	case !isOption && l.kind.name == addKind || isOption && !slices.Contains(l.kind.options, key):
		return fmt.Errorf("%s is no option of it: write %s", key, l.kind)
	case !isOption:
		value = field
	}
	v, err := strconv.ParseFloat(value, 64)
	isWhole := v == float64(int(v))
	switch {
	case err != nil, !(v >= 0 && v <= maxListNumber), !isWhole && (!l.kind.fraction || isOption), l.kind.fraction && v >= 1:
		return fmt.Errorf("%q is no number that it can have: write %s", field, l.kind)
	case isOption:
		l.options[key] = v
	default:
		l.numbers = append(l.numbers, v)
	}
	return nil
}

// String is the syntax of a kind.
func (k layerKind) String() string {
	if k.name == addKind {
		return "add(NAME)"
	}
	var fields []string
	for _, r := range k.required {
		fields = append(fields, strings.ToUpper(r))
	}
	if k.open {
		fields = append(fields, "…")
	}
	for _, o := range k.options {
		fields = append(fields, "["+o+"=N]")
	}
	text := k.name
	if len(fields) > 0 {
		text += "(" + strings.Join(fields, ",") + ")"
	}
	if k.names {
		return "NAME=" + text
	}
	return text
}

func findLayerKind(name string) (layerKind, error) {
	known := []string{addKind}
	for _, k := range layerKinds {
		if k.name == name {
			return k, nil
		}
		known = append(known, k.name)
	}
	return layerKind{}, unknown("layer", name, nearest.LikelyTypo(name, known), known)
}

// buildLayerList adds the layers of a network.
func buildLayerList(b *layer.Builder, x *G.Node, data DataSpec, a args) *G.Node {
	outputs := map[string]*G.Node{featuresName: x}
	for _, l := range a.layers {
		if l.from != "" {
			x = outputs[l.from]
		}
		if l.kind.name == addKind {
			x = layer.Add(b, x, outputs[l.adds])
		} else {
			b.UseBias(l.option("bias", 1) != 0)
			x = l.kind.build(b, x, &l, data)
		}
		if l.name != "" {
			outputs[l.name] = x
		}
	}
	return b.Try(func() (*G.Node, error) {
		want := append([]int{x.Shape()[0]}, append(slices.Clone(data.LabelShape), data.outputs())...)
		if !slices.Equal(x.Shape(), want) {
			return nil, fmt.Errorf("the last layer has the outputs %v for an example, and the data need %v", x.Shape()[1:], tensor.Shape(want[1:]))
		}
		return x, nil
	})
}

// listSyntax is the syntax of all layers.
func listSyntax() string {
	kinds := []string{layerKind{name: addKind}.String()}
	for _, k := range layerKinds {
		kinds = append(kinds, k.String())
	}
	return strings.Join(kinds, ", ")
}
