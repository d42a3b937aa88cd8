package cpu

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/device/simd"
	"gorgonia.org/tensor"
)

// The bounds that norms include for rounding errors are much larger than the errors of any
// example, so a missing bound would not show in them. These tests look at records whose rows,
// uses or places cancel and consist of ones, whose sums are exact: the bound is then all that
// is left of the norm.

// operand is an operand of an operation; f gives its elements.
type operand struct {
	shape tensor.Shape
	f     func(i int) float32
}

func ones(shape ...int) operand { return operand{shape, func(int) float32 { return 1 }} }

func (b operand) negative() operand { return operand{b.shape, func(i int) float32 { return -b.f(i) }} }

// normOf returns the squared norm that an operation computes for the single record of its
// operands.
func normOf(t *testing.T, spec op.Operation, in ...operand) float64 {
	t.Helper()
	p := &plan.Program{Batch: 1, Records: 1, PerRecord: 1, Front: []plan.Instruction{{Spec: spec, Out: len(in)}}}
	for i, b := range in {
		p.Buffers = append(p.Buffers, plan.Buffer{Name: fmt.Sprint("input ", i), Shape: b.shape, Role: plan.RoleInput, Index: i, Base: i})
		p.Front[0].In = append(p.Front[0].In, i)
	}
	p.Buffers = append(p.Buffers, plan.Buffer{Name: "norm", Shape: tensor.Shape{1}, Role: plan.RoleOutput, Base: len(in)})
	m, err := New(p, plan.Optimizer{Kind: plan.SGD}, false, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for i, b := range in {
		for j := range m.Input(i) {
			m.Input(i)[j] = b.f(j)
		}
	}
	if err := m.Forward(); err != nil {
		t.Fatal(err)
	}
	return float64(m.Output()[0])
}

func expectClose(t *testing.T, what any, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-6*want) {
		t.Errorf("%v: %v, want %v", what, got, want)
	}
}

// shareOf is the share of a norm that comes from the squared norms of operands of ones.
func shareOf(in ...operand) (sum float64) {
	for _, b := range in {
		sum += op.OperandNormShare * float64(b.shape.TotalSize())
	}
	return sum
}

const u, double = 0x1p-24, 0x1p-53

func TestMultiUseNorms_BoundCancellation(t *testing.T) {
	window := op.Window{KernelH: 2, KernelW: 2, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1}
	for _, c := range []struct {
		form  op.Form
		in    []operand // of each use; the last is Δ, and the second use has −Δ
		terms float64   // roundings of a use, and of other records' rows in between
		sizes float64   // upper bound on the sum of the terms' absolute values
	}{
		{op.Product{In: 2, Out: 3}, []operand{ones(5, 2), ones(5, 3)}, 5 + 1 + simd.Chain + 1, math.Sqrt(10 * 15)},
		{op.ConvWeight{Window: window, Groups: 1, C: 1, H: 3, W: 3, O: 1}, []operand{ones(1, 1, 3, 3), ones(1, 1, 2, 2)}, 4 + 1 + 1, 2 * math.Sqrt(9*4)},
		{op.Shift{Channels: 2, Inner: 3}, []operand{ones(5, 2, 3)}, 5 * (3 + 1), math.Sqrt(15 * 30)},
		{op.Scale{Channels: 2, Inner: 3}, []operand{ones(5, 2, 3), ones(5, 2, 3)}, 5 * (3 + 1), 30},
		{op.Gather{Vocabulary: 4, Dim: 2, Bag: 3}, []operand{ones(1, 6), ones(1, 2, 2)}, 6 * (1 + 1), math.Sqrt(6 * 3 * 4)},
	} {
		part := op.MappedForm{Form: c.form}
		in := slices.Concat(c.in, c.in)
		in[len(in)-1] = in[len(in)-1].negative()
		spec := op.MultiUseNorms{Uses: &[]op.MappedForm{part, part}, Size: c.form.Size(), Records: 1}
		bound := (2*(c.terms+1) + 8) * u * 2 * c.sizes
		expectClose(t, spec, normOf(t, spec, in...), bound*bound+shareOf(in...))
	}

	a, delta := ones(5, 1), operand{tensor.Shape{5, 2}, func(i int) float32 { return float32(1 - i%2*2) }}
	spec := op.MultiUseNorms{Uses: &[]op.MappedForm{{Form: op.Product{In: 1, Out: 2}, Map: &op.Map{At: []int32{0, 0}}}}, Size: 1, Records: 1}
	bound := (5 + 1 + simd.Chain + 1 + 2 + 8) * u * math.Sqrt(2*5*10)
	expectClose(t, spec, normOf(t, spec, a, delta), bound*bound+shareOf(a, delta))
}

func TestTiedNorms_BoundCancellation(t *testing.T) {
	const n, words, dim = 4, 50, 16
	a := operand{tensor.Shape{n, words}, func(i int) float32 { // word 1 of each row
		if i%words == 1 {
			return 1
		}
		return 0
	}}
	in := []operand{a, ones(n, dim), ones(1, n), ones(1, n, dim).negative()}
	spec := op.MultiUseNorms{Uses: &[]op.MappedForm{{Form: op.Product{In: words, Out: dim}}, {Form: op.Gather{Vocabulary: words, Dim: dim, Bag: 1}}},
		Size: words * dim, Records: 1}
	product := n * math.Sqrt(dim) // its norm, the sum of its rows' lengths, and that of the lookups
	lost := 2 * (words + dim + 2*n + 8) * double * product * product
	off := 2 * (words + dim + 2*2*n + 8) * double * 4 * product * product
	content := product + math.Sqrt(product*product+lost)
	norm := math.Sqrt(lost+off) + u*((2*n+1+simd.Chain)*2*product+(1+n)*content)
	expectClose(t, spec, normOf(t, spec, in...), norm*norm+op.OperandNormShare*(n+n+2*n*dim))
}

func TestGatherNorms_BoundCancellation(t *testing.T) {
	const large = 1 << 30
	spec := op.SquaredNorms{Form: op.Gather{Vocabulary: 2, Dim: 1, Bag: 1}, Records: 1, Method: op.Group}
	norm := math.Sqrt(1+3*4*double) + (3+1)*u*(2*large+1)
	expectClose(t, spec, normOf(t, spec, ones(1, 3), operand{tensor.Shape{1, 3, 1}, func(i int) float32 { return []float32{large, 1, -large}[i] }}), norm*norm)

	const many = 1000 // one word, of one bag
	spec.Form = op.Gather{Vocabulary: 2, Dim: 1, Bag: many}
	norm = many + (many+1)*u*many
	expectClose(t, spec, normOf(t, spec, ones(1, many), ones(1, 1, 1)), norm*norm)
}

func TestConvGramNorms_BoundCancellation(t *testing.T) {
	f := op.ConvWeight{Window: op.Window{KernelH: 2, KernelW: 2, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1}, Groups: 1, C: 1, H: 3, W: 3, O: 1}
	x, delta := ones(1, 1, 3, 3), operand{tensor.Shape{1, 1, 2, 2}, func(i int) float32 { return float32(1 - i%2*2) }}
	spec := op.SquaredNorms{Form: f, Records: 1, Method: op.Gram}
	norm := math.Sqrt(2*(4+1+2*4+8)*double)*8 + (4+1)*u*math.Sqrt(4*9*4)
	expectClose(t, spec, normOf(t, spec, x, delta), norm*norm+shareOf(x, delta))
}
