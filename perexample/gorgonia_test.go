package perexample_test

import (
	"math"
	"math/rand/v2"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// wrong are operations whose gradient is wrong in Gorgonia v0.9.18, each on one variable.
// This is why they are refused.
var wrong = map[string]struct {
	shape tensor.Shape
	loss  func(x *G.Node) (*G.Node, error)
}{
	"Log2":        {tensor.Shape{5}, G.Log2},
	"InverseSqrt": {tensor.Shape{5}, G.InverseSqrt},
	"OuterProd": {tensor.Shape{3}, func(x *G.Node) (*G.Node, error) {
		return G.OuterProd(x, must(G.Square(x)))
	}},
	"LogSumExp": {tensor.Shape{5}, func(x *G.Node) (*G.Node, error) { return G.LogSumExp(x, 0) }},
	"AveragePool2D": {tensor.Shape{1, 2, 4, 4}, func(x *G.Node) (*G.Node, error) {
		return G.AveragePool2D(x, tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2})
	}},
	"GlobalAveragePool2D": {tensor.Shape{2, 2, 3, 3}, G.GlobalAveragePool2D},
	"Max":                 {tensor.Shape{1, 5, 3, 4}, func(x *G.Node) (*G.Node, error) { return G.Max(x, 2) }},
	// This one is right, to show that the test can tell.
	"Sqrt": {tensor.Shape{5}, G.Sqrt},
}

// truth is the correct function of some of them.
var truth = map[string]func(x []float64) float64{
	"LogSumExp": func(x []float64) float64 {
		var s float64
		for _, v := range x {
			s += math.Exp(v)
		}
		return math.Log(s)
	},
	"Max": func(x []float64) (sum float64) {
		for i := 0; i < len(x); i += 12 {
			for j := range 4 {
				sum += max(x[i+j], x[i+j+4], x[i+j+8])
			}
		}
		return sum
	},
	"AveragePool2D": func(x []float64) float64 {
		var s float64
		for _, v := range x {
			s += v
		}
		return s / 4
	},
	"GlobalAveragePool2D": func(x []float64) float64 {
		var s float64
		for _, v := range x {
			s += v
		}
		return s / 9
	},
}

// outcome runs Σ f(x) and its gradient in float64. Failed is set if Gorgonia cannot run
// it.
func outcome(name string, x []float64, gradient bool) (loss float64, g []float64, failed bool) {
	defer func() { failed = failed || recover() != nil }()
	w := wrong[name]
	graph := G.NewGraph()
	value := tensor.New(tensor.WithShape(w.shape...), tensor.WithBacking(append([]float64(nil), x...)))
	in := G.NewTensor(graph, tensor.Float64, w.shape.Dims(), G.WithShape(w.shape...), G.WithName("x"), G.WithValue(value))
	out := must(w.loss(in))
	if !out.IsScalar() {
		out = must(G.Sum(out))
	}
	roots := G.Nodes{out}
	if gradient {
		roots = append(roots, must(G.Grad(out, in))...)
	}
	vm := G.NewTapeMachine(graph.ExactSubgraphRoots(roots...), G.TraceExec())
	defer vm.Close()
	if vm.RunAll() != nil {
		return 0, nil, true
	}
	loss = out.Value().Data().(float64)
	if gradient {
		g = roots[1].Value().Data().([]float64)
	}
	return loss, g, false
}

func TestGorgonia_RefusedOperationsAreWrong(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 7))
	for name, w := range wrong {
		x := make([]float64, w.shape.TotalSize())
		for i := range x {
			x[i] = 0.5 + r.Float64()
		}
		loss, g, failed := outcome(name, x, true)
		if f := truth[name]; f != nil && !failed && !(math.Abs(loss-f(x)) <= 1e-9) {
			failed = true
		}
		for i := range x {
			if failed {
				break
			}
			const h = 1e-6
			y := append([]float64(nil), x...)
			y[i] += h
			up, _, _ := outcome(name, y, false)
			y[i] -= 2 * h
			down, _, _ := outcome(name, y, false)
			failed = !(math.Abs((up-down)/(2*h)-g[i]) <= 1e-4)
		}
		if right := name == "Sqrt"; failed == right {
			t.Errorf("%s: wrong is %t", name, failed)
		}
	}
}

// Gorgonia's softmax takes each row's maximum to be at least the first number of the
// tensor, so a large number of one example destroys another example's result. It never
// runs over several examples.
func TestGorgonia_SoftmaxMixesRows(t *testing.T) {
	graph := G.NewGraph()
	value := tensor.New(tensor.WithShape(2, 2), tensor.WithBacking([]float32{1000, 0, 1, 0}))
	x := G.NewMatrix(graph, tensor.Float32, G.WithShape(2, 2), G.WithName("x"), G.WithValue(value))
	y := must(G.SoftMax(x, 1))
	vm := G.NewTapeMachine(graph)
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		t.Fatal(err)
	}
	got := y.Value().Data().([]float32)[2]
	if want := 1 / (1 + math.Exp(-1)); math.Abs(float64(got)-want) < 1e-3 {
		t.Errorf("softmax of {1, 0} is %g next to {1000, 0}: Gorgonia is fixed", got)
	}
}

// Gorgonia distinguishes slices by the last byte of their bounds: the two parts of a
// concatenation that are 256 apart get one gradient.
func TestGorgonia_MergesSlices(t *testing.T) {
	graph := G.NewGraph()
	part := func(name string) *G.Node {
		return G.NewMatrix(graph, tensor.Float32, G.WithShape(1, 256), G.WithName(name))
	}
	a, b := part("a"), part("b")
	g := must(G.Grad(squares(must(G.Concat(1, a, b))), a, b))
	if g[0] != g[1] {
		t.Error("two parts of a join have gradients of their own: Gorgonia has been mended")
	}
}

// Gorgonia distinguishes constants by how they are printed, and does not distinguish a
// softmax from its logarithm.
func TestGorgonia_MergesConstantsAndSoftmaxes(t *testing.T) {
	graph := G.NewGraph()
	x := G.NewMatrix(graph, tensor.Float32, G.WithShape(1, 11), G.WithName("x"))
	if must(G.HadamardProd(x, one(4, 1, 11))) != must(G.HadamardProd(x, one(5, 1, 11))) {
		t.Error("products with two constants are two: Gorgonia has been mended")
	}
	if must(G.SoftMax(x)) != must(G.LogSoftMax(x)) {
		t.Error("a softmax is not its logarithm: Gorgonia has been mended")
	}
}
