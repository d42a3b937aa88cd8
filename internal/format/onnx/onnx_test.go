package onnx

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/device/cpu"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/format/safetensors"
	"github.com/dptrain/dptrain/models"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
)

// field is one field of a protocol buffer, decoded without a schema.
type field struct {
	number int
	wire   uint64
	value  uint64
	bytes  []byte
}

// parse reads every field of a message.
func parse(t *testing.T, m []byte) []field {
	t.Helper()
	var list []field
	for len(m) > 0 {
		key, n := binary.Uvarint(m)
		m = m[max(n, 0):]
		f := field{number: int(key >> 3), wire: key & 7}
		var size int
		switch f.wire {
		case wireVarint:
			f.value, size = binary.Uvarint(m)
		case wireFixed32:
			f.value, size = uint64(binary.LittleEndian.Uint32(m)), 4
		case wireBytes:
			length, n := binary.Uvarint(m)
			size = n + int(length)
			f.bytes = m[n:size]
		}
		if n <= 0 || size <= 0 {
			t.Fatalf("field %d of wire type %d cannot be read", f.number, f.wire)
		}
		m = m[size:]
		list = append(list, f)
	}
	return list
}

// of returns the messages or strings of a field.
func of(list []field, number int) []string {
	var out []string
	for _, f := range list {
		if f.number == number {
			out = append(out, string(f.bytes))
		}
	}
	return out
}

