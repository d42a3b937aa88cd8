package layer

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// evaluate returns the values of nodes after it binds the given numbers to the inputs.
func evaluate(t *testing.T, inputs G.Nodes, values [][]float32, nodes ...*G.Node) [][]float32 {
	t.Helper()
	for i, in := range inputs {
		if err := G.Let(in, tensor.New(tensor.WithShape(in.Shape()...), tensor.WithBacking(values[i]))); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]G.Value, len(nodes))
	for i, n := range nodes {
		G.Read(n, &got[i])
	}
	vm := G.NewTapeMachine(nodes[0].Graph())
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		t.Fatal(err)
	}
	out := make([][]float32, len(nodes))
	for i, v := range got {
		switch d := v.Data().(type) {
		case []float32:
			out[i] = slices.Clone(d)
		case float32:
			out[i] = []float32{d}
		}
	}
	return out
}

func describeNodes(nodes G.Nodes) string {
	var s []string
	for _, n := range nodes {
		s = append(s, fmt.Sprintf("%s%v", n.Name(), []int(n.Shape())))
	}
	return strings.Join(s, " ")
}

func TestDense_MatchesReference(t *testing.T) {
	n := NewBuilder(2, 7)
	x := n.Input("x", 2)
	y := Dense(n, x, "fc1", 3, GELU)
	prediction := Dense(n, y, "fc2", 1, Identity)
	n.SetLoss(SquaredError(n, prediction, n.Input("target", 1)), prediction)
	net, err := n.Network()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := describeNodes(net.Params), "fc1.weight[2 3] fc1.bias[3] fc2.weight[3 1] fc2.bias[1]"; got != want {
		t.Errorf("parameters %s, want %s", got, want)
	}
	if got, want := describeNodes(net.Inputs), "x[2 2] target[2 1]"; got != want {
		t.Errorf("inputs %s, want %s", got, want)
	}
	w := make([][]float32, len(net.Params))
	for i, p := range net.Params {
		w[i] = p.Value().Data().([]float32)
	}
	xs, targets := []float32{1, -2, 0.5, 3}, []float32{0.5, -1}
	got := evaluate(t, net.Inputs, [][]float32{xs, targets}, net.Losses, net.Loss, net.Output)
	var total float64
	for b := range 2 {
		answer := float64(w[3][0])
		for j := range 3 {
			z := float64(xs[2*b])*float64(w[0][j]) + float64(xs[2*b+1])*float64(w[0][3+j]) + float64(w[1][j])
			answer += z * 0.5 * (1 + math.Erf(z/math.Sqrt2)) * float64(w[2][j])
		}
		loss := (answer - float64(targets[b])) * (answer - float64(targets[b]))
		total += loss
		if !(math.Abs(float64(got[0][b])-loss) <= 1e-6) || !(math.Abs(float64(got[2][b])-answer) <= 1e-6) {
			t.Errorf("example %d: loss %v, answer %v; want %v, %v", b, got[0][b], got[2][b], loss, answer)
		}
	}
	if !(math.Abs(float64(got[1][0])-total) <= 1e-6) {
		t.Errorf("loss %v, want the sum %v", got[1][0], total)
	}
}

// Dense applies to the last axis of its input. The loss of a sequence is the mean over its
// steps.
func TestCrossEntropy_SequenceIsMeanOverSteps(t *testing.T) {
	n := NewBuilder(2, 1)
	x := Embedding(n, n.Input("ids", 3), "embedding", 5, 4)
	x = LayerNorm(n, x, "norm")
	logits := Dense(n, x, "head", 2, Identity)
	n.SetLoss(CrossEntropy(n, logits, n.Input("labels", 3)), logits)
	net, err := n.Network()
	if err != nil {
		t.Fatal(err)
	}
	if !logits.Shape().Eq(tensor.Shape{2, 3, 2}) || !net.Losses.Shape().Eq(tensor.Shape{2}) {
		t.Fatalf("logits %v, losses %v", logits.Shape(), net.Losses.Shape())
	}
	labels := []float32{0, 1, -1, 1, 1, 0}
	got := evaluate(t, net.Inputs, [][]float32{{0, 1, 2, 3, 4, 0}, labels}, net.Loss, net.Output, net.Losses)
	var each [2]float64
	for i, label := range labels {
		if label >= 0 {
			a, b := float64(got[1][2*i+int(label)]), float64(got[1][2*i+1-int(label)])
			each[i/3] += math.Log1p(math.Exp(b-a)) / 3
		}
	}
	for b, want := range each {
		if !(math.Abs(float64(got[2][b])-want) <= 1e-5) {
			t.Errorf("loss %d is %v, want %v", b, got[2][b], want)
		}
	}
	if want := each[0] + each[1]; !(math.Abs(float64(got[0][0])-want) <= 1e-5) {
		t.Errorf("loss %v, want %v", got[0][0], want)
	}
}

