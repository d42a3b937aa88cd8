package models

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

func countParameters(net *perexample.Network) int {
	n := 0
	for _, p := range net.Params {
		n += p.Shape().TotalSize()
	}
	return n
}

// bindMaskSeeds binds consecutive mask seeds to the network if it has dropout.
func bindMaskSeeds(t *testing.T, net *perexample.Network, row int) {
	t.Helper()
	if net.MaskSeed == nil {
		return
	}
	v := make([]float32, net.Batch*op.MaskSeedWidth)
	for i := range net.Batch {
		op.WriteMaskSeed(v[i*op.MaskSeedWidth:], uint64(row+i), 3)
	}
	if err := G.Let(net.MaskSeed, tensor.New(tensor.WithShape(net.Batch, op.MaskSeedWidth), tensor.WithBacking(v))); err != nil {
		t.Fatal(err)
	}
}

// bindRandomInputs binds random features and labels to the network's inputs.
func bindRandomInputs(t *testing.T, net *perexample.Network, data DataSpec, r *rand.Rand) {
	t.Helper()
	bindMaskSeeds(t, net, 0)
	for i, in := range net.Inputs {
		v := make([]float32, in.Shape().TotalSize())
		for j := range v {
			switch {
			case i == 1 && data.Targets > 0:
				v[j] = float32(r.NormFloat64())
			case i == 1:
				v[j] = float32(r.IntN(data.Classes))
			case data.Padded:
				v[j] = float32(max(-1, r.IntN(2*data.Vocabulary)-data.Vocabulary))
			case data.Vocabulary > 0:
				v[j] = float32(r.IntN(data.Vocabulary))
			default:
				v[j] = float32(r.NormFloat64())
			}
		}
		if err := G.Let(in, tensor.New(tensor.WithShape(in.Shape()...), tensor.WithBacking(v))); err != nil {
			t.Fatal(err)
		}
	}
}

// Every model has the number of parameters of its published description. Its gradient is that
// of its loss. The loss of an untrained classifier is about log(classes).
func TestParse_ModelsMatchPublications(t *testing.T) {
	mnist := DataSpec{Shape: []int{1, 28, 28}, Classes: 10}
	cifar := DataSpec{Shape: []int{3, 32, 32}, Classes: 10}
	text := DataSpec{Shape: []int{64}, Vocabulary: 200, Classes: 2}
	const transformerBlock = 4*(128*128+128) + 128*512 + 512 + 512*128 + 128 + 4*128
	for _, c := range []struct {
		spec       string
		e          DataSpec
		parameters int
		tried      []int // the shape for the gradient check if e's is too slow
	}{
		{"logistic", DataSpec{Shape: []int{784}, Classes: 10}, 7850, nil},
		{"fourier", DataSpec{Shape: []int{7}, Classes: 3}, 24 + 128*3, nil},
		{"fourier:9,columns=3", DataSpec{Shape: []int{7}, Classes: 3}, 24 + 27, nil},
		{"mlp", mnist, 784*128 + 128 + 1290, nil},
		{"mlp:30,20,act=tanh", DataSpec{Shape: []int{7}, Classes: 3}, 7*30 + 30 + 30*20 + 20 + 63, nil},
		{"mlp:30,20,dropout=0.5", DataSpec{Shape: []int{7}, Classes: 3}, 7*30 + 30 + 30*20 + 20 + 63, nil},
		{"abadi-mlp", DataSpec{Shape: []int{60}, Classes: 10}, 71010, nil},
		{"digits-cnn", mnist, 208 + 1168 + 144*32 + 32 + 330, nil},
		{"mnist-cnn", mnist, 26010, nil}, // the count of Keras
		{"mnist-cnn:act=tanh", mnist, 26010, nil},
		{"bow", DataSpec{Shape: []int{64}, Vocabulary: 200, Classes: 3}, 600, nil},
		{"embbag", DataSpec{Shape: []int{128}, Vocabulary: 200, Classes: 2}, 200*16 + 272 + 34, nil},
		{"embbag:4", DataSpec{Shape: []int{5}, Vocabulary: 7, Classes: 2}, 28 + 20 + 10, nil},
		{"cifar-abadi", DataSpec{Shape: []int{3, 24, 24}, Classes: 10}, 4864 + 102464 + 2304*384 + 384 + 3850, []int{3, 8, 8}},
		{"cifar-tanh", cifar, 550570, []int{3, 8, 8}}, // Papernot et al. 2021, table 2
		// Zagoruyko & Komodakis (2016) have no biases of convolutions (2,256) and 2.7
		// million parameters.
		{"wrn16-4", cifar, 2748890 + 2256, []int{3, 8, 8}},
		{"wrn16-4:standardized", cifar, 2748890 + 2256, []int{3, 8, 8}},
		{"lstm", text, 100*200 + 228*512 + 512 + 258, []int{4}},
		{"lstm:7", text, 100*200 + 107*28 + 28 + 16, []int{4}},
		{"gru:7", text, 100*200 + 107*21 + 21 + 7 + 16, []int{4}},
		{"transformer", text, 128*200 + 128*64 + 2*transformerBlock + 256 + 258, []int{4}},
	} {
		t.Run(c.spec, func(t *testing.T) {
			build, err := Parse(c.spec, c.e, 1)
			if err != nil {
				t.Fatal(err)
			}
			net, err := build(2)
			if err != nil {
				t.Fatal(err)
			}
			if got := countParameters(net); got != c.parameters {
				t.Errorf("%d parameters, want %d", got, c.parameters)
			}
			if !net.Output.Shape().Eq(tensor.Shape{2, c.e.Classes}) || !net.Losses.Shape().Eq(tensor.Shape{2}) {
				t.Errorf("output %v, losses %v", net.Output.Shape(), net.Losses.Shape())
			}
			if c.tried != nil {
				c.e.Shape = c.tried
				if build, err = Parse(c.spec, c.e, 1); err != nil {
					t.Fatal(err)
				}
				if net, err = build(2); err != nil {
					t.Fatal(err)
				}
			}
			checkGradient(t, net, c.e)
		})
	}
}

