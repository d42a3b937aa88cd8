package layer

import (
	"fmt"
	"slices"

	"github.com/dptrain/dptrain/internal/op"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Activation is a function applied to every element.
type Activation = op.Activation

// The activations. GELU is the exact one, x·Φ(x).
const (
	Identity = op.Identity
	ReLU     = op.ReLU
	Tanh     = op.Tanh
	Sigmoid  = op.Sigmoid
	GELU     = op.GELU
	// LeakyReLU is x, or x/100 below zero; ELU is x, or eˣ−1 below zero; SiLU is
	// x·σ(x); Softplus is log(1+eˣ).
	LeakyReLU = op.LeakyReLU
	ELU       = op.ELU
	SiLU      = op.SiLU
	Softplus  = op.Softplus
)

// Activate applies an activation to every element.
func (n *Net) Activate(x *G.Node, act Activation) *G.Node {
	if !n.ready("activation", x) || !n.known("activation", act) || act == Identity {
		return x
	}
	return n.apply("activation", op.Activate{Act: act}, x)
}

func (n *Net) known(what string, act Activation) bool {
	if act > Softplus {
		n.fail(fmt.Errorf("%s: there is no activation %d", what, uint8(act)))
	}
	return n.err == nil
}

// fuse splits an activation into what the layer before it can do itself and what
// is left to do.
func fuse(act Activation) (fused, left Activation) {
	if act.FromOutput() {
		return act, Identity
	}
	return Identity, act
}

// Dense is act(x·W + b) over the last axis of x, with parameters name.weight
// [in, out] and name.bias [out]. The weight is the transpose of PyTorch's.
func (n *Net) Dense(x *G.Node, name string, out int, act Activation) *G.Node {
	if !n.features(name, x) || !n.known(name, act) {
		return nil
	}
	in := x.Shape()[x.Dims()-1]
	weightStart, biasStart := n.starts(in, out)
	w := n.Param(name+".weight", weightStart, in, out)
	return n.dense(x, name, w, n.bias(name, biasStart, out), act)
}

func (n *Net) dense(x *G.Node, name string, w, b *G.Node, act Activation) *G.Node {
	if n.err != nil {
		return nil
	}
	rows, back := n.rows(name, x)
	fused, left := fuse(act)
	return n.Activate(back(n.apply(name, op.Linear{Act: fused}, rows, w, b)), left)
}

// LowRank is scale·x·A·B over the last axis of x, with parameters name.A.weight [in, rank],
// which starts as a dense layer's, and name.B.weight [rank, out] of zeros: what is added to
// a dense layer that keeps its weights, to tune it (Hu et al. 2022, "LoRA"). PyTorch's are
// two Linear of bias=False.
//
//	h = n.Add(n.Dense(x, "fc", 64, layer.Identity), n.LowRank(x, "lora.fc", 64, 4, 2))
func (n *Net) LowRank(x *G.Node, name string, out, rank int, scale float64) *G.Node {
	if !n.features(name, x) {
		return nil
	}
	in := x.Shape()[x.Dims()-1]
	a := n.Param(name+".A.weight", fanIn(in), in, rank)
	b := n.Param(name+".B.weight", Constant(0), rank, out)
	h := n.dense(x, name, a, n.zeros(name+".A.bias", rank), Identity)
	y := n.dense(h, name, b, n.zeros(name+".B.bias", out), Identity)
	return n.Try(func() (*G.Node, error) { return G.HadamardProd(y, G.NewConstant(float32(scale))) })
}

// Biases says whether the dense and convolution layers that follow have a bias; without a
// word they do. Those without one have no name.bias, as PyTorch's of bias=False.
func (n *Net) Biases(have bool) { n.unbiased = !have }

// bias is that of the layer called name: zeros that nobody trains where it has none.
func (n *Net) bias(name string, start Start, size int) *G.Node {
	name += ".bias"
	if !n.unbiased {
		return n.Param(name, start, size)
	}
	return n.zeros(name, size)
}

// zeros are no parameter.
func (n *Net) zeros(name string, size int) *G.Node {
	if !n.named(name, []int{size}) {
		return nil
	}
	return G.NewVector(n.graph, tensor.Float32, G.WithShape(size), G.WithName(name),
		G.WithValue(tensor.New(tensor.WithShape(size), tensor.Of(tensor.Float32))))
}

// Project is x·Wᵀ for x [batch, features] and a fixed W, given by its rows, which
// is no parameter: nobody trains it, so no record has a gradient in it. It must be
// public. W is what torch.nn.Linear without a bias has as its weight.
func (n *Net) Project(x *G.Node, name string, rows []float32) *G.Node {
	if !n.ready(name, x) {
		return nil
	}
	if x.Dims() != 2 || len(rows) == 0 || len(rows)%x.Shape()[1] != 0 {
		return n.fail(fmt.Errorf("%s: %d numbers for an input of shape %v: rows as long as its last of two axes are needed", name, len(rows), x.Shape()))
	}
	dims := []int{len(rows) / x.Shape()[1], x.Shape()[1]}
	if !n.named(name, dims) {
		return nil
	}
	w := G.NewMatrix(n.graph, tensor.Float32, G.WithShape(dims...), G.WithName(name),
		G.WithValue(tensor.New(tensor.WithShape(dims...), tensor.WithBacking(slices.Clone(rows)))))
	return n.apply(name, op.MatMul{TransB: true}, x, w)
}

// Embedding looks up a row of name.weight [vocabulary, dim] for each index: ids
// [batch] or [batch, time] become [batch, dim] or [batch, time, dim]. An index
// below zero is padding and gives zeros. Rows start as standard normals.
func (n *Net) Embedding(ids *G.Node, name string, vocabulary, dim int) *G.Node {
	if !n.ready(name, ids) {
		return nil
	}
	table := n.Param(name+".weight", Normal(1), vocabulary, dim)
	return n.apply(name, op.Embed{}, table, ids)
}

// EmbeddingBag is the mean of the rows of name.weight [vocabulary, dim] that the
// indices [batch, time] name: [batch, dim]. Padding, which is below zero, counts as a row of
// zeros.
func (n *Net) EmbeddingBag(ids *G.Node, name string, vocabulary, dim int) *G.Node {
	if !n.ready(name, ids) {
		return nil
	}
	if ids.Dims() != 2 {
		return n.fail(fmt.Errorf("%s: indices of shape %v: [batch, time] is needed", name, ids.Shape()))
	}
	table := n.Param(name+".weight", Normal(1), vocabulary, dim)
	return n.apply(name, op.EmbedBag{Scale: 1 / float64(ids.Shape()[1])}, table, ids)
}

// EmbeddingBagWithoutPadding is EmbeddingBag where padding does not count; zeros where an
// example is padding alone.
func (n *Net) EmbeddingBagWithoutPadding(ids *G.Node, name string, vocabulary, dim int) *G.Node {
	x := n.EmbeddingBag(ids, name, vocabulary, dim)
	if x == nil {
		return nil
	}
	// The mean of the squares of k weights T/k, and of zeros, over T steps is T/k.
	steps := n.ownSteps(name, ids)
	squares := n.apply(name, op.ScaleRows{}, steps, steps)
	lost := n.mean(name, n.reshape(name, squares, n.net.Batch, ids.Shape()[1], 1))
	return n.apply(name, op.ScaleRows{}, x, n.reshape(name, lost, n.net.Batch))
}

// mean averages x [batch, time, dim] over time.
func (n *Net) mean(what string, x *G.Node) *G.Node {
	s := x.Shape()
	x = n.reshape(what, x, s[0], 1, s[1], s[2])
	y := n.apply(what, op.AvgPool2D{Window: op.Window{
		KernelH: s[1], KernelW: 1, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1,
	}}, x)
	return n.reshape(what, y, s[0], s[2])
}

// Flatten makes one axis of all but the batch.
func (n *Net) Flatten(x *G.Node) *G.Node {
	if !n.ready("flatten", x) || x.Dims() == 2 {
		return x
	}
	return n.reshape("flatten", x, n.net.Batch, x.Shape().TotalSize()/n.net.Batch)
}

// Reshape gives each example the shape dims.
func (n *Net) Reshape(x *G.Node, dims ...int) *G.Node {
	if !n.ready("reshape", x) {
		return nil
	}
	return n.reshape("reshape", x, append([]int{n.net.Batch}, dims...)...)
}

// Add is the sum of two tensors of one shape: a residual connection.
func (n *Net) Add(x, y *G.Node) *G.Node {
	if !n.ready("add", x, y) {
		return nil
	}
	return n.apply("add", op.Add{}, x, y)
}