func build(t *testing.T, spec string, e models.DataSpec) perexample.Build {
	t.Helper()
	b, err := models.Parse(spec, e, 1)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The test decodes the model of a small network field by field. Dropout is not in the model.
func TestModel_Fields(t *testing.T) {
	b := build(t, "mlp:2,act=tanh,dropout=0.5", models.DataSpec{Shape: []int{3}, Classes: 2})
	file, err := Model(b, Interface{}, map[string]string{"epsilon": "2"})
	if err != nil {
		t.Fatal(err)
	}
	model := parse(t, file.Content)
	graph := parse(t, []byte(of(model, 7)[0]))
	var kinds []string
	for _, n := range of(graph, 1) {
		node := parse(t, []byte(n))
		kinds = append(kinds, fmt.Sprint(of(node, 4)[0], of(node, 1)))
	}
	want := []string{
		"Gemm[features fc1.weight fc1.bias]", "Tanh[Gemm]",
		"Gemm[Tanh fc2.weight fc2.bias]", "Identity[Gemm_1]",
	}
	if !reflect.DeepEqual(kinds, want) {
		t.Errorf("nodes %q, want %q", kinds, want)
	}
	net, err := b(1)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range of(graph, 5) {
		p := net.Params[i]
		tensor := parse(t, []byte(text))
		var dims []int
		for _, f := range tensor {
			if f.number == 1 {
				dims = append(dims, int(f.value))
			}
		}
		if of(tensor, 8)[0] != p.Name() || !p.Shape().Eq(dims) {
			t.Errorf("weight %s of shape %v, want %s of shape %v", of(tensor, 8)[0], dims, p.Name(), p.Shape())
		}
		raw := []byte(of(tensor, 9)[0])
		for j, v := range p.Value().Data().([]float32) {
			if got := math.Float32frombits(binary.LittleEndian.Uint32(raw[4*j:])); got != v {
				t.Fatalf("%s[%d] is %v, want %v", p.Name(), j, got, v)
			}
		}
	}
	if got := of(parse(t, []byte(of(model, 14)[0])), 2)[0]; got != "2" {
		t.Errorf("metadata %q", got)
	}
	for _, number := range []int{11, 12} {
		if info := of(graph, number)[0]; !strings.Contains(info, "batch") {
			t.Errorf("%q has no variable batch size", info)
		}
	}
}

// people is the interface of a table. A column has the name of an output.
var people = Interface{
	Columns: []Column{{Name: "age", Bounds: Bounds{0, 120}}, {Name: "class", Words: []string{"a b", "é"}}},
	Classes: []string{"low", "high"},
}

// A table has an input for each column, with its type, and outputs with other names.
func TestModel_Columns(t *testing.T) {
	file, err := Model(build(t, "logistic", models.DataSpec{Shape: []int{4}, Classes: 2}), people, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(file.Inputs, file.Outputs); got != "[age class] [class_1 probabilities output]" {
		t.Errorf("inputs and outputs %s", got)
	}
	model := parse(t, file.Content)
	graph := parse(t, []byte(of(model, 7)[0]))
	for i, kind := range []uint64{float64s, texts} {
		info := parse(t, []byte(of(graph, 11)[i]))
		tensor := parse(t, []byte(of(parse(t, []byte(of(info, 2)[0])), 1)[0]))
		if of(info, 1)[0] != file.Inputs[i] || tensor[0].value != kind {
			t.Errorf("input %d is %s of type %d", i, of(info, 1)[0], tensor[0].value)
		}
	}
	var domains []string
	for _, set := range of(model, 8) {
		domains = append(domains, of(parse(t, []byte(set)), 1)...)
	}
	if len(domains) != 2 || domains[1] != mlDomain {
		t.Errorf("operator sets %q", domains)
	}
}

func TestModel_UnsupportedOperationIsNamed(t *testing.T) {
	for want, body := range map[string]func(n *layer.Builder){
		"rotary": func(n *layer.Builder) {
			x := layer.SelfAttention(n, n.Input("x", 3, 4), "attention", layer.AttentionOptions{Heads: 1, Rotary: true})
			n.SetLoss(layer.SquaredError(n, x, n.Input("y", 3, 4)), x)
		},
		"convGradInput": func(n *layer.Builder) {
			x := layer.ConvTranspose2D(n, n.Input("x", 1, 3, 3), "up", 1, layer.Window{Size: 2}, layer.Identity)
			n.SetLoss(layer.SquaredError(n, x, n.Input("y", 1, 4, 4)), x)
		},
		"dilated average pooling": func(n *layer.Builder) {
			x := layer.AvgPool(n, n.Input("x", 1, 5, 5), layer.Window{Size: 2, Dilation: 2})
			n.SetLoss(layer.SquaredError(n, x, n.Input("y", 1, 3, 3)), x)
		},
		"not computed by one dense layer": func(n *layer.Builder) { // an activation follows the dense layer
			gates, w := layer.Dense(n, n.Input("x", 3, 2), "gates", 8, layer.Tanh), n.Parameter("w", layer.Normal(1), 2, 8)
			apply := func(s op.Operation, in ...*G.Node) *G.Node {
				return n.Try(func() (*G.Node, error) { return op.Apply(s, in...) })
			}
			prediction := apply(op.LSTM{}, gates, w, apply(op.LSTMTrace{}, gates, w))
			n.SetLoss(layer.SquaredError(n, prediction, n.Input("y", 3, 2)), prediction)
		},
		"labels": func(n *layer.Builder) {
			x, y := n.Input("x", 3), n.Input("labels", 3)
			prediction := layer.Dense(n, layer.Add(n, x, y), "fc", 3, layer.Identity)
			n.SetLoss(layer.SquaredError(n, prediction, y), prediction)
		},
	} {
		_, err := Model(func(batch int) (*perexample.Network, error) {
			n := layer.NewBuilder(batch, 1)
			body(n)
			return n.Network()
		}, Interface{}, nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v does not contain %q in one line", err, want)
		}
	}
}

func TestModel_TooLarge(t *testing.T) {
	if err := checkSize(math.MaxInt32); err != nil {
		t.Error(err)
	}
	if err := checkSize(math.MaxInt32 + 1); err == nil || !strings.Contains(err.Error(), "2147483648 bytes") {
		t.Errorf("error %v", err)
	}
}

// sample writes a model, the features of three examples, and the outputs of dptrain on them.
func sample(t *testing.T, dir string, b perexample.Build, vocabulary int, in Interface) {
	t.Helper()
	file, err := Model(b, in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "model.onnx"), file.Content, 0o644); err != nil {
		t.Fatal(err)
	}
	net, err := b(3)
	if err != nil {
		t.Fatal(err)
	}
	program, err := plan.LowerEvaluation(net)
	if err != nil {
		t.Fatal(err)
	}
	m, err := cpu.New(program, plan.Optimizer{Kind: plan.SGD}, false, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r := rand.New(rand.NewPCG(1, 2))
	x := m.Input(0)
	for i := range x {
		x[i] = float32(r.NormFloat64())
		if vocabulary > 0 {
			x[i] = float32(r.IntN(vocabulary+1) - 1) // padding among them, and all of the last
			if i >= len(x)*2/3 {
				x[i] = -1
			}
		}
	}
	features := append([]float32(nil), x...)
	if in.Pixels != nil {
		plane := len(x) / 3 / len(in.Pixels) // of one channel of one of three examples
		for i := range x {
			features[i] = float32(r.IntN(256))
			p := in.Pixels[i/plane%len(in.Pixels)]
			x[i] = float32((float64(features[i])/255 - p.Mean) / p.Deviation)
		}
	}
	if err := m.Forward(); err != nil {
		t.Fatal(err)
	}
	shape := []int(net.Inputs[0].Shape())
	if in.Whole != nil {
		features = surround(features, shape, in.Whole)
		shape = append([]int{shape[0]}, in.Whole...)
	}
	f, err := os.Create(filepath.Join(dir, "answers.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := safetensors.Write(f, []safetensors.Tensor{
		{Name: "features", Shape: shape, Values: features},
		{Name: "output", Shape: net.Output.Shape(), Values: m.Output()},
	}, nil); err != nil {
		t.Fatal(err)
	}
}

// surround puts pictures of a shape [examples, channels, height, width] into the middle of larger ones, in which
// the number of the pixel follows from its place.
func surround(pictures []float32, shape, whole []int) (larger []float32) {
	top, left := (whole[1]-shape[2])/2, (whole[2]-shape[3])/2
	for plane := range shape[0] * shape[1] {
		for y := range whole[1] {
			for x := range whole[2] {
				v := float32(x + y)
				if x >= left && x < left+shape[3] && y >= top && y < top+shape[2] {
					v = pictures[(plane*shape[2]+y-top)*shape[3]+x-left]
				}
				larger = append(larger, v)
			}
		}
	}
	return larger
}

// onnxruntime gives the same outputs for every network of models/ and for the remaining layers.
// DPTRAIN_PYTHON names a Python with onnxruntime. Without it, the test compares the digest of the
// exported models with the one that passed last.
func TestModel_MatchesONNXRuntime(t *testing.T) {
	mnist := models.DataSpec{Shape: []int{1, 28, 28}, Classes: 10}
	cifar := models.DataSpec{Shape: []int{3, 32, 32}, Classes: 10}
	text := models.DataSpec{Shape: []int{7}, Vocabulary: 20, Classes: 3}
	short := models.DataSpec{Shape: []int{7}, Vocabulary: 20, Padded: true, Classes: 3}
	each := models.DataSpec{Shape: []int{6}, Vocabulary: 20, Classes: 20, LabelShape: []int{6}}
	var folders []string
	written := sha256.New()
	add := func(b perexample.Build, vocabulary int, in Interface) {
		dir := t.TempDir()
		sample(t, dir, b, vocabulary, in)
		folders = append(folders, dir)
	}
	pin := func(b perexample.Build, in Interface) {
		file, err := Model(withKnownWeights(b), in, nil)
		if err != nil {
			t.Fatal(err)
		}
		written.Write(file.Content)
	}
	covered := map[string]bool{}
	for _, c := range []struct {
		spec string
		e    models.DataSpec
	}{
		{"logistic", mnist}, {"fourier:9", mnist}, {"mlp:30,20,dropout=0.5", mnist}, {"abadi-mlp", mnist}, {"digits-cnn", mnist}, {"digits-cnn:norm=batch", mnist}, {"mnist-cnn", mnist},
		{"layers:conv=conv2d(4,3,stride=2);tanh;flatten;fc=linear(10)", mnist}, {"cifar-abadi", cifar}, {"cifar-tanh", cifar}, {"wrn16-4", cifar}, {"wrn16-4:standardized", cifar}, {"bow", text}, {"bow", short}, {"embbag", text}, {"lstm:9", text},
		{"gru:9", text}, {"transformer", text}, {"embbag", short}, {"lstm:9", short}, {"gru:9", short}, {"transformer", short}, {"lstm:9", each}, {"gru:9", each}, {"transformer", each}, {"transformer:tied", each},
	} {
		if testing.Short() && c.e.Vocabulary == 0 && c.e.Shape[0] == 3 {
			continue
		}
		b := build(t, c.spec, c.e)
		add(b, c.e.Vocabulary, Interface{})
		if c.e.Shape[0] != 3 { // the others take long, and have nothing that layers has not
			pin(b, Interface{})
		}
		name, _, _ := strings.Cut(c.spec, ":")
		covered[name] = true
	}
	addCheckpoints(t, add)
	covered["hf"] = true
	for _, d := range models.Supported() {
		if !covered[d.Name] && !testing.Short() {
			t.Errorf("model %s is not tried", d.Name)
		}
	}
	add(layers, 0, Interface{})
	add(bidirectional, 0, Interface{})
	add(patches, 0, Interface{})
	pin(layers, Interface{})
	pin(bidirectional, Interface{})
	pin(patches, Interface{})
	gray := Interface{Pixels: []Standardization{{Mean: 0.1307, Deviation: 0.3081}}}
	color := Interface{Pixels: []Standardization{{0.4914, 0.2470}, {0.4822, 0.2435}, {0.4465, 0.2616}}}
	for _, c := range []struct {
		shape []int
		in    Interface
	}{{[]int{1, 5, 4}, gray}, {[]int{3, 4, 5}, color}, {[]int{3, 4, 5}, Interface{Pixels: []Standardization{{0, 1}}}},
		{[]int{3, 4, 5}, Interface{Pixels: color.Pixels, Whole: []int{3, 7, 9}}}, {[]int{1, 5, 4}, Interface{Whole: []int{1, 8, 4}}}} {
		b := build(t, "mlp:4", models.DataSpec{Shape: c.shape, Classes: 3})
		add(b, 0, c.in)
		pin(b, c.in)
	}
	pin(build(t, "logistic", models.DataSpec{Shape: []int{4}, Classes: 2}), people)
	pin(build(t, "logistic", models.DataSpec{Shape: []int{28}, Classes: 2}), Interface{Columns: []Column{
		{Name: "day", Bounds: Bounds{-1e9, 1e9}, Date: true, Missing: Indicator}, {Name: "income", Bounds: Bounds{1, 1e6}, Scale: Log, Missing: Indicator},
		{Name: "n", Bounds: Bounds{-1, 1}, Scale: ASinh, Missing: Zero}, {Name: "job", Words: []string{"a", "b"}, MissingWords: []string{"", "NA"}},
	}})
	pin(build(t, "logistic", models.DataSpec{Shape: []int{4}, Targets: 1}), Interface{Columns: people.Columns, Target: &Bounds{-3, 40}})
	if got := hex.EncodeToString(written.Sum(nil)); got != verifiedDigest {
		t.Errorf("what is written is not what onnxruntime last verified: if it agrees still, the digest is %s", got)
	}

	python := os.Getenv("DPTRAIN_PYTHON")
	if python == "" {
		python = "python3"
	}
	if err := exec.Command(python, "-c", "import onnx, onnxruntime, safetensors.numpy").Run(); err != nil {
		t.Skipf("%s has no onnx, onnxruntime and safetensors: set DPTRAIN_PYTHON to one that does", python)
	}
	out, err := exec.Command(python, append([]string{"testdata/check.py"}, folders...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// addCheckpoints adds a network of each checkpoint that ONNX can express.
func addCheckpoints(t *testing.T, add func(b perexample.Build, vocabulary int, in Interface)) {
	const folder = "hf:../../../models/pretrained/testdata/"
	ids := models.DataSpec{Shape: []int{7}, Vocabulary: 16, Padded: true, Classes: 3}
	eachStep := models.DataSpec{Shape: []int{7}, Vocabulary: 16, Padded: true, Classes: 16, LabelShape: []int{7}}
	for _, name := range []string{"bert", "bert-tanh", "roberta", "distilbert", "bert-mean,pool=mean", "bert,pool=layers"} {
		add(build(t, folder+name, ids), 16, Interface{})
	}
	for _, name := range []string{"bert-masked", "roberta-masked", "distilbert-masked", "gpt2-next"} {
		add(build(t, folder+name, eachStep), 16, Interface{})
	}
	pair := ids
	pair.Marked = true
	add(build(t, folder+"bert-pair", pair), 32, Interface{})
	for _, name := range []string{"vit", "deit", "deit-teacher"} {
		b := build(t, folder+name, models.DataSpec{Shape: []int{3, 8, 12}, Classes: 3})
		add(b, 0, Interface{Pixels: []Standardization{{Mean: 0, Deviation: 1}}})
	}
}

// verifiedDigest is the digest of the exported models when the test last passed with onnxruntime.
const verifiedDigest = "60dcaf3aa662db35d09388de57a398ec606907f3bc8c18f076b544351258272c"

// withKnownWeights replaces the weights by numbers that are the same on every machine.
func withKnownWeights(b perexample.Build) perexample.Build {
	return func(batch int) (*perexample.Network, error) {
		net, err := b(batch)
		if err != nil {
			return nil, err
		}
		for _, p := range net.Params {
			for i := range p.Value().Data().([]float32) {
				p.Value().Data().([]float32)[i] = float32(i % 251)
			}
		}
		return net, nil
	}
}

// layers has every activation, and the image layers that no model has.
func layers(batch int) (*perexample.Network, error) {
	n := layer.NewBuilder(batch, 1)
	n.StandardizeConvWeights()
	x := n.Input("x", 4, 9, 7)
	x = layer.Conv2D(n, x, "conv", 6, layer.Window{Size: 3, Stride: 2, Pad: 2, Dilation: 2, Groups: 2}, layer.SiLU)
	x = layer.MaxPool(n, layer.InstanceNorm(n, x, "norm"), layer.Window{Size: 2, Pad: 1})
	x = layer.AvgPool(n, x, layer.Window{Size: 2, Pad: 1, Stride: 2})
	for i, act := range []layer.Activation{layer.LeakyReLU, layer.ELU, layer.Softplus, layer.Sigmoid, layer.GELU, layer.ReLU, layer.Tanh} {
		x = layer.Dense(n, layer.Flatten(n, x), fmt.Sprintf("fc%d", i), 8, act)
	}
	n.SetLoss(layer.SquaredError(n, x, n.Input("y", 8)), x)
	return n.Network()
}

// bidirectional has stacked bidirectional recurrent layers.
func bidirectional(batch int) (*perexample.Network, error) {
	n := layer.NewBuilder(batch, 1)
	x := layer.RMSNorm(n, layer.Conv1D(n, n.Input("x", 5, 4), "conv", 5, layer.Window{Size: 3, Pad: 1}, layer.ReLU), "norm")
	x = layer.LSTM(n, x, "lstm", 3, layer.RecurrentOptions{Layers: 2, Bidirectional: true})
	x = layer.GRU(n, x, "gru", 4, layer.RecurrentOptions{Bidirectional: true})
	x = layer.SelfAttention(n, x, "attention", layer.AttentionOptions{Heads: 2, Causal: true})
	n.SetLoss(layer.SquaredError(n, x, n.Input("y", 5, 8)), x)
	return n.Network()
}

// patches has the layers of networks that read pictures as sequences, with more steps than a slice reads.
func patches(batch int) (*perexample.Network, error) {
	n := layer.NewBuilder(batch, 1)
	x := layer.Sequence(n, layer.StandardizeChannels(n, n.Input("x", 2, 17, 16), "pixels", []float64{0.5, 0.4}, []float64{0.25, 2}))
	x = layer.Concatenate(n, layer.Token(n, x, "class"), layer.Token(n, x, "distillation"), x)
	x = layer.AddToSteps(n, layer.Dense(n, x, "fc", 3, layer.Identity), "positions")
	x = layer.Add(n, layer.Step(n, x, 0), layer.Add(n, layer.Step(n, x, 1), layer.Step(n, x, 270)))
	n.SetLoss(layer.SquaredError(n, x, n.Input("y", 3)), x)
	return n.Network()
}
