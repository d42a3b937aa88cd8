package models

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	G "gorgonia.org/gorgonia"
)

// A network that is spelled out computes what the model of package models does: initial weights depend on
// the names only.
func TestLayerList_IsTheModelThatItSpellsOut(t *testing.T) {
	pictures := DataSpec{Shape: []int{1, 28, 28}, Classes: 10}
	for model, c := range map[string]struct {
		layers string
		data   DataSpec
	}{
		"mlp:8,act=tanh": {"flatten;fc1=linear(8);tanh;fc2=linear(10)", pictures},
		"digits-cnn": {"conv1=conv2d(8,5,stride=2,pad=2);tanh;maxpool(2);conv2=conv2d(16,3,pad=1);tanh;maxpool(2);" +
			"flatten;fc1=linear(32);tanh;fc2=linear(10)", pictures},
		"digits-cnn:norm=group": {"conv1=conv2d(8,5,stride=2,pad=2);conv1.norm=groupnorm(2);tanh;maxpool(2,stride=2);" +
			"conv2=conv2d(16,3,pad=1); conv2.norm=groupnorm(4); tanh; maxpool(2); flatten;fc1=linear(32);tanh;fc2=linear(10)", pictures},
	} {
		outputs := map[string][]float32{}
		for _, spec := range []string{model, "layers:" + c.layers} {
			build, err := Parse(spec, c.data, 3)
			if err != nil {
				t.Fatal(err)
			}
			net, err := build(2)
			if err != nil {
				t.Fatal(err)
			}
			bindRandomInputs(t, net, c.data, rand.New(rand.NewPCG(5, 5)))
			var y G.Value
			G.Read(net.Output, &y)
			vm := G.NewTapeMachine(net.Loss.Graph())
			if err := vm.RunAll(); err != nil {
				t.Fatal(err)
			}
			vm.Close()
			outputs[spec] = y.Data().([]float32)
		}
		for i, v := range outputs[model] {
			if got := outputs["layers:"+c.layers][i]; math.Abs(float64(got-v)) > 1e-5 {
				t.Errorf("%s: output %d is %v, and %v of the layers", model, i, v, got)
			}
		}
	}
}

func TestLayerList_NamesWhatIsWrong(t *testing.T) {
	data := DataSpec{Shape: []int{4}, Classes: 3}
	for layers, want := range map[string]string{
		"":                                      "it is empty",
		"fc=linear(3);;":                        `layer 2, "": it is empty`,
		"linear(3)":                             "write NAME=linear(3)",
		"fc=linear":                             "write NAME=linear(OUTPUTS,[bias=N])",
		"fc=linear(3,4)":                        "it has 2 numbers",
		"fc=linear(-3)":                         "no number that it can have",
		"fc=linear(3.5)":                        "no number that it can have",
		"fc=linear(3":                           "closing parenthesis",
		"fc=linear(3,stride=2)":                 "stride is no option",
		"fc=liner(3)":                           `did you mean "linear"?`,
		"fc=linear(3);fc=linear(3)":             `the name "fc" is taken`,
		"f c=linear(3)":                         `the name "f c"`,
		"input=linear(3)":                       `the name "input" is taken`,
		"fc=linear(3,from=later);later=relu":    "names no earlier layer",
		"fc=linear(3);add(fc,fc)":               "fc is no option of it: write add(NAME)",
		"fc=linear(3);add(input)":               "add",
		"dropout(1)":                            "no number that it can have",
		"fc=linear(5)":                          "has the outputs (5) for an example, and the data need (3)",
		"conv=conv2d(3,2);flatten;fc=linear(3)": "[batch, channels, height, width] is needed",
		"reshape(1,2,2);maxpool(0)":             "max pooling",
		"reshape(1,2,2);maxpool(9)":             "max pooling",
		"reshape(5)":                            "cannot take shape",
		"e=embedding(3)":                        "every axis needs a length",
	} {
		if _, err := Parse("layers:"+layers, data, 1); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v lacks %q", layers, err, want)
		}
	}
}

// No text makes the parser or the builder panic.
func FuzzLayerList(f *testing.F) {
	for _, layers := range []string{
		"fc=linear(3)", "reshape(1,2,2);conv=conv2d(2,2,pad=1,stride=2,dilation=2,groups=1,bias=0);flatten;fc=linear(3)",
		"a=linear(4);relu;add(a);add(input);fc=linear(3,from=a)", "reshape(2,2);c=conv1d(2,1);n=layernorm;meanovertime;fc=linear(3)",
		"reshape(2,1,2);g=groupnorm(2);avgpool(1,pad=1);globalavgpool;dropout(0.5);fc=linear(3)",
	} {
		f.Add(layers)
	}
	f.Fuzz(func(t *testing.T, layers string) {
		if len(layers) > 200 {
			return
		}
		for _, data := range []DataSpec{{Shape: []int{4}, Classes: 3}, {Shape: []int{4}, Vocabulary: 9, Classes: 3}} {
			Parse("layers:"+layers, data, 1)
		}
	})
}