// The windows, strides and activations match the descriptions. The number of parameters does
// not depend on them.
func TestParse_OperationsMatchDescriptions(t *testing.T) {
	conv := func(size, stride, pad int, act string) string {
		return fmt.Sprintf("conv2d{k%[1]dx%[1]d,s%[2]dx%[2]d,p%[3]dx%[3]d,d1x1,g1,%[4]s} ", size, stride, pad, act)
	}
	const halve, overlap, relu = "maxPool2d{k2x2,s2x2,p0x0,d1x1} ", "maxPool2d{k2x2,s1x1,p0x0,d1x1} ", "activate{relu} "
	keras := func(act string) string {
		return conv(8, 2, 3, act) + overlap + conv(4, 2, 0, act) + overlap + "linear{" + act + "} linear{identity} "
	}
	wide := conv(3, 1, 1, "identity")
	for _, stride := range []int{1, 2, 2} {
		second := relu + conv(3, 1, 1, "identity")
		wide += relu + conv(1, stride, 0, "identity") + conv(3, stride, 1, "identity") + second + second + second
	}
	wide += relu + "linear{identity} "
	mnist, cifar := DataSpec{Shape: []int{1, 28, 28}, Classes: 10}, DataSpec{Shape: []int{3, 32, 32}, Classes: 10}
	for _, c := range []struct {
		spec string
		e    DataSpec
		want string
	}{
		{"logistic", mnist, "linear{identity} "},
		{"fourier", mnist, "linear{identity} linear{identity} linear{identity} "},
		{"mlp:3", mnist, "linear{relu} linear{identity} "},
		{"mlp:3,act=relu", mnist, "linear{relu} linear{identity} "},
		{"mlp:3,1,act=tanh,dropout=0.5", mnist, "linear{tanh} dropout{0.5,1,1} linear{tanh} dropout{0.5,1,2} linear{identity} "},
		{"abadi-mlp", mnist, "linear{relu} linear{identity} "},
		{"digits-cnn", mnist, conv(5, 2, 2, "tanh") + halve + conv(3, 1, 1, "tanh") + halve + "linear{tanh} linear{identity} "},
		{"mnist-cnn", mnist, keras("relu")},
		{"mnist-cnn:act=tanh", mnist, keras("tanh")},
		{"cifar-abadi", cifar, strings.Repeat(conv(5, 1, 2, "relu")+halve, 2) + "linear{relu} linear{identity} "},
		{"cifar-tanh", cifar, strings.Repeat(conv(3, 1, 1, "tanh")+conv(3, 1, 1, "tanh")+halve, 3) + "linear{tanh} linear{identity} "},
		{"wrn16-4", cifar, wide},
		{"wrn16-4:standardized", cifar, strings.ReplaceAll(wide, "conv2d", "standardized conv2d")},
	} {
		build, err := Parse(c.spec, c.e, 1)
		if err != nil {
			t.Fatal(err)
		}
		net, err := build(1)
		if err != nil {
			t.Fatal(err)
		}
		got, seen := "", map[*G.Node]bool{}
		var visit func(n *G.Node)
		visit = func(n *G.Node) {
			if seen[n] || n.Op() == nil {
				return
			}
			seen[n] = true
			for _, x := range op.CanonicalOperands(n) {
				visit(x)
			}
			switch s := op.Canonical(n).(type) {
			case op.Conv2D, op.MaxPool2D, op.Linear, op.Dropout, op.Activate:
				got += fmt.Sprint(s, " ")
			case op.Normalize:
				if s.Eps < 1e-6 { // of weights
					got += "standardized "
				}
			}
		}
		visit(net.Output)
		if got != c.want {
			t.Errorf("%s is\n%s, want\n%s", c.spec, got, c.want)
		}
		if b := net.Params[1]; (b.Value().Data().([]float32)[0] == 0) != strings.HasPrefix(c.spec, "mnist-cnn") { // as in Keras
			t.Errorf("%s: %s starts at %v", c.spec, b.Name(), b.Value())
		}
	}
}

