package models

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/internal/device/cpu"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// networkCase is a network whose private step is compared with single records.
type networkCase struct {
	name  string
	e     DataSpec
	build perexample.Build
}

func modelCase(t *testing.T, spec string, data DataSpec) networkCase {
	t.Helper()
	build, err := Parse(spec, data, 3)
	if err != nil {
		t.Fatal(err)
	}
	return networkCase{spec, data, build}
}

// customCase is a network that is not in models.
func customCase(name string, data DataSpec, body func(b *layer.Builder, x *G.Node) *G.Node) networkCase {
	return networkCase{name, data, func(batch int) (*perexample.Network, error) {
		b := layer.NewBuilder(batch, 3)
		x := b.Input("features", data.Shape...)
		logits := body(b, x)
		b.SetLoss(layer.CrossEntropy(b, logits, b.Input("label", data.LabelShape...)), logits)
		return b.Network()
	}}
}

func networkCases(t *testing.T) []networkCase {
	text := DataSpec{Shape: []int{6}, Vocabulary: 30, Classes: 3}
	short := DataSpec{Shape: []int{6}, Vocabulary: 30, Padded: true, Classes: 3}
	tokens := DataSpec{Shape: []int{6}, Vocabulary: 30, Classes: 30, LabelShape: []int{6}}
	picture := DataSpec{Shape: []int{4, 7, 7}, Classes: 3}
	return []networkCase{
		modelCase(t, "cifar-tanh", DataSpec{Shape: []int{3, 8, 8}, Classes: 10}),
		modelCase(t, "cifar-abadi", DataSpec{Shape: []int{3, 8, 8}, Classes: 10}),
		modelCase(t, "digits-cnn:norm=batch", DataSpec{Shape: []int{1, 8, 8}, Classes: 10}),
		modelCase(t, "mnist-cnn:act=tanh,norm=group", DataSpec{Shape: []int{1, 28, 28}, Classes: 10}),
		modelCase(t, "wrn16-4", DataSpec{Shape: []int{3, 4, 4}, Classes: 10}),
		modelCase(t, "wrn16-4:standardized", DataSpec{Shape: []int{3, 4, 4}, Classes: 10}),
		modelCase(t, "bow", text),
		modelCase(t, "bow", short),
		modelCase(t, "bow", DataSpec{Shape: []int{6}, Vocabulary: 30, Targets: 2}),
		modelCase(t, "embbag", text),
		modelCase(t, "embbag", short),
		modelCase(t, "lstm:20", text),
		modelCase(t, "lstm:20", short),
		modelCase(t, "lstm:9", tokens),
		modelCase(t, "gru:20", text),
		modelCase(t, "transformer", text),
		modelCase(t, "gru:20", short),
		modelCase(t, "transformer", short),
		modelCase(t, "transformer", tokens),
		modelCase(t, "transformer:tied", tokens),
		modelCase(t, "mlp:8,act=tanh", DataSpec{Shape: []int{5}, Targets: 1}),
		modelCase(t, "layers:conv1=conv2d(8,3,pad=1,bias=0);a=gelu;conv2=conv2d(8,3,pad=1,groups=2);norm=groupnorm(4);add(a);silu;avgpool(2);"+
			"globalavgpool;dropout(0.2);fc=linear(3)", picture),
		modelCase(t, "layers:table=embedding(8);norm=layernorm;b=linear(8);add(norm);meanovertime;fc=linear(3)", text),
		modelCase(t, "gru:9", DataSpec{Shape: []int{6}, Vocabulary: 30, Targets: 2}),
		customCase("batch normalization of features", DataSpec{Shape: []int{9}, Classes: 3}, func(b *layer.Builder, x *G.Node) *G.Node {
			x = layer.Dense(b, layer.BatchNorm(b, x, "norm1"), "fc1", 8, layer.Identity)
			return layer.Dense(b, layer.Activate(b, layer.BatchNorm(b, x, "norm2"), layer.ReLU), "fc2", 3, layer.Identity)
		}),
		customCase("two layers of LSTM in both directions", text, func(b *layer.Builder, x *G.Node) *G.Node {
			x = layer.LSTM(b, layer.Embedding(b, x, "table", 30, 5), "lstm", 4, layer.RecurrentOptions{Layers: 2, Bidirectional: true})
			return layer.Dense(b, layer.MeanOverTime(b, x), "fc", 3, layer.Identity)
		}),
		customCase("GRU in both directions", text, func(b *layer.Builder, x *G.Node) *G.Node {
			x = layer.GRU(b, layer.Embedding(b, x, "table", 30, 5), "gru", 4, layer.RecurrentOptions{Bidirectional: true})
			return layer.Dense(b, layer.MeanOverTime(b, x), "fc", 3, layer.Identity)
		}),
		customCase("rotary attention with padding", text, func(b *layer.Builder, ids *G.Node) *G.Node {
			padding := b.Try(func() (*G.Node, error) { return G.Sub(ids, G.NewConstant(float32(9))) })
			x := layer.RMSNorm(b, layer.Embedding(b, ids, "table", 30, 8), "norm")
			x = layer.Add(b, x, layer.SelfAttention(b, x, "attention", layer.AttentionOptions{Heads: 2, Rotary: true, Padding: padding}))
			return layer.Dense(b, layer.MeanOverTime(b, x), "fc", 3, layer.Identity)
		}),
		customCase("convolutions in groups, dilated and transposed", picture, func(b *layer.Builder, x *G.Node) *G.Node {
			x = layer.Conv2D(b, x, "conv1", 6, layer.Window{Size: 3, Stride: 2, Pad: 2, Dilation: 2, Groups: 2}, layer.SiLU)
			x = layer.ConvTranspose2D(b, layer.InstanceNorm(b, x, "norm"), "conv2", 4, layer.Window{Size: 3, Stride: 2, Pad: 1, Groups: 2}, layer.LeakyReLU)
			return layer.Dense(b, layer.Flatten(b, x), "fc", 3, layer.Identity)
		}),
		modelCase(t, "mlp:40,30,dropout=0.5", DataSpec{Shape: []int{20}, Classes: 3}),
		customCase("dropout of pictures and steps", picture, func(b *layer.Builder, x *G.Node) *G.Node {
			x = layer.Dropout(b, layer.Conv2D(b, x, "conv", 6, layer.Window{Size: 3}, layer.ReLU), 0.3)
			x = layer.Dropout(b, layer.GRU(b, layer.Reshape(b, x, 10, 15), "gru", 4, layer.RecurrentOptions{}), 0.2)
			return layer.Dense(b, layer.MeanOverTime(b, x), "fc", 3, layer.Identity)
		}),
		customCase("standardised convolutions of lines", DataSpec{Shape: []int{3, 9}, Classes: 3}, func(b *layer.Builder, x *G.Node) *G.Node {
			b.StandardizeConvWeights()
			x = layer.Conv1D(b, x, "conv", 8, layer.Window{Size: 3, Groups: 1}, layer.Tanh)
			return layer.Dense(b, layer.Flatten(b, x), "fc", 3, layer.Identity)
		}),
		customCase("convolutions of lines", DataSpec{Shape: []int{3, 20}, Classes: 3}, func(b *layer.Builder, x *G.Node) *G.Node {
			x = layer.Conv1D(b, x, "conv1", 8, layer.Window{Size: 5, Stride: 2, Dilation: 2}, layer.ELU)
			x = layer.Conv1D(b, x, "conv2", 12, layer.Window{Size: 3, Pad: 1, Groups: 4}, layer.Softplus)
			return layer.Dense(b, layer.Flatten(b, x), "fc", 3, layer.Identity)
		}),
	}
}