func TestEmbeddingBag_IsMean(t *testing.T) {
	for _, c := range []struct {
		title string
		bag   func(*Builder, *G.Node, string, int, int) *G.Node
		count float32 // number of rows in the mean of the last example, which has one index and padding
	}{{"all", EmbeddingBag, 3}, {"without padding", EmbeddingBagWithoutPadding, 1}} {
		b := NewBuilder(4, 1)
		y := c.bag(b, b.Input("ids", 3), "embedding", 3, 2)
		b.SetLoss(SquaredError(b, y, b.Input("target", 2)), y)
		net, err := b.Network()
		if err != nil {
			t.Fatal(err)
		}
		e := net.Params[0].Value().Data().([]float32)
		got := evaluate(t, net.Inputs, [][]float32{{0, 2, 2, 1, 1, 1, -1, -1, -1, -1, 1, -1}, make([]float32, 8)}, y)[0]
		want := []float32{(e[0] + 2*e[4]) / 3, (e[1] + 2*e[5]) / 3, e[2], e[3], 0, 0, e[2] / c.count, e[3] / c.count}
		for i := range want {
			if !(math.Abs(float64(got[i]-want[i])) <= 1e-6) {
				t.Fatalf("%s: means %v, want %v", c.title, got, want)
			}
		}
	}
}

// The weights of a bag of k indices are 1/√k, so distinct indices have norm 1.
func TestNormalizedBag_DividesByRoot(t *testing.T) {
	b := NewBuilder(4, 1)
	y := NormalizedBag(b, b.Input("ids", 4), "bag", 3, 2)
	b.SetLoss(SquaredError(b, y, b.Input("target", 2)), y)
	net, err := b.Network()
	if err != nil {
		t.Fatal(err)
	}
	e := net.Params[0].Value().Data().([]float32)
	if e[0] != 0 || e[5] != 0 {
		t.Errorf("the weights start at %v, want 0", e)
	}
	copy(e, []float32{3, -5, 7, 11, -13, 17})
	got := evaluate(t, net.Inputs, [][]float32{{0, 1, 2, -1, 1, -1, -1, -1, -1, -1, -1, -1, 0, 2, 0, 1}, make([]float32, 8)}, y)[0]
	root := math.Sqrt(3)
	want := []float64{-3 / root, 23 / root, 7, 11, 0, 0, 0, 9}
	for i := range want {
		if !(math.Abs(float64(got[i])-want[i]) <= 1e-5) {
			t.Fatalf("sums divided by roots %v, want %v", got, want)
		}
	}
}

// With initial scale and shift, group normalization gives each group of channels mean 0 and
// variance 1. Pooling gives the expected shapes.
func TestGroupNorm_AndPooling(t *testing.T) {
	b := NewBuilder(2, 1)
	x := b.Input("x", 2, 4, 6)
	h := GroupNorm(b, Conv2D(b, x, "conv", 4, Window{Size: 3, Pad: 1, Groups: 2}, Identity), "norm", 2)
	pooled := AvgPool(b, MaxPool(b, Add(b, h, h), Window{Size: 2, Stride: 2}), Window{Size: 2})
	y := GlobalAvgPool(b, pooled)
	b.SetLoss(SquaredError(b, y, b.Input("target", 4)), y)
	net, err := b.Network()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := describeNodes(net.Params), "conv.weight[4 1 3 3] conv.bias[4] norm.weight[4] norm.bias[4]"; got != want {
		t.Errorf("parameters %s, want %s", got, want)
	}
	if !pooled.Shape().Eq(tensor.Shape{2, 4, 1, 2}) || !y.Shape().Eq(tensor.Shape{2, 4}) {
		t.Errorf("pooled %v, then %v", pooled.Shape(), y.Shape())
	}
	xs := make([]float32, 96)
	for i := range xs {
		xs[i] = float32(i*i%17) - 5
	}
	values := evaluate(t, net.Inputs, [][]float32{xs, make([]float32, 8)}, h)[0]
	for g := range 4 {
		var sum, square float64
		for _, v := range values[g*48 : (g+1)*48] {
			sum += float64(v)
			square += float64(v) * float64(v)
		}
		if !(math.Abs(sum/48) <= 1e-5) || !(math.Abs(square/48-1) <= 1e-2) {
			t.Errorf("group %d has mean %g and mean square %g", g, sum/48, square/48)
		}
	}
}

