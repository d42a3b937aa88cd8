//go:build gpu

package compile

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"gorgonia.org/tensor"
)

// believed is the allowed relative excess of a squared norm: the bound on float roundings
// may be 1/256 of it, plus the other additions.
const believed = 1.0 / 250

// checkUpperBounds checks that squared norms are not below the reference, and exceed it by at most
// the given fraction.
func (o operation) checkUpperBounds(t *testing.T, got []float32, above float64) {
	t.Helper()
	want, _ := o.reference()
	for i, w := range want {
		if g := float64(got[i]); !(g >= w*(1-1e-6) && g <= w*(1+above)) {
			t.Errorf("%v: record %d of %d has the squared norm %v, and %v was found", o.spec, i, len(want), w, g)
		}
	}
}

// A GPU with slow doubles computes norms in float, and in double where necessary.
func TestSlowDoubles_UseFloat(t *testing.T) {
	onCard(t, "^Test(Conformance_Norms|Gram_.*|MultiUse_Methods)$|^TestNetworks_MatchCPU$/^(lstm|transformer|wrn16-4:standardized)", "DPTRAIN_EMU_ARCH=86")
}

// gramOf draws a norm of products with this many rows per record.
func gramOf(r *rand.Rand, records, rows, in, out int) operation {
	return given(r, op.SquaredNorms{Form: op.Product{In: in, Out: out}, Records: records, Method: op.Gram},
		tensor.Shape{records * rows, in}, tensor.Shape{records * rows, out})
}

// Gram matrices of one tile and of several, of records and of groups.
func TestGram_Sizes(t *testing.T) {
	device(t)
	r := rand.New(rand.NewPCG(10, 6))
	const records = 3
	for _, rows := range []int{2, 31, 32, 33, 64, 65, 130} {
		for _, n := range []struct{ in, out int }{{1, 3}, {21, 200}, {64, 130}} {
			o := gramOf(r, records, rows, n.in, n.out)
			o.checkUpperBounds(t, o.run(t, Options{}), believed)
		}
	}
	for _, groups := range []int{1, 2} {
		f := op.ConvWeight{
			Window: op.Window{KernelH: 3, KernelW: 3, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1}, Groups: groups, C: 6, H: 9, W: 9, O: 8,
		}
		o := given(r, op.SquaredNorms{Form: f, Records: records, Method: op.Gram},
			tensor.Shape{records, 6, 9, 9}, tensor.Shape{records, 8, 7, 7})
		o.checkUpperBounds(t, o.run(t, Options{}), believed)
	}
}

// The norm of a record whose rows cancel almost completely is lost in float. The device
// finds it, and the bits of the neighbouring records stay the same.
func TestGram_CancellingRows(t *testing.T) {
	device(t)
	r := rand.New(rand.NewPCG(11, 6))
	const records, rows, in, out = 3, 40, 30, 50
	o := gramOf(r, records, rows, in, out)
	before := o.run(t, Options{})
	a, d := o.in[0][rows*in:2*rows*in], o.in[1][rows*out:2*rows*out]
	copy(a[rows/2*in:], a[:rows/2*in])
	for i := range rows / 2 * out {
		d[rows/2*out+i] = -d[i] * (1 + 3e-2)
	}
	got := o.run(t, Options{})
	o.checkUpperBounds(t, got, 1./64) // what the sum's roundings may leave of the rows is a part of so small a norm
	if got[0] != before[0] || got[2] != before[2] {
		t.Errorf("neighbouring norms were %v and %v, and are %v and %v", before[0], before[2], got[0], got[2])
	}
}

