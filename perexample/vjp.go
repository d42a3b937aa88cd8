package perexample

import (
	"github.com/dptrain/dptrain/internal/device/op"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// vjp is the vector–Jacobian product of a function of parameters and constants only, as
// Gorgonia derives it: the nodes between the gradient of the function's value (the
// cotangent) and the gradient of a parameter. It is derived in a graph of its own, so
// that no other node contributes to either gradient. It is then applied to the gradients
// of several records at once.
type vjp struct {
	parameter           *G.Node
	value               *G.Node
	cotangent, gradient *G.Node             // nil if the value is the parameter itself
	inNetwork           map[*G.Node]*G.Node // the same node in the network's graph
	depending           map[*G.Node]bool    // depends on the cotangent
}

// newVJP differentiates the function that computes value from the parameter.
func (r *layoutAnalysis) newVJP(param, value *G.Node) (b *vjp, err error) {
	b = &vjp{parameter: param, value: value, inNetwork: map[*G.Node]*G.Node{}, depending: map[*G.Node]bool{}}
	if value == param {
		return b, nil
	}
	defer func() {
		if p := recover(); p != nil {
			b, err = nil, &noRuleError{value, param}
		}
	}()
	graph, copies := G.NewGraph(), map[*G.Node]*G.Node{}
	copied, err := b.copyNode(value, graph, copies)
	if err != nil {
		return nil, err
	}
	loss := G.Must(G.HadamardProd(copied, newVariable(graph, "dptrain: any gradient", value.Shape())))
	if !loss.IsScalar() {
		loss = G.Must(G.Sum(loss))
	}
	if _, err := G.Grad(loss, copies[param]); err != nil {
		return nil, b.noRule()
	}
	b.cotangent, b.gradient = copied.Deriv(), copies[param].Deriv()
	b.depending[b.cotangent] = true
	return b, nil
}

// noRule is the error that the function has no rule.
func (b *vjp) noRule() error { return &noRuleError{b.value, b.parameter} }

// newVariable adds a variable to a graph.
func newVariable(g *G.ExprGraph, name string, shape tensor.Shape) *G.Node {
	if shape.Dims() == 0 {
		return G.NewScalar(g, tensor.Float32, G.WithName(name))
	}
	return G.NewTensor(g, tensor.Float32, shape.Dims(), G.WithShape(shape...), G.WithName(name))
}

// copyNode copies a node, and all nodes that it is computed from, to another graph.
func (b *vjp) copyNode(n *G.Node, g *G.ExprGraph, copies map[*G.Node]*G.Node) (c *G.Node, err error) {
	if c, done := copies[n]; done {
		return c, nil
	}
	switch in := op.Operands(n); {
	case n.Op() == nil:
		c = newVariable(g, n.Name(), n.Shape())
	case len(in) == 0:
		c = g.AddNode(G.NewConstant(n.Value(), G.WithName(n.Name()))) // NewConstant alone would share the node
	default:
		for i, x := range in {
			if in[i], err = b.copyNode(x, g, copies); err != nil {
				return nil, err
			}
		}
		if c, err = G.ApplyOp(n.Op(), in...); err != nil {
			return nil, &noRuleError{n, b.parameter}
		}
	}
	copies[n], b.inNetwork[c] = c, n
	return c, nil
}

// dependsOnCotangent reports whether a node's numbers depend on the cotangent.
func (b *vjp) dependsOnCotangent(n *G.Node) bool {
	yes, done := b.depending[n]
	if !done && op.OpKind(n) != "sizeOp" {
		for _, x := range op.CanonicalOperands(n) {
			yes = b.dependsOnCotangent(x) || yes
		}
		b.depending[n] = yes
	}
	return yes
}

// applyToRows multiplies the value's gradients of a range of records, one per row, by the
// transposed Jacobian. The result is the parameter's gradients, one per row.
func (b *vjp) applyToRows(gradients *G.Node, s recordRange) (*G.Node, error) {
	if b.cotangent == nil {
		return gradients, nil
	}
	if !b.dependsOnCotangent(b.gradient) || b.value.Dims() >= op.MaxDims {
		return nil, b.noRule()
	}
	first, err := reshape(gradients, recordsShape(s.count, b.cotangent.Shape())...)
	if err != nil {
		return nil, err
	}
	l := batchedVJP{vjp: b, records: s, built: map[*G.Node]*G.Node{b.cotangent: first}}
	end, err := l.node(b.gradient)
	if err != nil {
		return nil, b.noRule() // computing one record at a time needs no rule
	}
	return reshape(end, s.count, b.parameter.Shape().TotalSize())
}

// recordsShape is a shape with an axis of records before it.
func recordsShape(count int, shape tensor.Shape) []int { return append([]int{count}, shape...) }

// nodeInNetwork is the node of the network's graph that is the same as a node which does
// not depend on the cotangent.
func (b *vjp) nodeInNetwork(n *G.Node) (*G.Node, error) {
	if m, done := b.inNetwork[n]; done {
		return m, nil
	}
	var m *G.Node
	switch in := op.Operands(n); {
	case op.OpKind(n) == "sizeOp":
		size, known := op.AxisLength(n)
		if !known {
			return nil, b.noRule()
		}
		m = G.NewConstant(float32(size))
	case len(in) == 0:
		m = b.value.Graph().AddNode(G.NewConstant(n.Value()))
	default:
		for i, x := range in {
			var err error
			if in[i], err = b.nodeInNetwork(x); err != nil {
				return nil, err
			}
		}
		var err error
		if m, err = G.ApplyOp(n.Op(), in...); err != nil {
			return nil, b.noRule()
		}
	}
	b.inNetwork[n] = m
	return m, nil
}
