package op

import (
	"fmt"
	"hash"
	"hash/fnv"
	"slices"

	"github.com/chewxy/hm"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Operation is one operation with its attributes: its effect on shapes and on numbers. An Operation
// is a comparable value. Two Operations with the same String compute the same.
type Operation interface {
	// String names the operation and every attribute; it is what Gorgonia hashes.
	String() string
	// Shape returns the result's shape, or an error in one line if the inputs do not fit.
	Shape(in []tensor.Shape) (tensor.Shape, error)
	// Do is the reference implementation. It overwrites all of out, in float64, in the
	// plainest way. Every device is compared with it.
	Do(out []float64, in [][]float64, shapes []tensor.Shape)
}

// Differentiable is an Operation with a symbolic derivative. No gradient passes through any
// other Operation.
type Differentiable interface {
	Operation
	// Wrt reports which of its n inputs the operation is differentiated in.
	Wrt(n int) []bool
	// Diff returns the gradient of each such input, from the gradient of the output; nil
	// for the others.
	Diff(in G.Nodes, out, grad *G.Node) (G.Nodes, error)
}

// Rowwise is an Operation that treats axis 0 of some inputs as independent rows, so that
// examples do not affect each other. Rows reports which inputs these are; the others are
// weights, which all rows share.
type Rowwise interface {
	Operation
	Rows(n int) []bool
}

// Applied is an Operation in a Gorgonia graph.
type Applied struct {
	Operation
	shapes []tensor.Shape
	out    tensor.Shape
}

// Apply adds the operation to the graph of its inputs.
func Apply(s Operation, in ...*G.Node) (*G.Node, error) {
	a := Applied{Operation: s, shapes: make([]tensor.Shape, len(in))}
	for i, n := range in {
		if n == nil {
			return nil, fmt.Errorf("%v: input %d is missing", s, i)
		}
		a.shapes[i] = n.Shape()
	}
	var err error
	if a.out, err = s.Shape(a.shapes); err != nil {
		return nil, fmt.Errorf("%v: %w", s, err)
	}
	return G.ApplyOp(a, in...)
}

// OperationOf returns the Operation of a node made by Apply, or nil.
func OperationOf(n *G.Node) Operation {
	if a, ok := n.Op().(Applied); ok {
		return a.Operation
	}
	return nil
}

// DiffWRT reports that no gradient passes through an Operation that is not Differentiable.
// Without this method, Gorgonia refuses such an operation even where its gradient is not
// needed.
func (a Applied) DiffWRT(n int) []bool {
	if s, ok := a.Operation.(Differentiable); ok {
		return s.Wrt(n)
	}
	return make([]bool, n)
}

func (a Applied) SymDiff(in G.Nodes, out, grad *G.Node) (G.Nodes, error) {
	return a.Operation.(Differentiable).Diff(in, out, grad)
}

func (a Applied) Arity() int { return len(a.shapes) }

// Type is the operation's Hindley–Milner type: every input and the output share
// one element type.
func (a Applied) Type() hm.Type {
	elem := hm.TypeVariable('a')
	of := func(s tensor.Shape) hm.Type {
		if s.Dims() == 0 {
			return elem
		}
		return G.TensorType{Dims: s.Dims(), Of: elem}
	}
	types := make([]hm.Type, 0, len(a.shapes)+1)
	for _, s := range a.shapes {
		types = append(types, of(s))
	}
	return hm.NewFnType(append(types, of(a.out))...)
}

func (a Applied) InferShape(...G.DimSizer) (tensor.Shape, error) { return a.out.Clone(), nil }
func (a Applied) ReturnsPtr() bool                               { return false }
func (a Applied) CallsExtern() bool                              { return false }
func (a Applied) OverwritesInput() int                           { return -1 }
func (a Applied) WriteHash(h hash.Hash)                          { fmt.Fprintf(h, "%v%v", a.Operation, a.shapes) }

func (a Applied) Hashcode() uint32 {
	h := fnv.New32a()
	a.WriteHash(h)
	return h.Sum32()
}

// Do runs the reference on Gorgonia's values, so that Gorgonia's tape machine can serve
// as an oracle.
func (a Applied) Do(values ...G.Value) (G.Value, error) {
	in := make([][]float64, len(values))
	dt := tensor.Float64
	for i, v := range values {
		var err error
		if in[i], err = floatsOf(v); err != nil {
			return nil, fmt.Errorf("%v: input %d: %w", a.Operation, i, err)
		}
		dt = v.Dtype()
	}
	out := make([]float64, a.out.TotalSize())
	a.Operation.Do(out, in, a.shapes)
	return newValue(out, a.out, dt)
}

// floatsOf copies a value's numbers, in row-major order.
func floatsOf(v G.Value) ([]float64, error) {
	if t, ok := v.(*tensor.Dense); ok && (t.RequiresIterator() || !t.DataOrder().IsRowMajor()) {
		v = t.Materialize().(*tensor.Dense)
		if d := v.(*tensor.Dense); d.RequiresIterator() {
			return nil, fmt.Errorf("a view that cannot be made contiguous")
		}
	}
	switch d := v.Data().(type) {
	case []float64:
		return append([]float64(nil), d...), nil
	case []float32:
		out := make([]float64, len(d))
		for i, x := range d {
			out[i] = float64(x)
		}
		return out, nil
	case float64:
		return []float64{d}, nil
	case float32:
		return []float64{float64(d)}, nil
	}
	return nil, fmt.Errorf("elements of type %T: only float32 and float64 are supported", v.Data())
}

// Values are the numbers of a node's value. The caller must not write to them.
func Values(n *G.Node) (values []float32, err error) {
	if n.Value() == nil {
		return nil, fmt.Errorf("no value is bound to the node")
	}
	if s, shares := n.Value().(interface{ Shared() []float32 }); shares {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("drawing the values of %s: %v", n.Name(), p)
			}
		}()
		return s.Shared(), nil
	}
	switch v := n.Value().Data().(type) {
	case []float32:
		if len(v) != n.Shape().TotalSize() {
			return nil, fmt.Errorf("%d values for shape %v", len(v), n.Shape())
		}
		return v, nil
	case float32:
		return []float32{v}, nil
	default:
		return nil, fmt.Errorf("values of type %T: networks are trained in float32", v)
	}
}