// The error bound that is added to a norm is exactly the one that the proof requires. The
// rows are ones, whose products and sums are exact, and the same rows with alternating
// signs, whose sum is zero, so that the whole result is the bound. In float it is the
// bound of gram_norms_float, and so it is of split operands, unless the record is
// recomputed, and in double that of gram_norms.
func TestGram_AddsErrorBound(t *testing.T) {
	device(t)
	defer func(n int) { minSplitGram = n }(minSplitGram)
	minSplitGram = 0
	for _, c := range []struct {
		rows   int
		cancel bool
		Options
	}{
		{2, false, Options{}}, {2, true, Options{}}, {40, false, Options{}}, {40, true, Options{}},
		{2, false, Options{Precision: TF32}}, {2, true, Options{Precision: TF32}}, {40, false, Options{Precision: BF16}}, {40, true, Options{Precision: BF16}},
	} {
		rows, cancel := c.rows, c.cancel
		t.Run(fmt.Sprintf("%d rows, %v, %v", rows, c.Precision, cancel), func(t *testing.T) {
			const in, out, u = 200, 90, 0x1p-24
			o := gramOf(rand.New(rand.NewPCG(1, 1)), 1, rows, in, out)
			card := o.machine(t, Options{}).(*Executable).device
			split := splitsOperandsOn(card.Arch(), c.Precision)
			slow := split || card.SlowDoubles()
			for k, n := range []int{in, out} {
				for i := range o.in[k] {
					o.in[k][i] = 1
					if cancel && k == 0 && i/n%2 == 1 {
						o.in[k][i] = -1
					}
				}
			}
			n := float64(rows)
			a, d := n*in, n*out // of AAᵀ and ΔΔᵀ the traces, and the Frobenius norms
			square, length := a*d, math.Sqrt(a*d)
			if cancel {
				square = 0
			}
			if slow && !cancel {
				off := func(trace, k float64) float64 { // k roundings
					gamma := k * u / (1 - k*u)
					return gamma / (1 - gamma) * trace
				}
				offA, offD, dot := off(a, 64+4), off(d, 64+2), 34*u
				if split {
					offA, offD, dot = off(a, 25*5+2+1), off(d, 25*5+1+1), 67*0x1p-53
				}
				square += 1.001 * (offA*d + (a+offA)*offD + dot*a*d)
				length = 1.001 * math.Sqrt((a+offA)*(d+offD))
			} else {
				square += 2 * (in + out + 2*n + 8) * 0x1p-53 * length * length
			}
			ofSlice := 256.
			if split {
				ofSlice = 25 * (256/8 + 1)
			}
			norm := math.Sqrt(square) + (n+1+ofSlice)*u*length
			want := norm*norm + op.OperandNormShare*(a+d)
			if got := float64(o.run(t, c.Options)[0]); !(math.Abs(got-want) <= 2e-7*want) {
				t.Errorf("%d rows, precision %v, split %v, in float %v, cancelling %v: %v, want %v", rows, c.Precision, split, slow, cancel, got, want)
			}
		})
	}
}

// The same holds for a table whose lookups cancel its product; the roundings by other
// records' rows are included.
func TestGram_TiedTableAddsErrorBound(t *testing.T) {
	device(t)
	const n, words, dim = 4, 50, 16
	o := operation{
		spec: op.MultiUseNorms{Uses: &[]op.MappedForm{{Form: op.Product{In: words, Out: dim}}, {Form: op.Gather{Vocabulary: words, Dim: dim, Bag: 1}}},
			Size: words * dim, Records: 1},
		shapes: []tensor.Shape{{n, words}, {n, dim}, {1, n}, {1, n, dim}},
		in:     [][]float32{make([]float32, n*words), make([]float32, n*dim), make([]float32, n), make([]float32, n*dim)},
	}
	for i := range n {
		o.in[0][i*words+1], o.in[2][i] = 1, 1
	}
	for i := range n * dim {
		o.in[1][i], o.in[3][i] = 1, -1
	}
	length := 2 * n * math.Sqrt(dim)
	norm := math.Sqrt(2*(words+dim+2*2*n+8)*0x1p-53)*length + (2*n+1+256+1+(1+256+512))*0x1p-24*length
	want := norm*norm + op.OperandNormShare*2*n*(1+dim)
	if got := float64(o.run(t, Options{})[0]); !(math.Abs(got-want) <= 1e-6*want) {
		t.Errorf("squared norm %v, want %v", got, want)
	}
}

