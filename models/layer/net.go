// Package layer builds networks out of the layers that people know, on plain
// Gorgonia nodes: each layer takes and gives a *gorgonia.Node, so that Gorgonia's
// own functions fit in between.
//
//	n := layer.New(batch, 1)
//	x := n.Input("x", 784)
//	h := n.Dense(x, "fc1", 1000, layer.ReLU)
//	n.CrossEntropy(n.Dense(h, "fc2", 10, layer.Identity), n.Input("label"))
//	return n.Network()
//
// Every layer treats each example by itself; there is none that mixes the
// examples of a batch, for such a network could not be trained privately.
//
// Starting weights are public: they come from a generator whose seed anyone may
// know, and depend on no data.
package layer

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Net is a network under construction, for a fixed number of examples at a time.
//
// The first mistake is kept: layers after it do nothing and give nil, and Network
// returns it.
type Net struct {
	seed   uint64
	starts starts
	graph  *G.ExprGraph
	net    perexample.Network
	names  map[string]bool
	size   int    // elements of all parameters
	drops  uint32 // dropout layers so far

	standardized bool // convolutions standardise their weights
	unbiased     bool // dense and convolution layers have no bias
	err          error
}

// mostWeights is how many weights the places of 32 bits count that devices and files
// have for them; they would take eight gibibytes, several times.
const mostWeights = math.MaxInt32

// New starts a network for microbatches of batch examples. The seed fixes the
// starting weights; it is public.
func New(batch int, seed uint64) *Net {
	n := &Net{seed: seed, starts: pyTorch, graph: G.NewGraph(), net: perexample.Network{Batch: batch}, names: map[string]bool{}}
	if batch < 1 {
		n.fail(fmt.Errorf("a microbatch of %d examples: at least one is needed", batch))
	}
	return n
}

// Graph is the graph that the nodes live in.
func (n *Net) Graph() *G.ExprGraph { return n.graph }

// Network is the finished network, or the first mistake made in building it.
func (n *Net) Network() (*perexample.Network, error) {
	if n.err == nil && n.net.Loss == nil {
		n.fail(fmt.Errorf("the network has no loss: end it in CrossEntropy or another loss"))
	}
	if n.err != nil {
		return nil, n.err
	}
	net := n.net
	return &net, nil
}

func (n *Net) fail(err error) *G.Node {
	if n.err == nil {
		n.err = err
	}
	return nil
}

// Try adds nodes made by Gorgonia's own functions. It calls f, unless a mistake
// was made before.
//
//	h = n.Try(func() (*gorgonia.Node, error) { return gorgonia.HadamardProd(h, gate) })
func (n *Net) Try(f func() (*G.Node, error)) *G.Node {
	if n.err != nil {
		return nil
	}
	x, err := f()
	if err != nil {
		return n.fail(err)
	}
	return x
}

// ready reports whether a layer called what can be built on x.
func (n *Net) ready(what string, x ...*G.Node) bool {
	if n.err != nil {
		return false
	}
	for _, v := range x {
		if v == nil {
			n.fail(fmt.Errorf("%s: its input is missing", what))
			return false
		}
	}
	return true
}

// apply adds one operation of the layer called what.
func (n *Net) apply(what string, s op.Spec, x ...*G.Node) *G.Node {
	return n.Try(func() (*G.Node, error) {
		y, err := op.Apply(s, x...)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		return y, nil
	})
}

func (n *Net) reshape(what string, x *G.Node, dims ...int) *G.Node {
	return n.Try(func() (*G.Node, error) {
		y, err := G.Reshape(x, dims)
		if err != nil {
			return nil, fmt.Errorf("%s: a tensor of shape %v cannot take shape %v", what, x.Shape(), dims)
		}
		return y, nil
	})
}

// named claims a name for a tensor of the given dims.
func (n *Net) named(name string, dims []int) bool {
	switch {
	case n.err != nil:
	case name == "":
		n.fail(fmt.Errorf("an input or parameter of shape %v has no name", dims))
	case n.names[name]:
		n.fail(fmt.Errorf("two inputs or parameters are called %s: give each its own name", name))
	}
	for _, d := range dims {
		if d < 1 {
			n.fail(fmt.Errorf("%s of shape %v: every axis needs a length of at least 1", name, dims))
		}
	}
	n.names[name] = true
	return n.err == nil
}

// Input adds an input whose examples have the given shape; with none, each is one
// number, such as a label. Inputs are numbered in the order of their making.
func (n *Net) Input(name string, dims ...int) *G.Node {
	if !n.named(name, dims) {
		return nil
	}
	shape := append([]int{n.net.Batch}, dims...)
	x := G.NewTensor(n.graph, tensor.Float32, len(shape), G.WithShape(shape...), G.WithName(name))
	n.net.Inputs = append(n.net.Inputs, x)
	return x
}

// Param adds a trained parameter. Its starting value depends on the network's
// seed, its name and its shape alone, and is drawn each time that it is needed:
// see [perexample.InitialValue].
func (n *Net) Param(name string, start Start, dims ...int) *G.Node {
	if !n.named(name, dims) {
		return nil
	}
	if len(dims) == 0 || start == nil {
		return n.fail(fmt.Errorf("parameter %s needs a shape and a start", name))
	}
	size := 1
	for _, d := range dims {
		if d > (mostWeights-n.size)/size {
			return n.fail(fmt.Errorf("parameter %s of shape %v: with it the network has more than %d weights, the most that can be trained", name, dims, mostWeights))
		}
		size *= d
	}
	n.size += size
	p := G.NewTensor(n.graph, tensor.Float32, len(dims), G.WithShape(dims...), G.WithName(name))
	seed := n.seed
	if err := G.Let(p, perexample.NewInitialValue(func(into []float32) { start.draw(into, seed, name) }, dims...)); err != nil {
		return n.fail(fmt.Errorf("parameter %s: %w", name, err))
	}
	n.net.Params = append(n.net.Params, p)
	return p
}