// CopyValue copies the result of a Gorgonia operation to memory of its size. True is 1.
func CopyValue(dst []float32, v G.Value) error {
	if v == nil {
		return fmt.Errorf("the node has no value")
	}
	if d, ok := v.(*tensor.Dense); ok && d.RequiresIterator() {
		v = d.Materialize().(*tensor.Dense)
	}
	switch x := v.Data().(type) {
	case float32:
		dst[0] = x
		return nil
	case []float32:
		if len(x) != len(dst) {
			return fmt.Errorf("%d values where %d are needed", len(x), len(dst))
		}
		copy(dst, x)
		return nil
	case []bool:
		for i, b := range x {
			dst[i] = 0
			if b {
				dst[i] = 1
			}
		}
		return nil
	}
	return fmt.Errorf("values of type %T where float32 is needed", v.Data())
}

// newValue is the reverse of floatsOf.
func newValue(x []float64, shape tensor.Shape, dt tensor.Dtype) (G.Value, error) {
	scalar := shape.Dims() == 0
	switch dt {
	case tensor.Float64:
		if scalar {
			return G.NewF64(x[0]), nil
		}
		return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(x)), nil
	case tensor.Float32:
		if scalar {
			return G.NewF32(float32(x[0])), nil
		}
		y := make([]float32, len(x))
		for i := range x {
			y[i] = float32(x[i])
		}
		return tensor.New(tensor.WithShape(shape...), tensor.WithBacking(y)), nil
	}
	return nil, fmt.Errorf("elements of type %v: only float32 and float64 are supported", dt)
}

// allTrue is a list for n inputs of the same kind.
func allTrue(n int) []bool {
	b := make([]bool, n)
	for i := range b {
		b[i] = true
	}
	return b
}

// checkArity checks the number of inputs.
func checkArity(in []tensor.Shape, want int) error {
	if len(in) != want {
		return fmt.Errorf("%d inputs given, %d needed", len(in), want)
	}
	return nil
}

// commonShape checks that n inputs have one shape and returns it.
func commonShape(in []tensor.Shape, n int) (tensor.Shape, error) {
	if err := checkArity(in, n); err != nil {
		return nil, err
	}
	for _, s := range in[1:] {
		if !slices.Equal(s, in[0]) {
			return nil, fmt.Errorf("operands %v and %v differ in shape", in[0], s)
		}
	}
	return in[0].Clone(), nil
}

// ShapesOf are the shapes of nodes.
func ShapesOf(in G.Nodes) []tensor.Shape {
	out := make([]tensor.Shape, len(in))
	for i, n := range in {
		out[i] = n.Shape()
	}
	return out
}