// Initial weights depend only on seed, name and shape. They are within PyTorch's bounds.
func TestInitializer_DependsOnSeedNameAndShape(t *testing.T) {
	weights := func(seed uint64, batch int, other bool) []float32 {
		b := NewBuilder(batch, seed)
		x := b.Input("x", 400)
		if other {
			x = Dense(b, x, "before", 400, ReLU)
		}
		logits := Dense(b, x, "fc", 50, ReLU)
		b.SetLoss(CrossEntropy(b, logits, b.Input("label")), logits)
		net, err := b.Network()
		if err != nil {
			t.Fatal(err)
		}
		return net.Params[len(net.Params)-2].Value().Data().([]float32)
	}
	w := weights(3, 2, false)
	if !slices.Equal(w, weights(3, 5, true)) {
		t.Error("weights depend on the batch or on other layers")
	}
	if slices.Equal(w, weights(4, 2, false)) {
		t.Error("weights do not depend on the seed")
	}
	if top := slices.Max(w); top > 0.05 || top < 0.0499 {
		t.Errorf("largest of 20,000 weights is %v, want just under 1/√400", top)
	}
}

// The initial weights of recurrent layers, including the input weight, are within 1/√hidden.
// Position embeddings start small.
func TestInitializer_RecurrentLayers(t *testing.T) {
	b := NewBuilder(1, 1)
	x := b.Input("x", 2, 9)
	LSTM(b, x, "lstm", 16, RecurrentOptions{})
	x = AddPositionEmbedding(b, GRU(b, x, "gru", 16, RecurrentOptions{}), "positions")
	b.SetLoss(SquaredError(b, x, b.Input("target", 2, 16)), x)
	net, err := b.Network()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range net.Params {
		low, high := 0.2, 0.25
		if p.Name() == "positions.weight" { // 32 normal numbers with standard deviation 0.02
			low, high = 0.02, 0.1
		}
		if top := float64(slices.Max(p.Value().Data().([]float32))); !(top > low && top <= high) {
			t.Errorf("the largest of %s is %v, want it between %v and %v", p.Name(), top, low, high)
		}
	}
}

func TestSetLoss_WrongNumberOfLosses(t *testing.T) {
	b := NewBuilder(3, 1)
	b.SetLoss(b.Try(func() (*G.Node, error) { return G.Reshape(b.Input("x", 2), tensor.Shape{6}) }), nil)
	if _, err := b.Network(); err == nil || !strings.Contains(err.Error(), "one loss for each of 3 examples") {
		t.Error(err)
	}
}

// Gorgonia's functions fit between layers, and gradients propagate through them.
func TestTry_GorgoniaFunctions(t *testing.T) {
	b := NewBuilder(3, 1)
	x := b.Input("x", 4)
	h := Dense(b, x, "fc1", 4, Tanh)
	h = b.Try(func() (*G.Node, error) { return G.HadamardProd(h, x) })
	logits := Dense(b, h, "fc2", 2, Identity)
	b.SetLoss(CrossEntropy(b, logits, b.Input("label")), logits)
	net, err := b.Network()
	if err != nil {
		t.Fatal(err)
	}
	grads, err := G.Grad(net.Loss, net.Params...)
	if err != nil {
		t.Fatal(err)
	}
	values := [][]float32{{1, 2, 3, 4, -1, -2, 0, 1, 2, 2, 2, 2}, {0, 1, 1}}
	got := evaluate(t, net.Inputs, values, grads[0], net.Loss)

	// To first order, a step along the gradient decreases the loss by the squared norm.
	var square float64
	w := net.Params[0].Value().Data().([]float32)
	const step = 1e-3
	for i, g := range got[0] {
		square += float64(g) * float64(g)
		w[i] -= step * g
	}
	after := evaluate(t, net.Inputs, values, net.Loss)[0][0]
	if fall := float64(got[1][0] - after); square == 0 || !(math.Abs(fall/(step*square)-1) <= 0.05) {
		t.Errorf("the loss decreased by %g, want about %g", fall, step*square)
	}
}