// Every model can predict targets, with the squared error as its loss.
func TestParse_Targets(t *testing.T) {
	for _, m := range Supported() {
		f, _ := find(m.Name)
		data := DataSpec{Shape: []int{1, 28, 28}, Targets: 2}
		spec := m.Name
		switch {
		case f.reads == anything:
			spec += ":flatten;fc=linear(2)"
		case m.Name == pretrainedName:
			spec += ":pretrained/testdata/bert"
			data = DataSpec{Shape: []int{5}, Vocabulary: 7, Targets: 2}
		case f.reads >= indices:
			data = DataSpec{Shape: []int{5}, Vocabulary: 7, Targets: 2}
		}
		build, err := Parse(spec, data, 1)
		if err != nil {
			t.Error(err)
			continue
		}
		net, err := build(3)
		if err != nil {
			t.Fatal(err)
		}
		if !net.Output.Shape().Eq(tensor.Shape{3, 2}) || !net.Losses.Shape().Eq(tensor.Shape{3}) || op.OperationOf(net.Losses) != (op.SquaredError{}) {
			t.Errorf("%s: output %v, losses %v by %v", m.Name, net.Output.Shape(), net.Losses.Shape(), net.Losses.Op())
		}
	}
}

// If each step has a label, the loss is the mean over the steps.
func TestParse_LabelForEachStep(t *testing.T) {
	data := DataSpec{Shape: []int{6}, Vocabulary: 50, Classes: 50, LabelShape: []int{6}}
	for _, spec := range []string{"lstm:9", "gru:9", "transformer", "transformer:tied"} {
		t.Run(spec, func(t *testing.T) {
			build, err := Parse(spec, data, 1)
			if err != nil {
				t.Fatal(err)
			}
			net, err := build(2)
			if err != nil {
				t.Fatal(err)
			}
			if !net.Output.Shape().Eq(tensor.Shape{2, 6, 50}) || !net.Losses.Shape().Eq(tensor.Shape{2}) {
				t.Errorf("output %v, losses %v", net.Output.Shape(), net.Losses.Shape())
			}
			checkGradient(t, net, data)
		})
	}
}

