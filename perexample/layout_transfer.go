package perexample

import (
	"fmt"
	"slices"

	"github.com/dptrain/dptrain/internal/device/op"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// rowwise are operations of Gorgonia that treat axis 0 as independent pictures.
var rowwise = map[string]bool{"upsampleOp": true}

// transferBatch is the layout of a node with at least one batch among its operands; the
// others are batches or invariant. The caller checks that the layout fits the node's
// shape.
func (r *layoutAnalysis) transferBatch(n *G.Node, in G.Nodes) (layout, error) {
	first := r.layouts[in[0]]
	rows := layout{kind: layoutBatch, outer: 1, inner: n.Shape().TotalSize() / r.net.Batch}
	switch s := op.Canonical(n).(type) {
	case nil:
		return r.transferForeign(n, in, rows)
	case op.Reshape, op.Unary:
		return first, nil
	case op.Binary, op.Add:
		return r.transferBinary(n, in), nil
	case op.MatMul:
		return r.transferMatMul(n, in, s, in[1].Shape())
	case op.MatVec:
		product, shapes := s.Product(op.ShapesOf(in))
		return r.transferMatMul(n, in, product, shapes[1])
	case op.Dot:
		return r.transferDot(n, in)
	case op.Softmax:
		return r.transferSoftmax(n, in[0], s)
	case op.Permute:
		return r.transferPermute(n, in[0], s)
	case op.Repeat:
		return r.transferRepeat(n, in[0], s)
	case op.Slice:
		return r.transferSlice(n, in[0], s)
	case op.Concat:
		return r.transferConcat(n, in, s)
	case op.SumAxes:
		if s.Over.N == in[0].Dims() {
			return layout{kind: layoutTotal}, nil
		}
		return r.transferReduce(n, in[0], s.Over)
	case op.Total:
		return layout{kind: layoutTotal}, nil
	case op.Rowwise:
		for i, isRow := range s.Rows(len(in)) {
			switch l := r.layouts[in[i]]; {
			case !isRow && l.kind == layoutBatch:
				return layout{}, mixesExamples(n, fmt.Sprintf("its operand %s is shared by all examples and computed from them", in[i].Name()))
			case isRow && !l.isRowMajorBatch(in[i].Shape()):
				return r.markUnknown(n), nil
			}
		}
		return rows, nil
	}
	return r.markUnknown(n), nil
}

// transferForeign is the layout of an operation that only Gorgonia can run.
func (r *layoutAnalysis) transferForeign(n *G.Node, in G.Nodes, rows layout) (layout, error) {
	first := r.layouts[in[0]]
	switch kind := op.OpKind(n); {
	case rowwise[kind] && first.isRowMajorBatch(in[0].Shape()):
		return rows, nil
	case kind == "linAlgBinOp" && n.Dims() > 2 && first.isRowMajorBatch(in[0].Shape()) && r.layouts[in[1]].isRowMajorBatch(in[1].Shape()):
		return rows, nil // a batched product: axis 0 counts pairs of matrices
	}
	if _, resized := r.resizedAxis(n); !resized {
		return layout{}, mixesExamples(n, "it removes the batch axis and is not a sum")
	}
	return r.markUnknown(n), nil
}

func (r *layoutAnalysis) transferSoftmax(n, x *G.Node, s op.Softmax) (layout, error) {
	l := r.layouts[x]
	a, _, _, ok := l.batchAxis(x.Shape(), r.net.Batch)
	switch {
	case !ok:
		return r.markUnknown(n), nil
	case s.Axis == a:
		return layout{}, mixesExamples(n, "its softmax runs over the batch axis")
	}
	return l, nil
}

// transferBinary combines a batch with another batch, with a number, or with a parameter
// of the batch's shape. Whether such a parameter is the same for every example is checked
// when its use is read.
func (r *layoutAnalysis) transferBinary(n *G.Node, in G.Nodes) layout {
	x, y := r.layouts[in[0]], r.layouts[in[1]]
	switch {
	case x.kind != layoutBatch:
		return y
	case y.kind == layoutBatch && x != y:
		return r.markUnknown(n)
	}
	return x
}

// transferMatMul is the layout of a product [M, K]·[K, N] whose examples lie along M or
// along N. Second is the shape of its second factor.
func (r *layoutAnalysis) transferMatMul(n *G.Node, in G.Nodes, s op.MatMul, second tensor.Shape) (layout, error) {
	M, N, K, err := s.Sizes(in[0].Shape(), second)
	if err != nil {
		return layout{}, err
	}
	x, y := r.layouts[in[0]], r.layouts[in[1]]
	switch {
	case x.kind == layoutBatch && y.kind == layoutBatch:
		return layout{}, mixesExamples(n, "both factors of the product are computed from the examples; use gorgonia.BatchedMatMul")
	case x.kind == layoutBatch && !s.TransA && x.inner%K == 0:
		return layout{kind: layoutBatch, outer: x.outer, inner: x.inner / K * N}, nil
	case x.kind == layoutBatch && s.TransA && x.outer%K == 0:
		return layout{kind: layoutBatch, outer: x.outer / K, inner: x.inner * N}, nil
	case y.kind == layoutBatch && !s.TransB && y.outer%K == 0:
		return layout{kind: layoutBatch, outer: M * (y.outer / K), inner: y.inner}, nil
	case y.kind == layoutBatch && s.TransB && y.inner%K == 0:
		return layout{kind: layoutBatch, outer: M * y.outer, inner: y.inner / K}, nil
	}
	return layout{}, mixesExamples(n, "the product sums over the batch axis")
}

// transferDot is the layout of an inner product. The inner product of two batches of
// numbers is a sum over the examples.
func (r *layoutAnalysis) transferDot(n *G.Node, in G.Nodes) (layout, error) {
	x, y := r.layouts[in[0]], r.layouts[in[1]]
	switch {
	case x.kind == layoutBatch && x == y:
		return layout{kind: layoutTotal}, nil
	case x.kind == layoutBatch && y.kind == layoutBatch:
		return r.markUnknown(n), nil
	}
	return layout{}, mixesExamples(n, "the product sums over the batch axis")
}

func (r *layoutAnalysis) transferPermute(n, x *G.Node, s op.Permute) (layout, error) {
	a, before, within, ok := r.layouts[x].batchAxis(x.Shape(), r.net.Batch)
	if !ok {
		return r.markUnknown(n), nil
	}
	outer, inner := op.OuterInner(n.Shape(), slices.Index(s.Order.List(), a))
	return layout{kind: layoutBatch, outer: outer * before, inner: within * inner}, nil
}

func (r *layoutAnalysis) transferRepeat(n, x *G.Node, s op.Repeat) (layout, error) {
	l := r.layouts[x]
	a, _, _, ok := l.batchAxis(x.Shape(), r.net.Batch)
	switch {
	case !ok:
		return r.markUnknown(n), nil
	case s.Axis < a:
		l.outer *= s.Times
	default:
		l.inner *= s.Times
	}
	return l, nil
}

func (r *layoutAnalysis) transferSlice(n, x *G.Node, s op.Slice) (layout, error) {
	l := r.layouts[x]
	a, before, within, ok := l.batchAxis(x.Shape(), r.net.Batch)
	if !ok {
		return r.markUnknown(n), nil
	}
	size := x.Shape()[s.Axis]
	switch {
	case s.Count == size:
	case s.Axis == a && before == 1 && within == 1:
		return layout{}, mixesExamples(n, "it cuts the batch axis")
	case s.Axis == a, s != op.Canonical(r.counterpart[n]):
		return r.markUnknown(n), nil
	case s.Axis < a:
		l.outer = l.outer / size * s.Count
	default:
		l.inner = l.inner / size * s.Count
	}
	return l, nil
}

func (r *layoutAnalysis) transferConcat(n *G.Node, in G.Nodes, s op.Concat) (layout, error) {
	a, before, within, _ := r.layouts[in[0]].batchAxis(in[0].Shape(), r.net.Batch)
	for _, x := range in {
		b, be, wi, found := r.layouts[x].batchAxis(x.Shape(), r.net.Batch)
		if !found || a != b || before != be || within != wi {
			return r.markUnknown(n), nil
		}
	}
	outer, inner := op.OuterInner(n.Shape(), a)
	if a == s.Axis { // valid if the axis has nothing before the examples
		return layout{kind: layoutBatch, outer: len(in), inner: within * inner}, nil
	}
	return layout{kind: layoutBatch, outer: outer * before, inner: within * inner}, nil
}

// transferReduce is the layout of a reduction over some axes.
func (r *layoutAnalysis) transferReduce(n, x *G.Node, over op.Axes) (layout, error) {
	l := r.layouts[x]
	a, before, within, ok := l.batchAxis(x.Shape(), r.net.Batch)
	switch {
	case !ok:
		return r.markUnknown(n), nil
	case over.Has(a) && l.outer*l.inner == 1:
		return layout{kind: layoutTotal}, nil
	case over.Has(a) && before*within == 1:
		return layout{}, mixesExamples(n, "it sums over the batch axis before the loss")
	case over.Has(a):
		return r.markUnknown(n), nil
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
	return layout{kind: layoutBatch, outer: before * kept(x.Shape()[:a], 0), inner: within * kept(x.Shape()[a+1:], a+1)}, nil
}