func TestBuilder_ReturnsFirstError(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(b *Builder)
		want  string
	}{
		{"no loss", func(b *Builder) { b.Input("x", 2) }, "no loss"},
		{"two names", func(b *Builder) { b.Input("x", 2); b.Input("x", 3) }, "called x"},
		{"no name", func(b *Builder) { b.Input("", 2) }, "has no name"},
		{"two layers of one name", func(b *Builder) { x := b.Input("x", 2); Dense(b, Dense(b, x, "fc", 2, ReLU), "fc", 2, ReLU) }, "called fc.weight"},
		{"no length", func(b *Builder) { b.Input("x", 0) }, "x of shape [0]"},
		{"no units", func(b *Builder) { Dense(b, b.Input("x", 2), "fc", 0, ReLU) }, "fc.weight of shape [2 0]"},
		{"no shape", func(b *Builder) { b.Parameter("p", Constant(0)) }, "p needs a shape"},
		{"too many weights", func(b *Builder) { Dense(b, b.Input("x", 2), "fc", 1<<30, ReLU) }, "fc.weight of shape [2 1073741824]: with it the network has more than 2147483647 weights"},
		{"too many together", func(b *Builder) { b.Parameter("p", Constant(0), 9); b.Parameter("q", Constant(0), 1<<30, 1<<30) }, "q of shape [1073741824 1073741824]: with it"},
		{"no start", func(b *Builder) { b.Parameter("p", nil, 2) }, "p needs a shape and an initializer"},
		{"no activation", func(b *Builder) { Dense(b, b.Input("x", 2), "fc", 2, 99) }, "fc: there is no activation 99"},
		{"nothing to activate", func(b *Builder) { Activate(b, nil, ReLU) }, "activation: its input is missing"},
		{"missing input", func(b *Builder) { Dense(b, nil, "fc", 2, ReLU) }, "fc: its input is missing"},
		{"a vector", func(b *Builder) { Dense(b, b.Input("x"), "fc", 2, ReLU) }, "fc: input of shape (2)"},
		{"no picture", func(b *Builder) { Conv2D(b, b.Input("x", 2), "conv", 2, Window{Size: 3}, ReLU) }, "conv: input of shape (2, 2)"},
		{"kernel too large", func(b *Builder) { Conv2D(b, b.Input("x", 1, 4, 4), "conv", 2, Window{Size: 5}, ReLU) }, "conv: conv2d"},
		{"no kernel", func(b *Builder) { Conv2D(b, b.Input("x", 1, 4, 4), "conv", 2, Window{}, ReLU) }, "conv.weight of shape"},
		{"groups", func(b *Builder) { Conv2D(b, b.Input("x", 3, 4, 4), "conv", 2, Window{Size: 1, Groups: 2}, ReLU) }, "2 groups"},
		{"negative groups", func(b *Builder) { Conv2D(b, b.Input("x", 3, 4, 4), "conv", 2, Window{Size: 1, Groups: -1}, ReLU) }, "-1 groups"},
		{"grouped pooling", func(b *Builder) { MaxPool(b, b.Input("x", 3, 4, 4), Window{Size: 2, Groups: 3}) }, "3 groups"},
		{"groups of a norm", func(b *Builder) { GroupNorm(b, b.Input("x", 3, 4, 4), "norm", 2) }, "norm: 3 channels"},
		{"norm of numbers", func(b *Builder) { LayerNorm(b, b.Input("x"), "norm") }, "norm: input of shape (2)"},
		{"bag of one", func(b *Builder) { EmbeddingBag(b, b.Input("x"), "e", 3, 2) }, "e: indices of shape (2)"},
		{"shapes that differ", func(b *Builder) { Add(b, b.Input("x", 2), b.Input("y", 3)) }, "add: add"},
		{"other numbers", func(b *Builder) { Reshape(b, b.Input("x", 3), 2, 2) }, "reshape: a tensor of shape (2, 3) cannot take shape [2 2 2]"},
		{"no sequence", func(b *Builder) { LSTM(b, b.Input("x", 2), "lstm", 3, RecurrentOptions{}) }, "lstm: input of shape (2, 2)"},
		{"no hidden units", func(b *Builder) {
			GRU(b, b.Input("x", 2, 2), "gru", 0, RecurrentOptions{Layers: 2, Bidirectional: true})
		}, "gru.0.input.weight of shape [2 0]"},
		{"negative layers", func(b *Builder) { GRU(b, b.Input("x", 2, 2), "gru", 1, RecurrentOptions{Layers: -1}) }, "gru: -1 layers"},
		{"heads", func(b *Builder) { SelfAttention(b, b.Input("x", 2, 4), "a", AttentionOptions{Heads: 3}) }, "a: 3 heads"},
		{"odd heads", func(b *Builder) { SelfAttention(b, b.Input("x", 2, 3), "a", AttentionOptions{Heads: 1, Rotary: true}) }, "even head width"},
		{"no line", func(b *Builder) { Conv1D(b, b.Input("x", 2), "conv", 2, Window{Size: 3}, ReLU) }, "conv: input of shape (2, 2)"},
		{"groups of a line", func(b *Builder) { Conv1D(b, b.Input("x", 3, 4), "conv", 2, Window{Size: 3, Groups: 2}, ReLU) }, "2 groups"},
		{"padding beyond", func(b *Builder) { ConvTranspose2D(b, b.Input("x", 3, 1, 1), "conv", 2, Window{Size: 3, Pad: 2}, ReLU) }, "does not fit pictures"},
		{"transposed groups", func(b *Builder) {
			ConvTranspose2D(b, b.Input("x", 3, 4, 4), "conv", 2, Window{Size: 3, Groups: 2}, ReLU)
		}, "2 groups"},
		{"smoothing", func(b *Builder) {
			logits := b.Input("x", 2)
			b.SetLoss(SmoothedCrossEntropy(b, logits, b.Input("y"), 1), logits)
		}, "smoothing 1"},
		{"width of Huber", func(b *Builder) {
			prediction := b.Input("x", 2)
			b.SetLoss(HuberLoss(b, prediction, b.Input("y", 2), 0), prediction)
		}, "width 0"},
		{"losses of a sum", func(b *Builder) { b.SetLoss(b.Input("x", 2), nil) }, "losses of shape (2, 2)"},
		{"two losses", func(b *Builder) { x := b.Input("x"); b.SetLoss(x, x); b.SetLoss(x, x) }, "two losses"},
		{"an own mistake", func(b *Builder) {
			b.Try(func() (*G.Node, error) { return nil, fmt.Errorf("mine") })
			b.SetLoss(nil, nil)
		}, "mine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := NewBuilder(2, 1)
			c.build(b)
			_, err := b.Network()
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v does not contain %q in one line", err, c.want)
			}
		})
	}
	b := NewBuilder(0, 1)
	GlobalAvgPool(b, Reshape(b, Flatten(b, Activate(b, b.Input("x"), ReLU)), 2))
	b.SetLoss(CrossEntropy(b, nil, nil), nil)
	b.SetLoss(SquaredError(b, nil, nil), nil)
	b.SetLoss(SigmoidCrossEntropy(b, nil, nil), nil)
	b.SetLoss(AbsoluteError(b, nil, nil), nil)
	TiedLogits(b, LSTM(b, Lookup(b, nil, nil), "lstm", 2, RecurrentOptions{Bidirectional: true}), nil)
	ConvTranspose2D(b, Conv1D(b, InstanceNorm(b, nil, "norm"), "conv", 2, Window{}, ReLU), "up", 2, Window{}, ReLU)
	if _, err := b.Network(); err == nil || !strings.Contains(err.Error(), "0 examples") {
		t.Errorf("got %v", err)
	}
}