// In a language model no step sees later steps or padding.
func TestTransformer_IsCausal(t *testing.T) {
	data := DataSpec{Shape: []int{6}, Vocabulary: 50, Classes: 50, LabelShape: []int{6}}
	answers := func(ids []float32) []float32 {
		build, err := Parse("transformer", data, 1)
		if err != nil {
			t.Fatal(err)
		}
		net, err := build(1)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range [][]float32{ids, {0, 0, 0, 0, 0, 0}} {
			if err := G.Let(net.Inputs[i], tensor.New(tensor.WithShape(1, 6), tensor.WithBacking(v))); err != nil {
				t.Fatal(err)
			}
		}
		var y G.Value
		G.Read(net.Output, &y)
		vm := G.NewTapeMachine(net.Loss.Graph())
		defer vm.Close()
		if err := vm.RunAll(); err != nil {
			t.Fatal(err)
		}
		return y.Data().([]float32)
	}
	first, second := answers([]float32{1, 2, 3, 4, 5, 6}), answers([]float32{1, 2, 3, 9, 5, 6})
	for step := range 6 {
		if same := slices.Equal(first[50*step:50*step+50], second[50*step:50*step+50]); same != (step < 3) {
			t.Errorf("the output of step %d is independent of step 3: %t", step, same)
		}
	}

	build, err := Parse("transformer", DataSpec{Shape: []int{6}, Vocabulary: 50, Classes: 2}, 1)
	if err != nil {
		t.Fatal(err)
	}
	net, err := build(1)
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for _, n := range net.Loss.Graph().AllNodes() {
		if a, ok := op.OperationOf(n).(op.Attention); ok {
			blocks++
			if in := op.Operands(n); a != (op.Attention{Heads: 4}) || len(in) != 2 || in[1] != net.Inputs[0] {
				t.Errorf("%v of %v: want 4 heads that do not see padding", a, in)
			}
		}
	}
	if blocks != 2 {
		t.Errorf("%d blocks, want 2", blocks)
	}
}

// checkGradient takes a small step against the gradient and compares the decrease of the
// loss with the prediction from the gradient.
func checkGradient(t *testing.T, net *perexample.Network, data DataSpec) {
	grads, err := G.Grad(net.Loss, net.Params...)
	if err != nil {
		t.Fatal(err)
	}
	bindRandomInputs(t, net, data, rand.New(rand.NewPCG(1, 1)))
	values := make([]G.Value, len(grads))
	for i, g := range grads {
		G.Read(g, &values[i])
	}
	var loss G.Value
	G.Read(net.Loss, &loss)
	vm := G.NewTapeMachine(net.Loss.Graph())
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		t.Fatal(err)
	}
	before := float64(loss.Data().(float32))
	if chance := 2 * math.Log(float64(data.Classes)); before < chance/2 || before > 2*chance {
		t.Errorf("loss of two examples before training is %v, want about %v", before, chance)
	}
	var square float64
	for i, v := range values {
		var own float64
		for _, g := range v.Data().([]float32) {
			own += float64(g) * float64(g)
		}
		if own == 0 || math.IsNaN(own) {
			t.Errorf("the gradient of %s is %v", net.Params[i].Name(), own)
		}
		square += own
	}
	step := 2e-3 / square // a decrease of about 0.002: larger than rounding errors, smaller than the effect of curvature
	for i, v := range values {
		w := net.Params[i].Value().Data().([]float32)
		for j, g := range v.Data().([]float32) {
			w[j] -= float32(step * float64(g))
		}
	}
	vm.Reset()
	if err := vm.RunAll(); err != nil {
		t.Fatal(err)
	}
	if fall := before - float64(loss.Data().(float32)); !(math.Abs(fall/2e-3-1) <= 0.05) {
		t.Errorf("the loss decreased by %g, want about 0.002", fall)
	}
}

