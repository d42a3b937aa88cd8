package perexample_test

import (
	"math/rand/v2"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/perexample"
	_ "go4.org/unsafe/assume-no-moving-gc" // with a new Go version, Gorgonia panics at start without it
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// maker builds networks in few lines. Its values depend on a seed and on the order of the
// calls, so that every build has the same.
type maker struct {
	batch  int
	graph  *G.ExprGraph
	random *rand.Rand
	net    perexample.Network
}

// design is a network and the distribution of its inputs.
type design struct {
	name string
	make func(m *maker) *G.Node // returns the loss
	// whole[k] is set if input k contains whole numbers below whole[k].
	whole map[int]int
	// loop is set if the network is computed one record at a time.
	loop bool
}

func (d design) build(seed uint64) perexample.Build {
	return func(batch int) (*perexample.Network, error) {
		m := &maker{batch: batch, graph: G.NewGraph(), random: rand.New(rand.NewPCG(seed, 1))}
		m.net.Batch = batch
		m.net.Loss = d.make(m)
		net := m.net
		return &net, nil
	}
}

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

func (m *maker) input(name string, dims ...int) *G.Node {
	shape := append(tensor.Shape{m.batch}, dims...)
	n := G.NewTensor(m.graph, tensor.Float32, len(shape), G.WithShape(shape...), G.WithName(name))
	m.net.Inputs = append(m.net.Inputs, n)
	return n
}

// value draws a tensor of the given shape.
func (m *maker) value(scale float32, dims ...int) []float32 {
	x := make([]float32, tensor.Shape(dims).TotalSize())
	for i := range x {
		x[i] = scale * float32(m.random.NormFloat64())
	}
	return x
}

// frozen is a variable with a value, not trained.
func (m *maker) frozen(name string, dims ...int) *G.Node {
	if len(dims) == 0 {
		return G.NewScalar(m.graph, tensor.Float32, G.WithName(name), G.WithValue(m.value(0.5, 1)[0]))
	}
	v := tensor.New(tensor.WithShape(dims...), tensor.WithBacking(m.value(0.5, dims...)))
	return G.NewTensor(m.graph, tensor.Float32, len(dims), G.WithShape(dims...), G.WithName(name), G.WithValue(v))
}

func (m *maker) param(name string, dims ...int) *G.Node {
	n := m.frozen(name, dims...)
	m.net.Params = append(m.net.Params, n)
	return n
}

// filled is a constant with the same number everywhere.
func (m *maker) filled(name string, v float32, dims ...int) *G.Node {
	x := make([]float32, tensor.Shape(dims).TotalSize())
	for i := range x {
		x[i] = v
	}
	t := tensor.New(tensor.WithShape(dims...), tensor.WithBacking(x))
	return G.NewTensor(m.graph, tensor.Float32, len(dims), G.WithShape(dims...), G.WithName(name), G.WithValue(t))
}

// one is a constant that is 1 at one index and 0 elsewhere.
func one(at int, dims ...int) *G.Node {
	x := make([]float32, tensor.Shape(dims).TotalSize())
	x[at] = 1
	return G.NewConstant(tensor.New(tensor.WithShape(dims...), tensor.WithBacking(x)))
}

// drop is dropout with the network's mask seeds.
func (m *maker) drop(x *G.Node, rate float64, layer uint32) *G.Node {
	if m.net.MaskSeed == nil {
		m.net.MaskSeed = G.NewMatrix(m.graph, tensor.Float32, G.WithShape(m.batch, op.MaskSeedWidth), G.WithName("ticket"))
	}
	return apply(op.Dropout{Rate: rate, Seed: 1, Layer: layer}, x, m.net.MaskSeed)
}

func apply(s op.Operation, in ...*G.Node) *G.Node { return must(op.Apply(s, in...)) }

func number(x float32) *G.Node { return G.NewConstant(x) }

// bias adds one number per column to a matrix.
func bias(x, b *G.Node) *G.Node { return must(G.BroadcastAdd(x, b, nil, []byte{0})) }

// squares sums the squares of all elements: a loss that depends on every element.
func squares(x *G.Node) *G.Node {
	return must(G.Sum(must(G.Square(x))))
}

func (m *maker) reshape(x *G.Node, dims ...int) *G.Node {
	return must(G.Reshape(x, tensor.Shape(dims)))
}

// scalar reshapes a tensor of one element to a scalar.
func (m *maker) scalar(x *G.Node) *G.Node {
	if x.IsScalar() {
		return x
	}
	return must(G.Sum(x))
}

// crossEntropy is −Σ target·log softmax(x), of Gorgonia's own operations.
func crossEntropy(x, target *G.Node) *G.Node {
	p := must(G.SoftMax(x, 1))
	return must(G.Neg(must(G.Sum(must(G.HadamardProd(target, must(G.Log(p))))))))
}