// Gram matrices beyond the range of float are computed in double.
func TestGram_BeyondFloatRange(t *testing.T) {
	device(t)
	o := gramOf(rand.New(rand.NewPCG(2, 1)), 2, 12, 30, 20)
	for k, x := range []float32{0x1p66, 0x1p-46} {
		for i := range o.in[k] {
			o.in[k][i] = x * float32(math.Abs(float64(o.in[k][i])))
		}
	}
	o.checkUpperBounds(t, o.run(t, Options{}), believed)
}

// Records with more rows than a block has, separately and where two weights have the same
// Δ, whose Gram matrix the second one reads.
func TestGram_ManyRows(t *testing.T) {
	device(t)
	r := rand.New(rand.NewPCG(8, 6))
	const records, rows, in, out = 2, 70, 21, 200
	o := gramOf(r, records, rows, in, out)
	o.checkUpperBounds(t, o.run(t, Options{}), believed)

	m := twoNorms(t, "-", o, o, plan.Buffer{Shape: o.shapes[0]}, plan.Buffer{Shape: o.shapes[1], Base: 1})
	same(t, "ΔΔᵀ read again", m.Output(), make([]float32, records))
	c := newCompiler(m.program, m.memory, nil, Options{})
	c.access = &access{}
	args := gramArgs{Pairs: 6}
	if shareDeltaGrams(c, &args, gramNorm{records: records, rows: rows, nd: out, delta: 1}, "product_gram", 8*32*32); args.DeltaGrams == 0 {
		t.Fatal("no memory is kept for ΔΔᵀ")
	}
}

// The same Δ in rows of two widths has two Gram matrices.
func TestGram_TwoWidths(t *testing.T) {
	device(t)
	r := rand.New(rand.NewPCG(12, 6))
	const records = 2
	wide, narrow := gramOf(r, records, 32, 20, 256), gramOf(r, records, 64, 30, 128)
	narrow.in[1] = wide.in[1]
	m := twoNorms(t, "+", wide, narrow, plan.Buffer{Shape: wide.shapes[0]}, plan.Buffer{Shape: wide.shapes[1], Base: 1},
		plan.Buffer{Shape: narrow.shapes[0], Base: 2}, plan.Buffer{Shape: narrow.shapes[1], Base: 1})
	want, _ := wide.reference()
	other, _ := narrow.reference()
	for i, got := range m.Output() {
		if sum := want[i] + other[i]; !(math.Abs(float64(got)-sum) <= sum/250) {
			t.Errorf("record %d: the squared norms add up to %v, and %v was found", i, sum, got)
		}
	}
}

// twoNorms is an executable that has combined the norms that two operations compute from
// the first and from the last two buffers.
func twoNorms(t *testing.T, kind string, first, second operation, buffers ...plan.Buffer) *Executable {
	t.Helper()
	p := &plan.Program{Batch: 1, Records: 1, PerRecord: 1, Arena: 32}
	for i, b := range buffers {
		b.Name, b.Role, b.Index = fmt.Sprint("input ", i), plan.RoleInput, i
		p.Buffers = append(p.Buffers, b)
	}
	n := len(buffers)
	shape, err := first.spec.Shape(first.shapes)
	if err != nil {
		t.Fatal(err)
	}
	p.Buffers = append(p.Buffers,
		plan.Buffer{Name: "first", Shape: shape, Base: n},
		plan.Buffer{Name: "second", Shape: shape, Base: n + 1, Offset: 16},
		plan.Buffer{Name: "both", Shape: shape, Role: plan.RoleOutput, Base: n + 2})
	p.Front = []plan.Instruction{
		{Spec: first.spec, In: []int{0, 1}, Out: n},
		{Spec: second.spec, In: []int{n - 2, n - 1}, Out: n + 1},
		{Spec: op.Binary{Kind: kind}, In: []int{n, n + 1}, Out: n + 2},
	}
	made, err := New(p, plan.Optimizer{Kind: plan.SGD}, false, Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := made.(*Executable)
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	copy(m.Input(0), first.in[0])
	copy(m.Input(1), first.in[1])
	copy(m.Input(n-2), second.in[0])
	if err := m.Forward(); err != nil {
		t.Fatal(err)
	}
	return m
}