func TestParse_Invalid(t *testing.T) {
	mnist := DataSpec{Shape: []int{1, 28, 28}, Classes: 10}
	for _, c := range []struct {
		spec string
		e    DataSpec
		want string
	}{
		{"mnist-cn", mnist, `did you mean "mnist-cnn"?`},
		{"mnist-cnn:act=relu", mnist, "write act=tanh, norm=batch or norm=group, or remove it"},
		{"", mnist, "unknown model"},
		{"logistic:3", mnist, "takes no arguments"},
		{"fourier:0", mnist, `"0"`},
		{"fourier:5,6", mnist, `"6" is given twice`},
		{"fourier:columns=2,columns=2", mnist, "is given twice"},
		{"fourier:columns=", mnist, "columns=N, from 1 to 65536"},
		{"fourier:5,", mnist, `""`},
		{"mlp:0", mnist, `"0"`},
		{"mlp:12,", mnist, `""`},
		{"mlp:65537", mnist, "65536"},
		{"mlp:dropout=-0.1", mnist, "less than 1"},
		{"mlp:dropout=relu", mnist, "less than 1"},
		{"mlp:dropout=tanh", mnist, "less than 1"},
		{"mlp:99999999999999999999", mnist, "65536"},
		{"mlp:act=gelu", mnist, "act=relu, act=tanh"},
		{"mlp:act=relu,act=relu", mnist, "twice"},
		{"mlp:dropout=1", mnist, "less than 1"},
		{"mlp:dropout=x", mnist, "less than 1"},
		{"mlp:drop=0.5", mnist, "write act=relu, act=tanh or dropout=RATE"},
		{"embbag:x", DataSpec{Shape: []int{3}, Vocabulary: 5, Classes: 2}, `"x"`},
		{"mlp", DataSpec{Shape: []int{3}, Classes: 1}, "1 classes"},
		{"mlp", DataSpec{Shape: []int{3}, Classes: 2, Targets: 1}, "either targets or a class"},
		{"mlp", DataSpec{Shape: []int{3}, Targets: -1}, "either targets or a class"},
		{"transformer:tied", DataSpec{Shape: []int{3}, Vocabulary: 5, Targets: 1}, "label for each step"},
		{"mlp", DataSpec{Classes: 2}, "no features"},
		{"mlp", DataSpec{Shape: []int{-1}, Classes: 2}, "every axis needs"},
		{"transformer", DataSpec{Shape: []int{3}, Vocabulary: 5, Targets: 1, LabelShape: []int{3}}, "either targets or a class"},
		{"embbag", DataSpec{Shape: []int{3}, Classes: 2}, "lists of indices"},
		{"embbag", DataSpec{Shape: []int{2, 3}, Vocabulary: 5, Classes: 2}, "lists of indices"},
		{"mlp", DataSpec{Shape: []int{3}, Vocabulary: 5, Classes: 2}, "use bow or embbag"},
		{"embbag", mnist, "lists of indices"},
		{"bow", mnist, "lists of indices"},
		{"bow:3", DataSpec{Shape: []int{3}, Vocabulary: 5, Classes: 2}, "no arguments"},
		{"lstm", DataSpec{Shape: []int{3}, Vocabulary: 5, Unordered: true, Classes: 2}, "use bow or embbag"},
		{"lstm:x", DataSpec{Shape: []int{3}, Vocabulary: 5, Classes: 2}, `"x"`},
		{"gru", mnist, "lists of indices"},
		{"wrn16-4:standardised", DataSpec{Shape: []int{3, 8, 8}, Classes: 2}, `"standardised"`},
		{"transformer:big", DataSpec{Shape: []int{3}, Vocabulary: 5, Classes: 2}, `"big"`},
		{"transformer:tied", DataSpec{Shape: []int{3}, Vocabulary: 5, Classes: 5}, "label for each step"},
		{"transformer:tied", DataSpec{Shape: []int{3}, Vocabulary: 5, Classes: 4, LabelShape: []int{3}}, "vocabulary of 5"},
		{"transformer", DataSpec{Shape: []int{3}, Vocabulary: 5, Classes: 4, LabelShape: []int{2}}, "labels of shape [2]"},
		{"embbag", DataSpec{Shape: []int{3}, Vocabulary: 5, Classes: 4, LabelShape: []int{3}}, "sequence model,"},
		{"mnist-cnn", DataSpec{Shape: []int{784}, Classes: 10}, "reads pictures"},
		{"mnist-cnn", DataSpec{Shape: []int{1, 8, 8}, Classes: 10}, "conv2"},
	} {
		_, err := Parse(c.spec, c.e, 1)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q of %v: %v does not contain %q in one line", c.spec, c.e, err, c.want)
		}
	}
}