// Without biases a network has only weights, and its output is that with zero biases.
func TestUseBias_False(t *testing.T) {
	build := func(biases bool) (*perexample.Network, *G.Node) {
		b := NewBuilder(2, 7)
		b.UseKerasInitialization() // biases start as zeros
		b.UseBias(biases)
		x := Conv2D(b, b.Input("x", 2, 4, 4), "conv", 4, Window{Size: 3, Pad: 1}, Tanh)
		x = ConvTranspose2D(b, x, "wider", 2, Window{Size: 2}, Tanh)
		x = Conv1D(b, Reshape(b, x, 10, 5), "line", 3, Window{Size: 2}, GELU)
		x = Dense(b, x, "each", 3, ReLU)
		b.UseBias(true)
		prediction := Dense(b, Flatten(b, x), "fc", 2, Identity)
		b.SetLoss(SquaredError(b, prediction, b.Input("target", 2)), prediction)
		net, err := b.Network()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range net.Params {
			if err := G.Let(p, tensor.New(tensor.WithShape(p.Shape()...), tensor.WithBacking(p.Value().Data()))); err != nil {
				t.Fatal(err)
			}
		}
		return net, net.Output
	}
	bare, answer := build(false)
	if got, want := describeNodes(bare.Params), "conv.weight[4 2 3 3] wider.weight[4 2 2 2] line.weight[3 10 2] each.weight[4 3] fc.weight[9 2] fc.bias[2]"; got != want {
		t.Errorf("parameters %s, want %s", got, want)
	}
	picture := make([]float32, 2*2*4*4)
	for i := range picture {
		picture[i] = float32(math.Sin(float64(i * i)))
	}
	values := [][]float32{picture, make([]float32, 4)}
	got := evaluate(t, bare.Inputs, values, answer)[0]
	whole, answer := build(true)
	if want := evaluate(t, whole.Inputs, values, answer)[0]; !slices.Equal(got, want) {
		t.Errorf("outputs %v, with zero biases %v", got, want)
	}

	b := NewBuilder(2, 7)
	b.UseBias(false)
	x := Dense(b, b.Input("x", 2), "fc", 2, Identity)
	prediction := Dense(b, x, "fc", 2, Identity)
	b.SetLoss(SquaredError(b, prediction, b.Input("target", 2)), prediction)
	if _, err := b.Network(); err == nil || !strings.Contains(err.Error(), "fc.weight") {
		t.Errorf("two layers with one name: %v", err)
	}
}

