package op

import (
	"math"
	"math/rand/v2"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// operand is one input of an operation under test.
type operand struct {
	shape  tensor.Shape
	values []float64
}

// trial is an operation with inputs that fit it.
type trial struct {
	spec Operation
	in   []operand
}

func (tr trial) shapes() []tensor.Shape {
	s := make([]tensor.Shape, len(tr.in))
	for i, x := range tr.in {
		s[i] = x.shape
	}
	return s
}

func (tr trial) values() [][]float64 {
	v := make([][]float64, len(tr.in))
	for i, x := range tr.in {
		v[i] = x.values
	}
	return v
}

// do runs the reference. The output contains other numbers before.
func (tr trial) do(t *testing.T) operand {
	t.Helper()
	shape, err := tr.spec.Shape(tr.shapes())
	if err != nil {
		t.Fatalf("%v%v: %v", tr.spec, tr.shapes(), err)
	}
	out := make([]float64, shape.TotalSize())
	for i := range out {
		out[i] = math.NaN()
	}
	tr.spec.Do(out, tr.values(), tr.shapes())
	return operand{shape, out}
}

// normal is a tensor of independent standard normals.
func normal(r *rand.Rand, shape ...int) operand {
	x := operand{shape, make([]float64, tensor.Shape(shape).TotalSize())}
	for i := range x.values {
		x.values[i] = r.NormFloat64()
	}
	return x
}

// apart is a tensor whose elements are at least 0.1 away from zero and from each other,
// so that a small step does not cross a kink.
func apart(r *rand.Rand, shape ...int) operand {
	x := operand{shape, make([]float64, tensor.Shape(shape).TotalSize())}
	for i, p := range r.Perm(len(x.values)) {
		x.values[i] = 0.1 * (float64(p-len(x.values)/2) + 0.5)
	}
	return x
}

// whole is a tensor of whole numbers from lo to hi−1.
func whole(r *rand.Rand, lo, hi int, shape ...int) operand {
	x := operand{shape, make([]float64, tensor.Shape(shape).TotalSize())}
	for i := range x.values {
		x.values[i] = float64(lo + r.IntN(hi-lo))
	}
	return x
}

// node adds an operand to a graph.
func (x operand) node(t *testing.T, g *G.ExprGraph, name string) *G.Node {
	t.Helper()
	v, err := newValue(append([]float64(nil), x.values...), x.shape, tensor.Float64)
	if err != nil {
		t.Fatal(err)
	}
	return G.NodeFromAny(g, v, G.WithName(name))
}

// graph adds a trial to a graph of its own.
func (tr trial) graph(t *testing.T) (in G.Nodes, out *G.Node) {
	t.Helper()
	g := G.NewGraph()
	for i, x := range tr.in {
		in = append(in, x.node(t, g, string(rune('a'+i))))
	}
	out, err := Apply(tr.spec, in...)
	if err != nil {
		t.Fatalf("%v%v: %v", tr.spec, tr.shapes(), err)
	}
	return in, out
}

// weigh ends a graph in the scalar loss Σ w·out for fixed random w.
func weigh(t *testing.T, r *rand.Rand, out *G.Node) (loss *G.Node, w []float64) {
	t.Helper()
	x := normal(r, out.Shape()...)
	loss, err := G.HadamardProd(out, x.node(t, out.Graph(), "w"))
	if err == nil && !loss.IsScalar() {
		loss, err = G.Sum(loss)
	}
	if err != nil {
		t.Fatal(err)
	}
	return loss, x.values
}

// run evaluates nodes of one graph with Gorgonia's tape machine.
func run(t *testing.T, nodes ...*G.Node) [][]float64 {
	t.Helper()
	got := make([]G.Value, len(nodes))
	for i, n := range nodes {
		G.Read(n, &got[i])
	}
	vm := G.NewTapeMachine(nodes[0].Graph())
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		t.Fatal(err)
	}
	out := make([][]float64, len(nodes))
	for i, v := range got {
		var err error
		if out[i], err = floatsOf(v); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// same compares two tensors up to a tolerance relative to the largest element.
func same(t *testing.T, what string, got, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	scale := 1e-3
	for _, v := range want {
		scale = math.Max(scale, math.Abs(v))
	}
	for i := range got {
		if !(math.Abs(got[i]-want[i]) <= tolerance*scale) {
			t.Fatalf("%s: element %d of %d is %v, want %v", what, i, len(got), got[i], want[i])
		}
	}
}

// between draws a whole number from lo to hi.
func between(r *rand.Rand, lo, hi int) int { return lo + r.IntN(hi-lo+1) }

// someWindow draws a window and pictures that it fits. The padding is small enough that
// every position covers the picture.
func someWindow(r *rand.Rand) (w Window, height, width int) {
	axis := func() (size, k, s, p, d int) {
		k, s, d = between(r, 1, 4), between(r, 1, 3), between(r, 1, 2)
		p = r.IntN((k-1)*d/2 + 1)
		return (k-1)*d + 1 + r.IntN(5), k, s, p, d
	}
	height, w.KernelH, w.StrideH, w.PadH, w.DilationH = axis()
	width, w.KernelW, w.StrideW, w.PadW, w.DilationW = axis()
	return w, height, width
}

// smoothTrials draws one trial of every operation that has a derivative.
func smoothTrials(r *rand.Rand) []trial {
	b := between(r, 1, 4)
	var list []trial
	add := func(s Differentiable, in ...operand) { list = append(list, trial{s, in}) }

	fused := []Activation{Identity, ReLU, Tanh, Sigmoid, LeakyReLU, ELU, Softplus}[r.IntN(7)]
	p, d := between(r, 1, 5), between(r, 1, 5)
	add(Linear{fused}, normal(r, b, p), normal(r, p, d), normal(r, d))
	add(MatMul{}, normal(r, b, p), normal(r, p, d))
	add(MatMul{TransA: true}, normal(r, p, b), normal(r, p, d))
	add(MatMul{TransB: true}, normal(r, b, p), normal(r, d, p))
	add(MatMul{TransA: true, TransB: true}, normal(r, p, b), normal(r, d, p))
	for _, a := range []Activation{Identity, ReLU, Tanh, Sigmoid, GELU, LeakyReLU, ELU, SiLU, Softplus} {
		add(Activate{a}, apart(r, b, 5))
	}

	w, h, wd := someWindow(r)
	groups := between(r, 1, 2)
	c, o := groups*between(r, 1, 2), groups*between(r, 1, 3)
	add(Conv2D{w, groups, fused}, normal(r, b, c, h, wd), normal(r, o, c/groups, w.KernelH, w.KernelW), normal(r, o))
	oh, ow, _ := w.OutputSize(h, wd)
	add(ConvGradInput{w, groups, c, h, wd, o}, normal(r, b, o, oh, ow), normal(r, o, c/groups, w.KernelH, w.KernelW))
	add(MaxPool2D{w}, apart(r, b, c, h, wd))
	add(AvgPool2D{w}, normal(r, b, c, h, wd))
	add(AvgPool2D{Window{h, wd, 1, 1, 0, 0, 1, 1}}, normal(r, b, c, h, wd))

	add(Normalize{p + 1, 1e-2, true}, normal(r, b, 3, p+1))
	add(Normalize{p + 1, 1e-2, false}, normal(r, b, 3, p+1))
	add(Normalize{c / groups * h * wd, 1e-2, true}, normal(r, b, c, h, wd))
	add(ScaleShift{d, 1}, normal(r, b, 3, d), normal(r, d), normal(r, d))
	add(ScaleShift{c, h * wd}, normal(r, b, c, h, wd), normal(r, c), normal(r, c))

	add(CrossEntropy{}, normal(r, b, d), whole(r, -1, d, b))
	add(CrossEntropy{Smoothing: 0.1}, normal(r, b, d), whole(r, -1, d, b))
	for _, e := range []ElementLoss{AbsoluteError, HuberError, PoissonLoss, HingeLoss} {
		add(ElementLosses{Kind: e, Width: 0.5}, apart(r, b, d), whole(r, -1, 2, b, d))
	}
	add(SigmoidCrossEntropy{}, normal(r, b, d), normal(r, b, d))
	add(SquaredError{}, normal(r, b, d, 2), normal(r, b, d, 2))
	add(SquaredError{}, normal(r, b), normal(r, b))
	add(Total{0.25}, normal(r, b, d))
	add(Embed{}, normal(r, 4, d), whole(r, -1, 5, b))
	add(Embed{}, normal(r, 4, d), whole(r, 0, 4, b, p))
	add(EmbedBag{0.25}, normal(r, 4, d), whole(r, 0, 4, b, p))
	add(Add{}, normal(r, b, d), normal(r, b, d))
	add(Dropout{Rate: 0.4, Seed: 3, Layer: 1}, normal(r, b, d, 3), whole(r, 0, maskSeedHalf, b, MaskSeedWidth))
	return append(list, sequenceTrials(r)...)
}

// each runs a check on every trial for several seeds.
func each(t *testing.T, check func(t *testing.T, r *rand.Rand, tr trial)) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 3))
		for _, tr := range smoothTrials(r) {
			t.Run(tr.spec.String(), func(t *testing.T) { check(t, r, tr) })
		}
	}
}
