package torch

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
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
	"gorgonia.org/tensor"
)

func parse(t *testing.T, spec string, e models.DataSpec) perexample.Build {
	t.Helper()
	b, err := models.Parse(spec, e, 1)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// every has each kind of parameter whose layout or name differs in PyTorch, and others.
func every(t *testing.T) *perexample.Network {
	t.Helper()
	n := layer.NewBuilder(1, 1)
	x := layer.Embedding(n, n.Input("ids", 4), "embedding", 6, 3)
	x = layer.LSTM(n, x, "lstm", 2, layer.RecurrentOptions{Layers: 2, Bidirectional: true})
	x = layer.LayerNorm(n, layer.GRU(n, x, "gru", 3, layer.RecurrentOptions{}), "norm")
	x = layer.Reshape(n, x, 1, 4, 3)
	x = layer.Conv2D(n, x, "conv", 2, layer.Window{Size: 2}, layer.ReLU)
	prediction := layer.Dense(n, layer.Flatten(n, x), "fc.0.input", 5, layer.Identity)
	n.SetLoss(layer.SquaredError(n, prediction, n.Input("y", 5)), prediction)
	net, err := n.Network()
	if err != nil {
		t.Fatal(err)
	}
	return net
}

// The expected names and shapes are those of the state_dict of equal torch.nn modules.
func TestExport_NamesAndShapes(t *testing.T) {
	tensors, err := Export(every(t))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range tensors {
		got = append(got, fmt.Sprint(x.Name, x.Shape))
	}
	want := strings.Fields(strings.ReplaceAll(`embedding.weight[6,3]
		lstm.weight_ih_l0[8,3] lstm.bias_ih_l0[8] lstm.weight_hh_l0[8,2] lstm.bias_hh_l0[8]
		lstm.weight_ih_l0_reverse[8,3] lstm.bias_ih_l0_reverse[8] lstm.weight_hh_l0_reverse[8,2] lstm.bias_hh_l0_reverse[8]
		lstm.weight_ih_l1[8,4] lstm.bias_ih_l1[8] lstm.weight_hh_l1[8,2] lstm.bias_hh_l1[8]
		lstm.weight_ih_l1_reverse[8,4] lstm.bias_ih_l1_reverse[8] lstm.weight_hh_l1_reverse[8,2] lstm.bias_hh_l1_reverse[8]
		gru.weight_ih_l0[9,4] gru.bias_ih_l0[9] gru.weight_hh_l0[9,3] gru.bias_hh_l0[9]
		norm.weight[3] norm.bias[3] conv.weight[2,1,2,2] conv.bias[2] fc.0.input.weight[5,12] fc.0.input.bias[5]`, ",", "~"))
	for i := range want {
		want[i] = strings.ReplaceAll(want[i], "~", " ")
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("tensors %q,\nwant %q", got, want)
	}
}

// A layer without a bias is a module with bias=False.
func TestExport_LayersWithoutBias(t *testing.T) {
	n := layer.NewBuilder(1, 1)
	n.UseBias(false)
	x := layer.Conv2D(n, n.Input("x", 1, 3, 3), "conv", 2, layer.Window{Size: 2}, layer.ReLU)
	x = layer.Flatten(n, x)
	x = layer.Add(n, layer.Dense(n, x, "fc", 5, layer.Identity), layer.LoRA(n, x, "lora", 5, 3, 1))
	n.SetLoss(layer.SquaredError(n, x, n.Input("y", 5)), x)
	net, err := n.Network()
	if err != nil {
		t.Fatal(err)
	}
	tensors, err := Export(net)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range tensors {
		got = append(got, fmt.Sprint(x.Name, x.Shape))
	}
	if want := []string{"conv.weight[2 1 2 2]", "fc.weight[5 8]", "lora.A.weight[3 8]", "lora.B.weight[5 3]"}; !slices.Equal(got, want) {
		t.Errorf("tensors %q, want %q", got, want)
	}
	values, found, err := Import(net, tensors, nil)
	if err != nil {
		t.Fatal(err)
	}
	if fc := net.Params[1].Value().Data().([]float32); found != PyTorch || !slices.Equal(values["fc.weight"], fc) {
		t.Errorf("in %s layout, read as %v and not as %v", found, values["fc.weight"], fc)
	}
}

// The dense weights of a network without an output are found through its loss. Otherwise a square
// weight would be read without the transposition.
func TestImport_NetworkWithoutOutput(t *testing.T) {
	n := layer.NewBuilder(1, 1)
	x := layer.Dense(n, n.Input("x", 2), "fc", 2, layer.Identity)
	n.SetLoss(layer.SquaredError(n, x, n.Input("y", 2)), nil)
	net, err := n.Network()
	if err != nil {
		t.Fatal(err)
	}
	file := []safetensors.Tensor{{Name: "fc.weight", Shape: []int{2, 2}, Values: []float32{1, 2, 3, 4}}, {Name: "fc.bias", Shape: []int{2}, Values: []float32{5, 6}}}
	values, _, err := Import(net, file, map[string]string{"format": "pt"})
	if err != nil || !slices.Equal(values["fc.weight"], []float32{1, 3, 2, 4}) {
		t.Errorf("PyTorch's rows 1 2 and 3 4 became %v (%v)", values["fc.weight"], err)
	}
	if _, _, err := Import(net, file, nil); err == nil {
		t.Error("a square weight of unknown layout was accepted")
	}
}

// A factor [in, out] of Gorgonia's own matrix product is the weight of a torch.nn.Linear. A factor
// that the product transposes already has PyTorch's layout. A product of parameters only is left
// unchanged.
func TestExport_GorgoniaMatrixProducts(t *testing.T) {
	g := G.NewGraph()
	matrix := func(name string) *G.Node {
		return G.NewMatrix(g, tensor.Float32, G.WithShape(2, 2), G.WithName(name), G.WithInit(G.Zeroes()))
	}
	x := G.NewMatrix(g, tensor.Float32, G.WithShape(1, 2), G.WithName("x"), G.WithInit(G.Zeroes()))
	right, left, turned, low, rank, over := matrix("right"), matrix("left"), matrix("turned"), matrix("low"), matrix("rank"), matrix("over")
	h := G.Must(G.Mul(G.Must(G.Mul(x, right)), G.Must(G.Transpose(turned))))
	h = G.Must(G.Mul(h, G.Must(G.Mul(low, rank))))
	h, err := op.Apply(op.MatMul{TransB: true}, h, over)
	if err == nil {
		h, err = op.Apply(op.MatMul{TransA: true, TransB: true}, left, h)
	}
	if err != nil {
		t.Fatal(err)
	}
	net := &perexample.Network{Batch: 1, Inputs: G.Nodes{x}, Params: G.Nodes{right, left, turned, low, rank, over}, Loss: G.Must(G.Sum(h))}
	var file []safetensors.Tensor
	for _, p := range net.Params {
		file = append(file, safetensors.Tensor{Name: p.Name(), Shape: []int{2, 2}, Values: []float32{1, 2, 3, 4}})
	}
	values, _, err := Import(net, file, map[string]string{"format": "pt"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]float32{"right": {1, 3, 2, 4}, "left": {1, 3, 2, 4}, "turned": {1, 2, 3, 4}, "low": {1, 2, 3, 4}, "rank": {1, 2, 3, 4}, "over": {1, 2, 3, 4}} {
		if !slices.Equal(values[name], want) {
			t.Errorf("%s: PyTorch's rows 1 2 and 3 4 became %v, want %v", name, values[name], want)
		}
	}
	if _, _, err := Import(net, file, nil); err == nil {
		t.Error("square weights were read without a word of their layout")
	}
}

func TestImport_RoundTripsExport(t *testing.T) {
	net := every(t)
	exported, err := Export(net)
	if err != nil {
		t.Fatal(err)
	}
	var own []safetensors.Tensor
	want := map[string][]float32{}
	for _, p := range net.Params {
		v := p.Value().Data().([]float32)
		own = append(own, safetensors.Tensor{Name: p.Name(), Shape: p.Shape(), Values: v})
		want[p.Name()] = v
	}
	for _, c := range []struct {
		file   []safetensors.Tensor
		layout Layout
	}{{own, Dptrain}, {exported, PyTorch}} {
		for _, metadata := range []map[string]string{nil, {"format": string(c.layout)}} {
			got, l, err := Import(net, c.file, metadata)
			if err != nil || l != c.layout || !reflect.DeepEqual(got, want) {
				t.Errorf("layout %q, error %v, equal %t; want layout %q", l, err, reflect.DeepEqual(got, want), c.layout)
			}
		}
	}
}

// PyTorch adds the two biases of a gate.
func TestImport_AddsSecondBias(t *testing.T) {
	net := every(t)
	file, err := Export(net)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range file {
		if strings.Contains(x.Name, "bias_hh") {
			for i := range x.Values {
				x.Values[i]++
			}
		}
	}
	got, _, err := Import(net, file, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range net.Params {
		for i, v := range p.Value().Data().([]float32) {
			want := v
			switch {
			case strings.HasPrefix(p.Name(), "fc"), strings.Contains(p.Name(), "weight"):
			case strings.HasPrefix(p.Name(), "lstm"), p.Name() == "gru.0.hidden.bias", p.Name() == "gru.0.input.bias" && i < 6:
				want++
			}
			if got[p.Name()][i] != want {
				t.Errorf("%s[%d] is %v, want %v", p.Name(), i, got[p.Name()][i], want)
			}
		}
	}
}

// Only the metadata determine the orientation of square matrices.
func TestImport_SquareWeightsNeedMetadata(t *testing.T) {
	b := parse(t, "logistic", models.DataSpec{Shape: []int{3}, Classes: 3})
	net, err := b(1)
	if err != nil {
		t.Fatal(err)
	}
	file, err := Export(net)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Import(net, file, nil); err == nil || !strings.Contains(err.Error(), "format=pt") {
		t.Errorf("got %v", err)
	}
	if _, _, err := Import(net, file, nil, "fc.weight"); err != nil {
		t.Errorf("but for its weight: %v", err)
	}
	weight := net.Params[0].Value().Data().([]float32)
	got, _, err := Import(net, file, map[string]string{"format": "pt"})
	if err != nil || !reflect.DeepEqual(got["fc.weight"], weight) {
		t.Errorf("as PyTorch's: %v %v, want %v", err, got, weight)
	}
	got, _, err = Import(net, file, map[string]string{"format": "dptrain"})
	if err != nil || reflect.DeepEqual(got["fc.weight"], weight) || got["fc.weight"][1] != weight[3] {
		t.Errorf("as our own: %v %v, want the transpose of %v", err, got, weight)
	}
}

// A weight with a single value is the same in both layouts.
func TestImport_SingleValueNeedsNoMetadata(t *testing.T) {
	n := layer.NewBuilder(1, 1)
	prediction := layer.Dense(n, n.Input("x", 1), "fc", 1, layer.Identity)
	n.SetLoss(layer.SquaredError(n, prediction, n.Input("y", 1)), prediction)
	net, err := n.Network()
	if err != nil {
		t.Fatal(err)
	}
	file, err := Export(net)
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := Import(net, file, nil)
	if want := net.Params[0].Value().Data(); err != nil || !reflect.DeepEqual(got["fc.weight"], want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}

	// So is a square one that no dense layer multiplies by.
	n = layer.NewBuilder(1, 1)
	prediction = layer.Flatten(n, layer.Embedding(n, n.Input("ids", 1), "table", 3, 3))
	n.SetLoss(layer.SquaredError(n, prediction, n.Input("y", 3)), prediction)
	if net, err = n.Network(); err != nil {
		t.Fatal(err)
	}
	if file, err = Export(net); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Import(net, file, nil); err != nil {
		t.Errorf("an embedding: %v", err)
	}
}

// An excepted parameter is not read under its PyTorch names either.
func TestImport_SkipsExceptedParameters(t *testing.T) {
	net := every(t)
	file, err := Export(net)
	if err != nil {
		t.Fatal(err)
	}
	for _, except := range [][]string{
		{"gru.0.input.bias"},
		{"gru.0.hidden.weight", "gru.0.hidden.bias"},
		{"lstm.1.reverse.input.weight", "fc.0.input.weight"},
	} {
		got, _, err := Import(net, file, nil, except...)
		if err != nil {
			t.Errorf("but %q: %v", except, err)
			continue
		}
		for _, p := range net.Params {
			want := p.Value().Data()
			if v, read := got[p.Name()]; read == slices.Contains(except, p.Name()) || read && !reflect.DeepEqual(v, want) {
				t.Errorf("but %q: %s is %v, want %v", except, p.Name(), v, want)
			}
		}
	}
}

// PyTorch has two tensors for one bias. Both are read if the layer's other parameters are excepted.
func TestImport_ReadsBothBiases(t *testing.T) {
	net := every(t)
	file, err := Export(net)
	if err != nil {
		t.Fatal(err)
	}
	for cell, hidden := range map[string][]string{"lstm.1": {"lstm.1.hidden.weight"}, "gru.0": {"gru.0.hidden.weight", "gru.0.hidden.bias"}} {
		layer, k, _ := strings.Cut(cell, ".")
		one := slices.Clone(file)
		for i := range one {
			if one[i].Name == layer+".bias_hh_l"+k {
				one[i].Values = slices.Clone(one[i].Values)
				one[i].Values[0] = 100
			}
		}
		want, _, err := Import(net, one, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := Import(net, one, nil, hidden...)
		bias := cell + ".input.bias"
		if err != nil || want[bias][0] < 90 || !slices.Equal(got[bias], want[bias]) {
			t.Errorf("%s: %v, want %v (%v)", bias, got[bias], want[bias], err)
		}
	}
}

func TestImport_ReportsMismatches(t *testing.T) {
	net, err := parse(t, "mlp:4", models.DataSpec{Shape: []int{3}, Classes: 2})(1)
	if err != nil {
		t.Fatal(err)
	}
	file := []safetensors.Tensor{
		{Name: "fc1.weight", Shape: []int{4, 3}, Values: make([]float32, 12)},
		{Name: "fc1.bias", Shape: []int{5}, Values: make([]float32, 5)},
		{Name: "fc2.weight", Shape: []int{2, 4}, Values: make([]float32, 8)},
		{Name: "fc3.bias", Shape: []int{2}, Values: make([]float32, 2)},
	}
	_, _, err = Import(net, file, nil)
	want := "the tensors do not match the network: 2 match; missing fc2.bias; not in the network fc3.bias; wrong shape fc1.bias [5] instead of [4]; name the layers to initialise afresh, and remove from the file the tensors that the network does not have"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}

	// The error describes the layout with fewer mismatches.
	file[0].Shape, file[1].Shape, file[2].Shape = []int{3, 4}, []int{4}, []int{4, 2}
	if _, _, err := Import(net, file, nil); err == nil || !strings.Contains(err.Error(), ": 3 match; missing fc2.bias; not in the network fc3.bias; ") {
		t.Errorf("dptrain layout: %v", err)
	}
	if _, _, err := Import(every(t), nil, nil); err == nil || !strings.Contains(err.Error(), ": 0 match; missing embedding.weight, ") || !strings.Contains(err.Error(), " more; ") {
		t.Errorf("empty file: %v", err)
	}
}

// store writes tensors to a file in the folder.
func store(t *testing.T, dir, name string, tensors []safetensors.Tensor) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := safetensors.Write(f, tensors, map[string]string{"format": string(PyTorch)}); err != nil {
		t.Fatal(err)
	}
}

// Networks written in NumPy from PyTorch's documentation give the same outputs with the exported
// weights. DPTRAIN_PYTHON names a Python with safetensors and NumPy.
func TestExport_MatchesNumPyNetworks(t *testing.T) {
	python := os.Getenv("DPTRAIN_PYTHON")
	if python == "" {
		python = "python3"
	}
	if err := exec.Command(python, "-c", "import numpy, safetensors").Run(); err != nil {
		t.Skipf("%s has no numpy and safetensors: set DPTRAIN_PYTHON to one that does", python)
	}
	mnist := models.DataSpec{Shape: []int{1, 28, 28}, Classes: 10}
	text := models.DataSpec{Shape: []int{7}, Vocabulary: 20, Classes: 3}
	args := []string{"testdata/check.py"}
	for spec, e := range map[string]models.DataSpec{"mlp:20": mnist, "mnist-cnn": mnist, "lstm:9": text, "gru:9": text} {
		dir := t.TempDir()
		net, err := parse(t, spec, e)(3)
		if err != nil {
			t.Fatal(err)
		}
		exported, err := Export(net)
		if err != nil {
			t.Fatal(err)
		}
		store(t, dir, "model.safetensors", exported)
		store(t, dir, "answers.safetensors", answers(t, net, e.Vocabulary))
		name, _, _ := strings.Cut(spec, ":")
		args = append(args, name+"="+dir)
	}
	out, err := exec.Command(python, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// answers runs the network on random features.
func answers(t *testing.T, net *perexample.Network, vocabulary int) []safetensors.Tensor {
	t.Helper()
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
			x[i] = float32(r.IntN(vocabulary))
		}
	}
	features := append([]float32(nil), x...)
	if err := m.Forward(); err != nil {
		t.Fatal(err)
	}
	return []safetensors.Tensor{
		{Name: "features", Shape: net.Inputs[0].Shape(), Values: features},
		{Name: "output", Shape: net.Output.Shape(), Values: append([]float32(nil), m.Output()...)},
	}
}