// LoRA adds zeros at first. After training it adds scale·x·A·B to each step.
func TestLoRA_MatchesProduct(t *testing.T) {
	n := NewBuilder(1, 7)
	x := n.Input("x", 2, 3)
	y := LoRA(n, x, "lora.fc", 4, 2, 1.5)
	prediction := Flatten(n, y)
	n.SetLoss(SquaredError(n, prediction, n.Input("target", 8)), prediction)
	net, err := n.Network()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := describeNodes(net.Params), "lora.fc.A.weight[3 2] lora.fc.B.weight[2 4]"; got != want {
		t.Errorf("parameters %s, want %s", got, want)
	}
	a, b := net.Params[0].Value().Data().([]float32), net.Params[1].Value().Data().([]float32)
	xs := []float32{1, -2, 0.5, 3, 0, -1}
	values := [][]float32{xs, make([]float32, 8)}
	if got := evaluate(t, net.Inputs, values, y)[0]; !slices.Equal(got, make([]float32, 8)) {
		t.Errorf("initially it adds %v", got)
	}
	for i := range b {
		b[i] = float32(i) - 3
	}
	got := evaluate(t, net.Inputs, values, y)[0]
	for i := range got {
		step, o, want := i/4, i%4, 0.0
		for r := range 2 {
			for j := range 3 {
				want += 1.5 * float64(xs[3*step+j]) * float64(a[2*j+r]) * float64(b[4*r+o])
			}
		}
		if !(math.Abs(float64(got[i])-want) <= 1e-6) {
			t.Errorf("step %d, element %d: %v, want %v", step, o, got[i], want)
		}
	}
	for _, invalid := range []func(n *Builder, x *G.Node){
		func(n *Builder, x *G.Node) { LoRA(n, x, "lora", 4, 0, 1) },
		func(n *Builder, x *G.Node) { LoRA(n, LoRA(n, x, "lora", 4, 1, 1), "lora", 4, 1, 1) },
		func(n *Builder, x *G.Node) { LoRA(n, n.Input("one"), "lora", 4, 1, 1) },
	} {
		n := NewBuilder(1, 7)
		invalid(n, n.Input("x", 3))
		if _, err := n.Network(); err == nil || !strings.Contains(err.Error(), "lora") && !strings.Contains(err.Error(), "one") {
			t.Errorf("an invalid call gives %v", err)
		}
	}
}

// The output is x + scale·bias, and the bias starts at zero.
func TestAddBias(t *testing.T) {
	b := NewBuilder(2, 1)
	x := b.Input("x", 2)
	y := AddBias(b, x, "bag", 0.25)
	if b.err != nil {
		t.Fatal(b.err)
	}
	if got := evaluate(t, b.net.Inputs, [][]float32{{1, 2, 3, 4}}, y)[0]; !slices.Equal(got, []float32{1, 2, 3, 4}) {
		t.Errorf("at first %v", got)
	}
	bias := b.net.Params[0].Value().Data().([]float32)
	bias[0], bias[1] = 4, -8
	if got := evaluate(t, b.net.Inputs, [][]float32{{1, 2, 3, 4}}, y)[0]; !slices.Equal(got, []float32{2, 0, 4, 2}) {
		t.Errorf("with a bias %v", got)
	}
}
