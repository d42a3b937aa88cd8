package perexample

import (
	"github.com/dptrain/dptrain/internal/op"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// pullback is the derivative of a function of parameters and constants alone, as
// Gorgonia makes it: the nodes between the gradient of the function's value and that
// of a parameter. It is made in a graph of its own, where nothing else has a part in
// either, and is then applied to the gradients of several records at once.
type pullback struct {
	param      *G.Node
	value      *G.Node
	start, end *G.Node             // gradient of the value, and of the parameter; nil where the value is the parameter
	main       map[*G.Node]*G.Node // what is the same in the network's graph
	varies     map[*G.Node]bool    // depends on start
}

// pullback differentiates the function that makes value of the parameter.
func (r *reading) pullback(param, value *G.Node) (b *pullback, err error) {
	b = &pullback{param: param, value: value, main: map[*G.Node]*G.Node{}, varies: map[*G.Node]bool{}}
	if value == param {
		return b, nil
	}
	defer func() {
		if p := recover(); p != nil {
			b, err = nil, &noRule{value, param}
		}
	}()
	graph, copies := G.NewGraph(), map[*G.Node]*G.Node{}
	copied, err := b.copy(value, graph, copies)
	if err != nil {
		return nil, err
	}
	loss := G.Must(G.HadamardProd(copied, variable(graph, "dptrain: any gradient", value.Shape())))
	if !loss.IsScalar() {
		loss = G.Must(G.Sum(loss))
	}
	if _, err := G.Grad(loss, copies[param]); err != nil {
		return nil, b.missing()
	}
	b.start, b.end = copied.Deriv(), copies[param].Deriv()
	b.varies[b.start] = true
	return b, nil
}

// missing says that the function has no rule.
func (b *pullback) missing() error { return &noRule{b.value, b.param} }

// variable is a leaf of a graph.
func variable(g *G.ExprGraph, name string, shape tensor.Shape) *G.Node {
	if shape.Dims() == 0 {
		return G.NewScalar(g, tensor.Float32, G.WithName(name))
	}
	return G.NewTensor(g, tensor.Float32, shape.Dims(), G.WithShape(shape...), G.WithName(name))
}

// copy makes a node, with all that it is computed from, anew in another graph.
func (b *pullback) copy(n *G.Node, g *G.ExprGraph, copies map[*G.Node]*G.Node) (c *G.Node, err error) {
	if c, done := copies[n]; done {
		return c, nil
	}
	switch in := op.Operands(n); {
	case n.Op() == nil:
		c = variable(g, n.Name(), n.Shape())
	case len(in) == 0:
		c = g.AddNode(G.NewConstant(n.Value(), G.WithName(n.Name()))) // which makes a node of its own
	default:
		for i, x := range in {
			if in[i], err = b.copy(x, g, copies); err != nil {
				return nil, err
			}
		}
		if c, err = G.ApplyOp(n.Op(), in...); err != nil {
			return nil, &noRule{n, b.param}
		}
	}
	copies[n], b.main[c] = c, n
	return c, nil
}

// depends reports whether a node's numbers depend on the gradient at the start.
func (b *pullback) depends(n *G.Node) bool {
	yes, done := b.varies[n]
	if !done && op.OpKind(n) != "sizeOp" {
		for _, x := range op.CanonicalOperands(n) {
			yes = b.depends(x) || yes
		}
		b.varies[n] = yes
	}
	return yes
}

// rows applies the derivative to a share's records' gradients of the value, one a
// row, and gives those of the parameter, one a row.
func (b *pullback) rows(gradients *G.Node, s share) (*G.Node, error) {
	if b.start == nil {
		return gradients, nil
	}
	if !b.depends(b.end) || b.value.Dims() >= op.MaxDims {
		return nil, b.missing()
	}
	first, err := reshape(gradients, stacked(s.count, b.start.Shape())...)
	if err != nil {
		return nil, err
	}
	l := lift{pullback: b, share: s, done: map[*G.Node]*G.Node{b.start: first}}
	end, err := l.node(b.end)
	if err != nil {
		return nil, b.missing() // one record at a time needs none
	}
	return reshape(end, s.count, b.param.Shape().TotalSize())
}

// stacked is a shape with an axis of records before it.
func stacked(count int, shape tensor.Shape) []int { return append([]int{count}, shape...) }

// same gives what a node that does not depend on the start is in the network's
// graph.
func (b *pullback) same(n *G.Node) (*G.Node, error) {
	if m, done := b.main[n]; done {
		return m, nil
	}
	var m *G.Node
	switch in := op.Operands(n); {
	case op.OpKind(n) == "sizeOp":
		size, known := op.AxisLength(n)
		if !known {
			return nil, b.missing()
		}
		m = G.NewConstant(float32(size))
	case len(in) == 0:
		m = b.value.Graph().AddNode(G.NewConstant(n.Value()))
	default:
		for i, x := range in {
			var err error
			if in[i], err = b.same(x); err != nil {
				return nil, err
			}
		}
		var err error
		if m, err = G.ApplyOp(n.Op(), in...); err != nil {
			return nil, b.missing()
		}
	}
	b.main[n] = m
	return m, nil
}