// exampleColumns contains examples: the numbers of all examples, by input column.
type exampleColumns struct {
	count   int
	columns [][]float32
}

func (w networkCase) draw(t *testing.T, count int) exampleColumns {
	t.Helper()
	net, err := w.build(count)
	if err != nil {
		t.Fatal(err)
	}
	bindRandomInputs(t, net, w.e, rand.New(rand.NewPCG(5, 1)))
	x := exampleColumns{count: count}
	for _, in := range net.Inputs {
		x.columns = append(x.columns, in.Value().Data().([]float32))
	}
	return x
}

// part returns the numbers of the examples from to to in a column.
func (x exampleColumns) part(column, from, to int) []float32 {
	n := len(x.columns[column]) / x.count
	return x.columns[column][from*n : to*n]
}

// exampleGradients returns the gradient of every parameter for one example, computed by
// Gorgonia's tape machine as the gradient of a batch of one.
func (w networkCase) exampleGradients(t *testing.T, x exampleColumns, example int) [][]float64 {
	t.Helper()
	net, err := w.build(1)
	if err != nil {
		t.Fatal(err)
	}
	for k, in := range net.Inputs {
		v := tensor.New(tensor.WithShape(in.Shape()...), tensor.WithBacking(append([]float32(nil), x.part(k, example, example+1)...)))
		if err := G.Let(in, v); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range net.Params { // Gorgonia's reshaping needs tensors
		if err := G.Let(p, tensor.New(tensor.WithShape(p.Shape()...), tensor.WithBacking(p.Value().Data()))); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range net.BatchNorms {
		for k, p := range []*G.Node{b.Mean, b.Variance} {
			if err := G.Let(p, tensor.New(tensor.WithShape(p.Shape()...), tensor.WithBacking(runningValues(k, p.Shape().TotalSize())))); err != nil {
				t.Fatal(err)
			}
		}
	}
	bindMaskSeeds(t, net, example)
	grads, err := G.Grad(net.Loss, net.Trained()...)
	if err != nil {
		t.Fatal(err)
	}
	vm := G.NewTapeMachine(net.Loss.Graph().ExactSubgraphRoots(append(grads, net.Loss)...), G.TraceExec())
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		t.Fatal(err)
	}
	var out [][]float64
	for _, g := range grads {
		var wide []float64
		for _, v := range g.Value().Data().([]float32) {
			wide = append(wide, float64(v))
		}
		out = append(out, wide)
	}
	return out
}

// runningValues are means (k is 0) or variances for a test.
func runningValues(k, size int) []float32 {
	values := make([]float32, size)
	for i := range values {
		values[i] = float32(k) + float32(i%3)/4
	}
	return values
}

// The squared norms and clipped sums of a microbatch equal those of its single records. The
// content of padding has no effect. A step does not allocate.
func TestPrivateStep_MatchesSingleRecords(t *testing.T) {
	for _, w := range networkCases(t) {
		for _, each := range []int{1, 2} { // examples for each record
			t.Run(fmt.Sprintf("%s/%d", w.name, each), func(t *testing.T) {
				if each > 1 && testing.Short() {
					t.Skip("left out with -short")
				}
				const records = 3 // the last record is padding
				x := w.draw(t, (records-1)*each)
				p, err := perexample.Compile(w.build, records, each)
				if err != nil || p.Warning != "" {
					t.Fatalf("error %v, warning %q", err, p.Warning)
				}
				program, err := plan.LowerTraining(p, plan.TrainingOptions{Norms: true, Output: true})
				if err != nil {
					t.Fatal(err)
				}
				m, err := cpu.New(program, plan.Optimizer{Kind: plan.SGD}, false, 2)
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				for k := range p.Inputs {
					in := m.Input(k)
					for i := range in {
						in[i] = float32(math.NaN())
					}
					copy(in, x.columns[k])
				}
				for k := range 2 * len(p.BatchNorms) {
					in := m.Input(len(p.Inputs) + k)
					copy(in, runningValues(k%2, len(in)))
				}
				for i := range len(m.MaskSeed()) / op.MaskSeedWidth {
					op.WriteMaskSeed(m.MaskSeed()[i*op.MaskSeedWidth:], uint64(i), 3)
				}
				weights := []float64{0.25, 0.75, 1, 0.5}
				if each == 1 {
					weights = []float64{1, 1}
				} else {
					clear(m.ExampleWeights())
					for i, v := range weights {
						m.ExampleWeights()[i] = float32(v)
					}
				}
				factors := []float64{0.5, 0.75}
				for v := range p.Parameters {
					copy(m.ClipFactors(v), []float32{0.5, 0.75, 0})
				}
				step := func() {
					if err := m.Forward(); err != nil {
						t.Fatal(err)
					}
					if err := m.AddClippedSums(); err != nil {
						t.Fatal(err)
					}
				}
				step()
				var gradients [][][]float64 // [record][vector]
				for r := range records - 1 {
					var sum [][]float64
					for i := range each {
						own := w.exampleGradients(t, x, r*each+i)
						for v, g := range own {
							if i == 0 {
								sum = append(sum, make([]float64, len(g)))
							}
							for j, y := range g {
								sum[v][j] += weights[r*each+i] * y
							}
						}
					}
					gradients = append(gradients, sum)
				}
				// A normalization removes the bias before it, so the bias has a gradient of
				// rounding errors only. The tolerance is relative to the whole sum.
				var all float64
				for r, g := range gradients {
					var square float64
					for _, own := range g {
						for _, y := range own {
							square += y * y
						}
					}
					all += factors[r] * math.Sqrt(square)
				}
				for v, vector := range p.Parameters {
					name := fmt.Sprintf("%s (%s, %s)", vector.Node.Name(), vector.Kind, vector.Method)
					want := make([]float64, vector.Node.Shape().TotalSize())
					var length float64
					for r, g := range gradients {
						var square float64
						for j, y := range g[v] {
							square += y * y
							want[j] += factors[r] * y
						}
						most := square*(1+2e-5) + 1e-12
						if vector.Method == "gram" || vector.Kind == "mixed" {
							most *= 1 + 1.0/(1<<8) // tolerance for rounding
						}
						if got := float64(m.SquaredNorms(v)[r]); !(square*(1-2e-5)-1e-12 <= got && got <= most) || square == 0 {
							t.Errorf("%s: squared norm of record %d is %g, and %g for the single record", name, r, got, square)
						}
						length += factors[r] * math.Sqrt(square)
					}
					var off float64
					for j, y := range want {
						off += (float64(m.Sum(v)[j]) - y) * (float64(m.Sum(v)[j]) - y)
					}
					if !(math.Sqrt(off) <= 1e-5*length+1e-7*all) {
						t.Errorf("%s: the sum has an error of %g and a norm of %g", name, math.Sqrt(off), length)
					}
				}
				// A step that allocates does so every time. The runtime may allocate too, when
				// it puts a thread to sleep.
				n := testing.AllocsPerRun(1, step)
				for try := 0; try < 2 && n != 0; try++ {
					n = testing.AllocsPerRun(1, step)
				}
				if n != 0 {
					t.Errorf("%v allocations for each step", n)
				}
			})
		}
	}
}
