package perexample

import (
	"fmt"
	"slices"

	"github.com/dptrain/dptrain/internal/op"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// rowwise are operations of Gorgonia's own that treat axis 0 as independent
// pictures.
var rowwise = map[string]bool{"upsampleOp": true}

// ofBatch gives the layout of a node of which at least one operand is a batch and
// the others are batches or free. A layout that does not fit the node's shape is
// caught by read.
func (r *reading) ofBatch(n *G.Node, in G.Nodes) (layout, error) {
	first := r.layouts[in[0]]
	rows := layout{kind: batch, outer: 1, inner: n.Shape().TotalSize() / r.net.Batch}
	switch s := op.Canonical(n).(type) {
	case nil:
		return r.foreign(n, in, rows)
	case op.Reshape, op.Unary:
		return first, nil
	case op.Binary, op.Add:
		return r.binary(n, in), nil
	case op.MatMul:
		return r.matmul(n, in, s, in[1].Shape())
	case op.MatVec:
		product, shapes := s.Product(op.ShapesOf(in))
		return r.matmul(n, in, product, shapes[1])
	case op.Dot:
		return r.dot(n, in)
	case op.Softmax:
		return r.softmax(n, in[0], s)
	case op.Permute:
		return r.permute(n, in[0], s)
	case op.Repeat:
		return r.repeat(n, in[0], s)
	case op.Slice:
		return r.slice(n, in[0], s)
	case op.Concat:
		return r.concat(n, in, s)
	case op.SumAxes:
		if s.Over.N == in[0].Dims() {
			return layout{kind: total}, nil
		}
		return r.reduce(n, in[0], s.Over)
	case op.Total:
		return layout{kind: total}, nil
	case op.Rowwise:
		for i, isRow := range s.Rows(len(in)) {
			switch l := r.layouts[in[i]]; {
			case !isRow && l.kind == batch:
				return layout{}, mixes(n, fmt.Sprintf("its operand %s is shared by all examples, but is computed from them", in[i].Name()))
			case isRow && !l.inRows(in[i].Shape()):
				return r.unruled(n), nil
			}
		}
		return rows, nil
	}
	return r.unruled(n), nil
}

// foreign gives the layout of an operation that only Gorgonia can run.
func (r *reading) foreign(n *G.Node, in G.Nodes, rows layout) (layout, error) {
	first := r.layouts[in[0]]
	switch kind := op.OpKind(n); {
	case rowwise[kind] && first.inRows(in[0].Shape()):
		return rows, nil
	case kind == "linAlgBinOp" && n.Dims() > 2 && first.inRows(in[0].Shape()) && r.layouts[in[1]].inRows(in[1].Shape()):
		return rows, nil // a batched product: axis 0 counts pairs of matrices
	}
	if _, resized := r.resized(n); !resized {
		return layout{}, mixes(n, "it does away with the batch axis, and is no sum")
	}
	return r.unruled(n), nil
}

func (r *reading) softmax(n, x *G.Node, s op.Softmax) (layout, error) {
	l := r.layouts[x]
	a, _, _, ok := l.axis(x.Shape(), r.net.Batch)
	switch {
	case !ok:
		return r.unruled(n), nil
	case s.Axis == a:
		return layout{}, mixes(n, "its softmax runs over the batch axis")
	}
	return l, nil
}

// binary combines a batch with another, with a number, or with a parameter of the
// batch's shape: that it is the same for every example is seen where its use is read.
func (r *reading) binary(n *G.Node, in G.Nodes) layout {
	x, y := r.layouts[in[0]], r.layouts[in[1]]
	switch {
	case x.kind != batch:
		return y
	case y.kind == batch && x != y:
		return r.unruled(n)
	}
	return x
}

// matmul follows a product [M, K]·[K, N] whose examples lie along M or along N; second is
// the shape of its second factor.
func (r *reading) matmul(n *G.Node, in G.Nodes, s op.MatMul, second tensor.Shape) (layout, error) {
	M, N, K, err := s.Sizes(in[0].Shape(), second)
	if err != nil {
		return layout{}, err
	}
	x, y := r.layouts[in[0]], r.layouts[in[1]]
	switch {
	case x.kind == batch && y.kind == batch:
		return layout{}, mixes(n, "both factors of the product are computed from the examples; use gorgonia.BatchedMatMul")
	case x.kind == batch && !s.TransA && x.inner%K == 0:
		return layout{kind: batch, outer: x.outer, inner: x.inner / K * N}, nil
	case x.kind == batch && s.TransA && x.outer%K == 0:
		return layout{kind: batch, outer: x.outer / K, inner: x.inner * N}, nil
	case y.kind == batch && !s.TransB && y.outer%K == 0:
		return layout{kind: batch, outer: M * (y.outer / K), inner: y.inner}, nil
	case y.kind == batch && s.TransB && y.inner%K == 0:
		return layout{kind: batch, outer: M * y.outer, inner: y.inner / K}, nil
	}
	return layout{}, mixes(n, "the product sums over the batch axis")
}

// dot follows an inner product: of two batches of numbers it is a sum over the
// examples.
func (r *reading) dot(n *G.Node, in G.Nodes) (layout, error) {
	x, y := r.layouts[in[0]], r.layouts[in[1]]
	switch {
	case x.kind == batch && x == y:
		return layout{kind: total}, nil
	case x.kind == batch && y.kind == batch:
		return r.unruled(n), nil
	}
	return layout{}, mixes(n, "the product sums over the batch axis")
}

func (r *reading) permute(n, x *G.Node, s op.Permute) (layout, error) {
	a, before, within, ok := r.layouts[x].axis(x.Shape(), r.net.Batch)
	if !ok {
		return r.unruled(n), nil
	}
	outer, inner := op.OuterInner(n.Shape(), slices.Index(s.Order.List(), a))
	return layout{kind: batch, outer: outer * before, inner: within * inner}, nil
}

func (r *reading) repeat(n, x *G.Node, s op.Repeat) (layout, error) {
	l := r.layouts[x]
	a, _, _, ok := l.axis(x.Shape(), r.net.Batch)
	switch {
	case !ok:
		return r.unruled(n), nil
	case s.Axis < a:
		l.outer *= s.Times
	default:
		l.inner *= s.Times
	}
	return l, nil
}

func (r *reading) slice(n, x *G.Node, s op.Slice) (layout, error) {
	l := r.layouts[x]
	a, before, within, ok := l.axis(x.Shape(), r.net.Batch)
	if !ok {
		return r.unruled(n), nil
	}
	size := x.Shape()[s.Axis]
	switch {
	case s.Count == size:
	case s.Axis == a && before == 1 && within == 1:
		return layout{}, mixes(n, "it cuts the batch axis")
	case s.Axis == a, s != op.Canonical(r.of[n]):
		return r.unruled(n), nil
	case s.Axis < a:
		l.outer = l.outer / size * s.Count
	default:
		l.inner = l.inner / size * s.Count
	}
	return l, nil
}

func (r *reading) concat(n *G.Node, in G.Nodes, s op.Concat) (layout, error) {
	a, before, within, _ := r.layouts[in[0]].axis(in[0].Shape(), r.net.Batch)
	for _, x := range in {
		b, be, wi, found := r.layouts[x].axis(x.Shape(), r.net.Batch)
		if !found || a != b || before != be || within != wi {
			return r.unruled(n), nil
		}
	}
	outer, inner := op.OuterInner(n.Shape(), a)
	if a == s.Axis { // fits where nothing lies before the examples
		return layout{kind: batch, outer: len(in), inner: within * inner}, nil
	}
	return layout{kind: batch, outer: outer * before, inner: within * inner}, nil
}

// reduce follows a reduction over some axes.
func (r *reading) reduce(n, x *G.Node, over op.Axes) (layout, error) {
	l := r.layouts[x]
	a, before, within, ok := l.axis(x.Shape(), r.net.Batch)
	switch {
	case !ok:
		return r.unruled(n), nil
	case over.Has(a) && l.outer*l.inner == 1:
		return layout{kind: total}, nil
	case over.Has(a) && before*within == 1:
		return layout{}, mixes(n, "it sums over the batch axis before the loss")
	case over.Has(a):
		return r.unruled(n), nil
	}
	kept := func(shape tensor.Shape, from int) int {
		size := 1
		for i, s := range shape {
			if !over.Has(from + i) {
				size *= s
			}
		}
		return size
	}
	return layout{kind: batch, outer: before * kept(x.Shape()[:a], 0), inner: within * kept(x.Shape()[a+1:], a+1)}, nil
}
