package op

import (
	"fmt"
	"reflect"
	"strings"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Canonical is the Operation of a node: its own, or the Operation that computes the same as one of
// Gorgonia's operations. It is nil if there is none; only the node's own Do can run it.
//
// Gorgonia does not export its operations, so they are recognized by type name and
// String, in the form of v0.9.18. A test compares each with Gorgonia's own result.
func Canonical(n *G.Node) Operation {
	if s := OperationOf(n); s != nil {
		return s
	}
	if n.Op() == nil {
		return nil
	}
	name := n.Op().String()
	in := Operands(n)
	switch OpKind(n) {
	case "linAlgBinOp":
		return linearAlgebra(name, in)
	case "elemBinOp":
		sign, _, _ := strings.Cut(name, " ")
		switch sign {
		case "⊙":
			sign = "*"
		case "÷":
			sign = "/"
		}
		b := Binary{Kind: sign}
		if _, err := b.Shape(ShapesOf(in)); err != nil {
			return nil
		}
		return b
	case "elemUnaryOp":
		if _, known := unary[name]; known {
			return Unary{Kind: name}
		}
	case "reshapeOp":
		if n.Dims() <= MaxDims {
			return Reshape{To: AxesOf(n.Shape()...)}
		}
	case "transposeOp":
		if order := ints(name); len(order) == n.Dims() && n.Dims() <= MaxDims {
			return Permute{Order: AxesOf(order...)}
		}
	case "repeatOp":
		if axis := ints(name); len(axis) == 1 && in[0].Shape().TotalSize() > 0 {
			return Repeat{Axis: axis[0], Times: n.Shape().TotalSize() / in[0].Shape().TotalSize()}
		}
	case "sumOp":
		if over := ints(name); len(over) <= MaxDims && in[0].Dims() <= MaxDims {
			return SumAxes{Over: AxesOf(over...)}
		}
	case "concatOp":
		if axis := ints(name); len(axis) == 1 {
			return Concat{Axis: axis[0]}
		}
	case "sliceOp":
		if s, ok := sliceOf(name, in[0], n.Shape().TotalSize()); ok {
			return s
		}
	case "maxPoolOp":
		if w, ok := poolWindow(n.Op()); ok {
			return MaxPool2D{w}
		}
	case "maxPoolDiffOp":
		if w, ok := poolWindow(n.Op()); ok {
			return MaxPoolGrad{w}
		}
	case "im2colOp":
		return Im2Col{rowsWindow(n.Op())}
	case "col2imOp":
		s := n.Shape()
		return Col2Im{rowsWindow(n.Op()), s[1], s[2], s[3]}
	case "softmaxOp":
		return softmaxOf(n.Op(), n.Shape())
	case "softmaxDiffOp":
		return SoftmaxGrad(softmaxOf(n.Op(), n.Shape()))
	case "sliceIncrOp":
		if len(in) == 2 {
			if s, ok := sliceOf(name, in[0], in[1].Shape().TotalSize()); ok {
				return SliceGrad{Slice: s}
			}
		}
	}
	return nil
}

// OpKind is the type name of a node's operation, without package or pointer.
func OpKind(n *G.Node) string {
	if n.Op() == nil {
		return ""
	}
	t := fmt.Sprintf("%T", n.Op())
	return t[strings.LastIndexByte(t, '.')+1:]
}

// AxisLength reads the length of an axis from a node that Gorgonia made for it.
func AxisLength(n *G.Node) (size int, ok bool) {
	_, err := fmt.Sscanf(n.Op().String(), "SizeOf=%d", &size)
	return size, err == nil
}

// Operands are a node's inputs, in order.
func Operands(n *G.Node) G.Nodes {
	var in G.Nodes
	it := n.Graph().From(n.ID())
	if it == nil {
		return nil
	}
	for it.Next() {
		in = append(in, it.Node().(*G.Node))
	}
	return in
}

// Ancestors are the given nodes and all nodes that they depend on, operands first.
func Ancestors(of ...*G.Node) G.Nodes {
	var order G.Nodes
	seen := map[*G.Node]bool{}
	var visit func(n *G.Node)
	visit = func(n *G.Node) {
		if seen[n] {
			return
		}
		seen[n] = true
		for _, x := range Operands(n) {
			visit(x)
		}
		order = append(order, n)
	}
	for _, n := range of {
		visit(n)
	}
	return order
}

// CanonicalOperands are the operands that Canonical's Operation reads. Gorgonia gives some
// operations additional operands for their shape.
func CanonicalOperands(n *G.Node) G.Nodes {
	in := Operands(n)
	switch Canonical(n).(type) {
	case Repeat:
		return in[:1]
	case MaxPoolGrad:
		if OpKind(n) == "maxPoolDiffOp" {
			return G.Nodes{in[0], in[2]}
		}
	case SoftmaxGrad:
		if OpKind(n) == "softmaxDiffOp" {
			return in[1:]
		}
	}
	return in
}

// linearAlgebra reads "A × B", "Aᵀ × Bᵀ", "A × b" and "a ⋅ b".
func linearAlgebra(name string, in G.Nodes) Operation {
	if len(in) != 2 {
		return nil
	}
	var s Operation
	if a, b, product := strings.Cut(name, " × "); !product {
		if !strings.Contains(name, " ⋅ ") {
			return nil
		}
		s = Dot{}
	} else if strings.HasPrefix(b, "b") {
		s = MatVec{Trans: strings.HasSuffix(a, "ᵀ")}
	} else {
		s = MatMul{TransA: strings.HasSuffix(a, "ᵀ"), TransB: strings.HasSuffix(b, "ᵀ")}
	}
	if _, err := s.Shape(ShapesOf(in)); err != nil {
		return nil
	}
	return s
}

// intAttribute reads a number from an unexported field of a Gorgonia operation whose
// String leaves it out.
func intAttribute(o G.Op, name string) int {
	return int(reflect.Indirect(reflect.ValueOf(o)).FieldByName(name).Int())
}

// poolWindow reads the geometry of max pooling. Padding on one side only is not
// supported.
func poolWindow(o G.Op) (w Window, ok bool) {
	if reflect.Indirect(reflect.ValueOf(o)).FieldByName("explicitPadding").Bool() {
		return Window{}, false
	}
	return Window{
		KernelH: intAttribute(o, "h"), KernelW: intAttribute(o, "w"),
		StrideH: intAttribute(o, "strideH"), StrideW: intAttribute(o, "strideW"),
		PadH: intAttribute(o, "padNorth"), PadW: intAttribute(o, "padWest"), DilationH: 1, DilationW: 1,
	}, true
}

// rowsWindow reads the geometry of im2col.
func rowsWindow(o G.Op) Window {
	return Window{
		KernelH: intAttribute(o, "h"), KernelW: intAttribute(o, "w"),
		StrideH: intAttribute(o, "strideH"), StrideW: intAttribute(o, "strideW"),
		PadH: intAttribute(o, "padH"), PadW: intAttribute(o, "padW"),
		DilationH: intAttribute(o, "dilationH"), DilationW: intAttribute(o, "dilationW"),
	}
}

// softmaxOf reads the axis. If none is given, Gorgonia takes the first axis of a column
// and the last axis otherwise.
func softmaxOf(o G.Op, x tensor.Shape) Softmax {
	v := reflect.Indirect(reflect.ValueOf(o))
	s := Softmax{Axis: int(v.FieldByName("axis").Int()), Log: v.FieldByName("isLog").Bool()}
	switch {
	case s.Axis >= 0:
	case x.IsColVec():
		s.Axis = 0
	default:
		s.Axis += x.Dims()
	}
	return s
}

// sliceOf reads "T[:, :, from:to:step...]". The number of leading colons is the axis; a
// slice of everything is written as a single colon.
func sliceOf(name string, whole *G.Node, size int) (Slice, bool) {
	axis := strings.Count(name, ":, ")
	if axis >= whole.Dims() {
		return Slice{}, false
	}
	s := Slice{Axis: axis, Count: whole.Shape()[axis], Step: 1}
	part := name[strings.LastIndex(name, ", ")+1:]
	if bounds := ints(part); len(bounds) == 3 {
		s.From = bounds[0]
		s.Step = max(bounds[2], 1)
		s.Count = (bounds[1] - bounds[0] + s.Step - 1) / s.Step
	} else if len(bounds) != 0 {
		return Slice{}, false
	}
	outer, inner := OuterInner(whole.Shape(), axis)
	return s, s.Count > 0 && outer*inner*s.Count == size
}

// ints collects the non-negative integers of a string.
func ints(s string) []int {
	var out []int
	inside := false
	for _, r := range s {
		digit := r >= '0' && r <= '9'
		if digit && !inside {
			out = append(out, 0)
		}
		if digit {
			out[len(out)-1] = out[len(out)-1]*10 + int(r-'0')
		}
		inside = digit
	}
	return out
}
