package pretrained

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/device/cpu"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/format/safetensors"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

const testClasses = 3

// expectedOf reads what transformers computed for a folder of testdata, by name.
func expectedOf(t *testing.T, folder string) map[string]safetensors.Tensor {
	t.Helper()
	list, err := readTensors(filepath.Join("testdata", folder, "expected.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]safetensors.Tensor{}
	for _, x := range list {
		byName[x.Name] = x
	}
	return byName
}

// predictsSteps reports whether testdata's folder of a model has a label for each step.
func (m *Model) predictsSteps() bool {
	return slices.ContainsFunc([]string{"-next", "-packed", "-masked"}, func(end string) bool { return strings.HasSuffix(m.Dir, end) })
}

// buildOf returns the network of a model that reads texts of some ids.
func buildOf(m *Model, steps int) perexample.Build {
	return func(batch int) (*perexample.Network, error) {
		b := layer.NewBuilder(batch, 1)
		if m.predictsSteps() {
			build := m.NextIDs
			switch {
			case strings.HasSuffix(m.Dir, "-packed"):
				build = m.NextIDsOfPacked
			case m.IsEncoder():
				build = m.MaskedIDs
			}
			logits := build(b, b.Input("ids", steps), 16)
			b.SetLoss(layer.CrossEntropy(b, logits, b.Input("label", steps)), logits)
			return b.Network()
		}
		shape := []int{steps}
		if m.picture != nil {
			shape = []int{3, 8, 12}
		}
		build := m.Outputs
		if strings.HasSuffix(m.Dir, "-pair") {
			build = m.OutputsOfPairs
		}
		logits := build(b, b.Input("input", shape...), 16, testClasses)
		b.SetLoss(layer.CrossEntropy(b, logits, b.Input("label")), logits)
		return b.Network()
	}
}

// withAdapters gives the adapters of a network the values of the oracle.
func withAdapters(build perexample.Build, expected map[string]safetensors.Tensor) perexample.Build {
	return func(batch int) (*perexample.Network, error) {
		net, err := build(batch)
		if err != nil {
			return nil, err
		}
		for _, p := range net.Params {
			x, ok := expected["value."+p.Name()]
			if !ok {
				continue
			}
			values := make([]float32, len(x.Values))
			transpose(values, x.Values, x.Shape[1])
			if err := G.Let(p, tensor.New(tensor.WithShape(p.Shape()...), tensor.WithBacking(values))); err != nil {
				return nil, err
			}
		}
		return net, nil
	}
}

// Logits and each record's gradient are those that transformers and peft compute in float64.
func TestOutputs_SameAsTransformers(t *testing.T) {
	for _, c := range []struct{ folder, options string }{
		{"bert", ""}, {"bert-tanh", ""}, {"roberta", ""}, {"distilbert", ""}, {"lora", ",lora=3,alpha=6"}, {"lora-last", ",lora=3,alpha=6,last=1"},
		{"lora-all", ",lora=3,alpha=6,targets=all-linear"}, {"lora-outputs", ",lora=3,alpha=6,targets=output.dense"}, {"bert", ",last=1"}, {"bert", ",train=bias,last=1"}, {"gpt2", ",last=1"}, {"llama", ",last=1"}, {"vit", ",last=1"}, {"bert-pair", ""}, {"gpt2-packed", ""}, {"llama-packed", ""},
		{"bert-masked", ""}, {"bert-masked", ",train=head"}, {"roberta-masked", ""}, {"distilbert-masked", ""}, {"distilbert-masked", ",train=bias"},
		{"bert", ",train=head"}, {"roberta", ",train=bias"}, {"bert-mean", ",pool=mean"}, {"bert-mean", ",pool=mean,train=head"}, {"bert-first", ",pool=first"},
		{"bert-layers", ",pool=layers"}, {"bert-layers", ",pool=layers,train=head"}, {"bert-layers", ",pool=layers,last=1"},
		{"gpt2", ""}, {"gpt2-next", ""}, {"llama", ""}, {"llama-next", ",lora=3,alpha=6"}, {"llama-next", ",lora=3,alpha=3.4641016151377544,rank-stabilised=true"}, {"mistral", ""}, {"mistral-next", ""},
		{"qwen2", ""}, {"qwen2-next", ",train=bias"}, {"qwen2-next", ""}, {"qwen3", ""}, {"qwen3-next", ",train=head"}, {"gemma", ""}, {"gemma-next", ""},
		{"llama3", ""}, {"llama3-next", ""}, {"gemma2", ""}, {"gemma2-next", ""}, {"gemma3", ""}, {"gemma3-next", ""}, {"gemma3", ",train=head"},
		{"vit", ""}, {"vit", ",train=head"}, {"vit", ",train=bias"}, {"vit-lora", ",lora=3,alpha=6"}, {"deit", ""}, {"deit-teacher", ""},
	} {
		t.Run(c.folder+c.options, func(t *testing.T) { compareWithTransformers(t, c.folder, c.options) })
	}
}

func compareWithTransformers(t *testing.T, folder, options string) {
	m, err := Parse(filepath.Join("testdata", folder) + options)
	if err != nil {
		t.Fatal(err)
	}
	expected := expectedOf(t, folder)
	ids := expected["ids"]
	if m.picture != nil {
		ids = expected["pixels"]
	}
	records := ids.Shape[0]
	whole := withAdapters(buildOf(m, ids.Shape[1]), expected)
	build := func(batch int) (*perexample.Network, error) {
		net, err := whole(batch)
		if err != nil {
			return nil, err
		}
		net.Params = slices.DeleteFunc(slices.Clone(net.Params), func(p *G.Node) bool { return !m.trains(p.Name()) })
		return net, nil
	}
	compiled, err := perexample.Compile(build, records, 1)
	if err != nil || compiled.Warning != "" {
		t.Fatalf("error %v, warning %q", err, compiled.Warning)
	}
	program, err := plan.LowerTraining(compiled, plan.TrainingOptions{Norms: true, Output: true})
	if err != nil {
		t.Fatal(err)
	}
	run, err := cpu.New(program, plan.Optimizer{Kind: plan.SGD}, false, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	copy(run.Input(0), ids.Values)
	for i, mark := range expected["marks"].Values {
		run.Input(0)[i] += 16 * mark
	}
	copy(run.Input(1), expected["labels"].Values)
	if err := run.Forward(); err != nil {
		t.Fatal(err)
	}
	perStep := len(expected["logits"].Values) / len(ids.Values)
	for i, want := range expected["logits"].Values {
		if m.predictsSteps() && ids.Values[i/perStep] < 0 {
			continue
		}
		if got := run.Output()[i]; math.Abs(float64(got-want)) > 1e-4 {
			t.Errorf("logit %d is %v, want %v", i, got, want)
		}
	}
	seen := make([]float64, len(compiled.Parameters)) // squares of sums of all records so far
	for r := range records {
		for v := range compiled.Parameters {
			clear(run.ClipFactors(v))
			run.ClipFactors(v)[r] = 1
			clear(run.Sum(v))
		}
		if err := run.AddClippedSums(); err != nil {
			t.Fatal(err)
		}
		norm, off := 0.0, 0.0
		for v, p := range compiled.Parameters {
			want := m.gradientOf(t, expected, strconv.Itoa(r)+"."+p.Node.Name(), p.Node.Shape())
			for i, y := range want {
				d := float64(run.Sum(v)[i] - y)
				norm += float64(y) * float64(y)
				off += d * d
				seen[v] += float64(y) * float64(y)
			}
		}
		if !(math.Sqrt(off) <= 1e-5*math.Sqrt(norm)) || norm == 0 {
			t.Errorf("record %d: the gradient has an error of %g and a norm of %g", r, math.Sqrt(off), math.Sqrt(norm))
		}
	}
	for v, square := range seen {
		// A softmax does not change with the bias of its keys.
		if name := compiled.Parameters[v].Node.Name(); square < 1e-20 && !strings.HasSuffix(name, "key.bias") && !strings.HasSuffix(name, "k_lin.bias") {
			t.Errorf("%s has no gradient in the oracle: the case tests nothing", name)
		}
	}
}

// A GGUF file has the logits of the checkpoint that it was converted from.
func TestGGUF_SameAsCheckpoint(t *testing.T) {
	m, err := Parse("testdata/llama.gguf,lora=3,alpha=6")
	if err != nil {
		t.Fatal(err)
	}
	expected := expectedOf(t, "llama-next")
	ids, logits := expected["ids"].Values, expected["logits"].Values
	net, err := withAdapters(nextIDs(m), expected)(1)
	if err != nil {
		t.Fatal(err)
	}
	g, err := m.Generator(net)
	if err != nil {
		t.Fatal(err)
	}
	for s := range 6 {
		got, err := g.Next(int(ids[s]))
		if err != nil {
			t.Fatal(err)
		}
		for i, y := range got {
			if want := logits[s*len(got)+i]; math.Abs(float64(y-want)) > 1e-4 {
				t.Fatalf("logit %d after step %d is %v, want %v", i, s, y, want)
			}
		}
	}
}

// A generator computes the logits of the network, one id after the other.
func TestGenerator_SameAsNetwork(t *testing.T) {
	for _, folder := range []string{"gpt2-next", "llama-next,lora=3,alpha=6", "mistral-next", "qwen2-next", "qwen3-next", "gemma-next", "llama3-next", "gemma2-next", "gemma3-next"} {
		m, err := Parse(filepath.Join("testdata", folder))
		if err != nil {
			t.Fatal(err)
		}
		expected := expectedOf(t, filepath.Base(m.Dir))
		ids, logits := expected["ids"], expected["logits"].Values
		net, err := withAdapters(buildOf(m, ids.Shape[1]), expected)(1)
		if err != nil {
			t.Fatal(err)
		}
		g, err := m.Generator(net)
		if err != nil {
			t.Fatal(err)
		}
		for r := range ids.Shape[0] {
			g.Reset()
			for s := range ids.Shape[1] {
				id := ids.Values[r*ids.Shape[1]+s]
				if id < 0 {
					break
				}
				got, err := g.Next(int(id))
				if err != nil {
					t.Fatal(err)
				}
				for i, y := range got {
					want := logits[(r*ids.Shape[1]+s)*len(got)+i]
					if math.Abs(float64(y-want)) > 1e-4 {
						t.Fatalf("%s: logit %d after step %d of record %d is %v, want %v", folder, i, s, r, y, want)
					}
				}
			}
		}
		if _, err := g.Next(g.vocabulary); err == nil {
			t.Errorf("%s: an id beyond the vocabulary is accepted", folder)
		}
	}
}

// gradientOf returns a gradient of the oracle in the layout of a parameter.
func (m *Model) gradientOf(t *testing.T, expected map[string]safetensors.Tensor, name string, shape tensor.Shape) []float32 {
	t.Helper()
	x, ok := expected[name]
	if !ok {
		t.Fatalf("the oracle has no gradient %s", name)
	}
	if _, parameter, _ := strings.Cut(name, "."); !m.isTransposed(parameter, shape) {
		return x.Values
	}
	values := make([]float32, len(x.Values))
	transpose(values, x.Values, x.Shape[1])
	return values
}

func readTensors(path string) ([]safetensors.Tensor, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	list, _, err := safetensors.Read(bytes.NewReader(text), int64(len(text)))
	return list, err
}
