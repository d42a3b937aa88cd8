package perexample

import (
	"github.com/dptrain/dptrain/internal/device/op"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// batchedVJP applies a vjp to the gradients of several records at once, as jax.vmap
// would. Every node that depends on the cotangent becomes a node of the network's graph
// with an additional first axis, which counts the records. All such nodes are linear in
// the cotangent, so few operations can occur.
type batchedVJP struct {
	*vjp
	records recordRange
	built   map[*G.Node]*G.Node
}

// node is the batched form of a node that depends on the cotangent.
func (l batchedVJP) node(n *G.Node) (*G.Node, error) {
	if y, done := l.built[n]; done {
		return y, nil
	}
	if n.Dims() >= op.MaxDims {
		return nil, l.noRule()
	}
	y, err := l.apply(n, op.CanonicalOperands(n))
	if err != nil {
		return nil, err
	}
	if y == nil {
		return nil, l.noRule()
	}
	l.built[n] = y
	return y, nil
}

// apply is the batched form of a node's operation, or nil if the operation has no rule.
func (l batchedVJP) apply(n *G.Node, in G.Nodes) (*G.Node, error) {
	switch s := op.Canonical(n).(type) {
	case op.Reshape:
		return l.applyToAll(op.Reshape{To: op.AxesOf(recordsShape(l.records.count, n.Shape())...)}, in)
	case op.Permute:
		order := []int{0}
		for _, axis := range s.Order.List() {
			order = append(order, axis+1)
		}
		return l.applyToAll(op.Permute{Order: op.AxesOf(order...)}, in)
	case op.Repeat:
		return l.applyToAll(op.Repeat{Axis: s.Axis + 1, Times: s.Times}, in)
	case op.Slice:
		s.Axis++
		return l.applyToAll(s, in)
	case op.SliceGrad:
		s.Slice.Axis++
		return l.applyToAll(s, in)
	case op.SumAxes:
		var over []int
		for _, axis := range s.Over.List() {
			over = append(over, axis+1)
		}
		return l.applyToAll(op.SumAxes{Over: op.AxesOf(over...)}, in)
	case op.Add, op.ActivationGrad, op.NormalizeGrad:
		return l.applyToAll(s, in)
	case op.SoftmaxGrad:
		s.Axis++
		return l.applyToAll(s, in)
	case op.Unary:
		if s.Kind == "neg" {
			return l.applyToAll(s, in)
		}
	case op.Binary:
		return l.binary(s, n, in)
	case op.MatMul:
		return l.product(s, in)
	}
	return nil, nil
}

// applyToAll applies a Spec to the batched forms of all operands.
func (l batchedVJP) applyToAll(s op.Operation, in G.Nodes) (*G.Node, error) {
	lifted := make(G.Nodes, len(in))
	for i, x := range in {
		var err error
		if lifted[i], err = l.operand(x); err != nil {
			return nil, err
		}
	}
	return op.Apply(s, lifted...)
}

// operand is the batched form of an operand. One that does not depend on the cotangent is
// repeated for every record.
func (l batchedVJP) operand(x *G.Node) (*G.Node, error) {
	if l.dependsOnCotangent(x) {
		return l.node(x)
	}
	shape := x.Shape()
	if shape.Dims() >= op.MaxDims {
		return nil, l.noRule()
	}
	x, err := l.nodeInNetwork(x)
	if err != nil {
		return nil, err
	}
	flat := []int{1, shape.TotalSize()}
	if l.records.rebuild {
		flat = append(flat, 1)
	}
	if x, err = reshape(x, flat...); err != nil {
		return nil, err
	}
	if l.records.count > 1 {
		if x, err = op.Apply(op.Repeat{Times: l.records.count}, x); err != nil {
			return nil, err
		}
	}
	return reshape(x, recordsShape(l.records.count, shape)...)
}

// broadcastScalar repeats one number per record over a shape.
func (l batchedVJP) broadcastScalar(x *G.Node, shape tensor.Shape) (*G.Node, error) {
	x, err := l.operand(x)
	if err != nil {
		return nil, err
	}
	if x, err = reshape(x, l.records.count, 1); err != nil {
		return nil, err
	}
	if x, err = op.Apply(op.Repeat{Axis: 1, Times: shape.TotalSize()}, x); err != nil {
		return nil, err
	}
	return reshape(x, recordsShape(l.records.count, shape)...)
}

// binary batches linear operations: sums of nodes that depend on the cotangent, and
// multiples of them.
func (l batchedVJP) binary(s op.Binary, n *G.Node, in G.Nodes) (*G.Node, error) {
	a, b := l.dependsOnCotangent(in[0]), l.dependsOnCotangent(in[1])
	linear := a && b && (s.Kind == "+" || s.Kind == "-") || a != b && s.Kind == "*" || !b && s.Kind == "/"
	if !linear {
		return nil, nil
	}
	lifted := make(G.Nodes, 2)
	for i, x := range in {
		var err error
		switch {
		case x.Shape().TotalSize() < n.Shape().TotalSize() && l.dependsOnCotangent(x):
			lifted[i], err = l.broadcastScalar(x, n.Shape())
		case x.Shape().TotalSize() == 1 && !l.dependsOnCotangent(x):
			lifted[i], err = l.nodeInNetwork(x)
		default:
			lifted[i], err = l.operand(x)
		}
		if err != nil {
			return nil, err
		}
	}
	return op.Apply(s, lifted...)
}

// product batches a product of two matrices, one of which depends on the cotangent. The
// rows of the left factor are stacked. If the right factor depends on the cotangent, the
// product is transposed first.
func (l batchedVJP) product(s op.MatMul, in G.Nodes) (*G.Node, error) {
	if l.dependsOnCotangent(in[0]) == l.dependsOnCotangent(in[1]) {
		return nil, nil
	}
	M, N, K, err := s.Sizes(in[0].Shape(), in[1].Shape())
	if err != nil {
		return nil, err
	}
	left := l.dependsOnCotangent(in[0])
	if !left { // (AB)ᵀ = BᵀAᵀ
		in[0], in[1] = in[1], in[0]
		s.TransA, s.TransB = !s.TransB, !s.TransA
		M, N = N, M
	}
	x, err := l.node(in[0])
	if err != nil {
		return nil, err
	}
	w, err := l.nodeInNetwork(in[1])
	if err != nil {
		return nil, err
	}
	swap := op.Permute{Order: op.AxesOf(0, 2, 1)}
	if s.TransA {
		if x, err = op.Apply(swap, x); err != nil {
			return nil, err
		}
	}
	if x, err = reshape(x, l.records.count*M, K); err != nil {
		return nil, err
	}
	if x, err = op.Apply(op.MatMul{TransB: s.TransB}, x, w); err != nil {
		return nil, err
	}
	if x, err = reshape(x, l.records.count, M, N); err != nil || left {
		return x, err
	}
	return op.Apply(swap, x)
}