func TestPresets_NameExistingModels(t *testing.T) {
	list := Presets()
	if len(list) == 0 {
		t.Fatal("no presets")
	}
	list[0].Flags[0].Value = "another"
	if list = Presets(); list[0].Flags[0].Value == "another" {
		t.Error("a caller can change the presets")
	}
	for _, p := range list {
		found, err := FindPreset(p.Name)
		if err != nil || found.Source == "" || found.Published.Accuracy == "" || found.Reached.Accuracy == "" {
			t.Errorf("preset %s: %v, %+v", p.Name, err, found)
		}
		flags := map[string]string{}
		for _, f := range p.Flags {
			if flags[f.Name] != "" && f.Name != "group" || f.Value == "" || strings.HasPrefix(f.Name, "-") {
				t.Errorf("preset %s: flag %q = %q", p.Name, f.Name, f.Value)
			}
			flags[f.Name] = f.Value
		}
		if _, err := Parse(flags["model"], DataSpec{Shape: []int{1, 32, 32}, Classes: 10}, 1); err != nil {
			t.Errorf("preset %s: %v", p.Name, err)
		}
	}
	if _, err := FindPreset("tfp-mnst"); err == nil || !strings.Contains(err.Error(), `did you mean "tfp-mnist"?`) {
		t.Errorf("got %v", err)
	}
}

func TestSupported_DescribesEveryModel(t *testing.T) {
	for _, d := range Supported() {
		if _, ok := find(d.Name); !ok || d.Summary == "" {
			t.Errorf("%+v", d)
		}
	}
}

// A projected network equals the network that reads an example's products with the
// directions, and has the same number of parameters (Abadi et al. 2016, section 5.2: 60
// inputs).
func TestParseProjected_MatchesProductsAsInputs(t *testing.T) {
	data := DataSpec{Shape: []int{1, 28, 28}, Classes: 10}
	r := rand.New(rand.NewPCG(9, 9))
	directions := make([]float32, 60*784)
	for i := range directions {
		directions[i] = float32(r.NormFloat64()) / 28
	}
	for spec, want := range map[string]int{"abadi-mlp": 71010, "logistic": 610, "mlp:20,10,act=tanh": 61*20 + 210 + 110} {
		build, err := ParseProjected(spec, data, 1, directions)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := build.NeedsSingleExamples(); err != nil {
			t.Error(err)
		}
		net, err := build(2)
		if err != nil {
			t.Fatal(err)
		}
		if got := countParameters(net); got != want {
			t.Errorf("%s: %d parameters, want %d", spec, got, want)
		}
		checkGradient(t, net, data)
	}
	for spec, data := range map[string]DataSpec{
		"digits-cnn": data, "wrn16-4": data,
		"embbag": {Shape: []int{60}, Vocabulary: 9, Classes: 2},
		"lstm":   {Shape: []int{60}, Vocabulary: 9, Classes: 2},
		"mlp":    {Shape: []int{59}, Classes: 2},
	} {
		if _, err := ParseProjected(spec, data, 1, directions); err == nil || strings.ContainsRune(err.Error(), '\n') {
			t.Errorf("%s with directions: %v", spec, err)
		}
	}
	if _, err := ParseProjected("mlp", data, 1, []float32{}); err == nil {
		t.Error("ParseProjected ignored the directions")
	}
}
