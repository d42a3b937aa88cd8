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

// operand is an input of an operation.
type operand struct {
	shape  tensor.Shape
	values []float32
}

func normals(r *rand.Rand, shape ...int) operand {
	x := operand{shape, make([]float32, tensor.Shape(shape).TotalSize())}
	for i := range x.values {
		x.values[i] = float32(r.NormFloat64())
	}
	return x
}

// computed returns the device's result of an operation.
func computed(t *testing.T, s op.Operation, in []operand) []float32 {
	t.Helper()
	p := &plan.Program{Batch: 1, Records: 1, PerRecord: 1}
	code := plan.Instruction{Spec: s, Out: len(in)}
	var shapes []tensor.Shape
	for i, x := range in {
		p.Buffers = append(p.Buffers, plan.Buffer{Name: "input", Shape: x.shape, Role: plan.RoleInput, Index: i, Base: i})
		code.In = append(code.In, i)
		shapes = append(shapes, x.shape)
	}
	shape, err := s.Shape(shapes)
	if err != nil {
		t.Fatal(err)
	}
	p.Buffers = append(p.Buffers, plan.Buffer{Name: "output", Shape: shape, Role: plan.RoleOutput, Base: len(in)})
	p.Front = []plan.Instruction{code}
	m := machineOf(t, p, plan.Optimizer{Kind: plan.SGD})
	if m.(*Executable).front.runsOnHost() {
		t.Fatalf("%v: left to the host", s)
	}
	for i, x := range in {
		copy(m.Input(i), x.values)
	}
	if err := m.Forward(); err != nil {
		t.Fatal(err)
	}
	return append([]float32(nil), m.Output()...)
}

// agree compares the device's result with the reference, to 1e-5 of the largest element.
func agree(t *testing.T, s op.Operation, in []operand) []float32 {
	t.Helper()
	got := computed(t, s, in)
	wide, shapes := make([][]float64, len(in)), make([]tensor.Shape, len(in))
	for i, x := range in {
		shapes[i] = x.shape
		for _, v := range x.values {
			wide[i] = append(wide[i], float64(v))
		}
	}
	want, scale := make([]float64, len(got)), 1e-3
	s.Do(want, wide, shapes)
	for _, w := range want {
		if !math.IsNaN(w) && !math.IsInf(w, 0) {
			scale = max(scale, math.Abs(w))
		}
	}
	for i, w := range want {
		g := float64(got[i])
		if !(math.Abs(g-w) <= 1e-5*scale || math.IsNaN(w) && math.IsNaN(g) || w == g) {
			t.Fatalf("%v%v: element %d is %v, want %v", s, shapes, i, g, w)
		}
	}
	return got
}

// The suite's rows fit a warp; these take blocks of every size, the last with more
// threads than some have elements.
var lengths = []int{1024, 1025, 3000, 16385, 50257}

// The conformance suite's rows fit a warp. These use blocks of every size, the last with
// more threads than some rows have elements.
func TestChannels_LongRows(t *testing.T) {
	device(t)
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range lengths {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			x, y, d := normals(r, 5, n), normals(r, 5, n), normals(r, 5)
			labels := operand{tensor.Shape{5}, []float32{float32(n - 1), -1, 0, float32(n), 7}}
			for i := range x.values[:n] {
				x.values[i] *= 30
			}
			specs := []struct {
				spec op.Operation
				in   []operand
			}{
				{op.CrossEntropy{}, []operand{x, labels}},
				{op.CrossEntropy{Smoothing: 0.2}, []operand{x, labels}},
				{op.CrossEntropyGrad{}, []operand{x, labels, d}},
				{op.CrossEntropyGrad{Smoothing: 0.2}, []operand{x, labels, d}},
				{op.Softmax{Axis: 1}, []operand{x}},
				{op.Softmax{Axis: 1, Log: true}, []operand{x}},
				{op.SoftmaxGrad{Axis: 1}, []operand{y, x}},
				{op.SoftmaxGrad{Axis: 1, Log: true}, []operand{y, x}},
				{op.Normalize{Chunk: n, Eps: 1e-5, Center: true}, []operand{x}},
				{op.NormalizeGrad{Chunk: n, Eps: 1e-5, Center: true}, []operand{x, y}},
				{op.NormalizeGrad{Chunk: n, Eps: 1e-5}, []operand{x, y}},
				{op.SquaredError{}, []operand{x, y}},
				{op.SigmoidCrossEntropy{}, []operand{x, y}},
				{op.ElementLosses{Kind: op.HuberError, Width: 2}, []operand{x, y}},
			}
			for _, s := range specs {
				got := agree(t, s.spec, s.in)
				last := make([]operand, len(s.in))
				for i, x := range s.in {
					shape := x.shape.Clone()
					shape[0] = 1
					last[i] = operand{shape, x.values[len(x.values)/5*4:]}
				}
				want := computed(t, s.spec, last)
				for i, w := range want {
					if got := got[len(got)/5*4+i]; math.Float32bits(got) != math.Float32bits(w) {
						t.Fatalf("%v: element %d of the last row is %v, and %v by itself", s.spec, i, got, w)
					}
				}
			}
		})
	}
	agree(t, op.Softmax{Axis: 0}, []operand{normals(r, 2000, 3)})
	agree(t, op.SoftmaxGrad{Axis: 0}, []operand{normals(r, 2000, 3), normals(r, 2000, 3)})
}

// A class that is masked by −Inf has probability 0; NaN and +Inf give NaN.
func TestCrossEntropy_NonFiniteLogits(t *testing.T) {
	device(t)
	inf := float32(math.Inf(1))
	for _, n := range []int{5, 2000} {
		x := normals(rand.New(rand.NewPCG(2, uint64(n))), 5, n)
		for row, v := range []float32{-inf, float32(math.NaN()), inf, 3} {
			x.values[row*n+3] = v
		}
		for i := range n {
			x.values[4*n+i] = -inf
		}
		labels := operand{tensor.Shape{5}, []float32{1, 1, 1, float32(math.NaN()), 1}}
		in := []operand{x, labels}
		for row, v := range computed(t, op.CrossEntropy{}, in) {
			if finite := !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0); finite != (row == 0) {
				t.Errorf("%d classes: row %d has loss %v", n, row, v)
			}
		}
		gradient := computed(t, op.CrossEntropyGrad{}, append(in, operand{tensor.Shape{5}, []float32{1, 1, 1, 1, 1}}))
		if p := gradient[3]; p != 0 {
			t.Errorf("%d classes: a masked class has gradient %v", n, p)
		}
		for row := 1; row < 5; row++ {
			var sum float64
			for _, v := range gradient[row*n : (row+1)*n] {
				sum += float64(v)
			}
			if !math.IsNaN(sum) && !math.IsInf(sum, 0) {
				t.Errorf("%d classes: row %d has a gradient of numbers", n, row)
			}
		}
	}
}

// Sums over enough rows to be added in parts, and over enough channels for a block to
// process a run of tiles.
func TestChannelSums_ManyRowsAndChannels(t *testing.T) {
	device(t)
	r := rand.New(rand.NewPCG(3, 3))
	for _, s := range []struct{ rows, channels, inner, records int }{
		{20000, 1, 1, 100}, {6000, 10, 1, 500}, {999, 300, 1, 333}, {400, 7, 33, 200}, {300, 130, 5, 100}, {64, 40, 200, 64}, {1, 3, 20000, 1},
	} {
		x, y := normals(r, s.rows, s.channels, s.inner), normals(r, s.rows, s.channels, s.inner)
		agree(t, op.ChannelSum{Channels: s.channels, Inner: s.inner}, []operand{x})
		agree(t, op.ChannelDot{Channels: s.channels, Inner: s.inner}, []operand{x, y})
		agree(t, op.Total{Scale: 0.5}, []operand{x})
		agree(t, op.RecordGradients{Form: op.Scale{Channels: s.channels, Inner: s.inner}, Records: s.records}, []operand{x, y})
		agree(t, op.SquaredNorms{Form: op.Shift{Channels: s.channels, Inner: s.inner}, Records: s.records}, []operand{x})

		factors := operand{tensor.Shape{s.records}, make([]float32, s.records)}
		for i := range factors.values {
			if factors.values[i] = r.Float32(); i%3 == 1 {
				factors.values[i] = 0
				n := len(x.values) / s.records
				for j := range n {
					x.values[i*n+j] = float32(math.NaN())
				}
			}
		}
		agree(t, op.ClippedSum{Form: op.Shift{Channels: s.channels, Inner: s.inner}, Records: s.records}, []operand{x, factors})
		agree(t, op.ClippedSum{Form: op.Scale{Channels: s.channels, Inner: s.inner}, Records: s.records}, []operand{x, y, factors})
	}
	wide := normals(r, 3, 70000)
	agree(t, op.SquaredNorms{Form: op.Shift{Channels: 70000, Inner: 1}, Records: 3}, []operand{wide})
	agree(t, op.SquaredNorms{Form: op.Scale{Channels: 3500, Inner: 20}, Records: 3}, []operand{wide, wide})
}

// A mean far from zero is not a float32 number: its rounding error must be included.
func TestNormalize_FarFromZero(t *testing.T) {
	device(t)
	for _, n := range []int{50, 3000} {
		x := normals(rand.New(rand.NewPCG(4, 4)), 7, n)
		for i := range x.values {
			x.values[i] += 20000
		}
		agree(t, op.Normalize{Chunk: n, Eps: 1e-5, Center: true}, []operand{x})
	}
}

// If large terms cancel, double precision loses the small one, in some orders. The norm is
// still not below the true one, as clipping.Float32Accuracy requires.
func TestNorms_CancellingTerms(t *testing.T) {
	device(t)
	const large, small = 1e30, 1e10
	for _, v := range [][]float32{
		{large, small, -large}, {large, -large, small}, {small, large, -large},
		{-large, small, large}, {-large, large, small}, {small, -large, large},
	} {
		for _, inner := range []int{1, 3} {
			x := operand{tensor.Shape{3 / inner, 1, inner}, v}
			got := computed(t, op.SquaredNorms{Form: op.Shift{Channels: 1, Inner: inner}, Records: 1}, []operand{x})
			if sq := float64(got[0]); sq < small*small*(1-1e-5) {
				t.Errorf("terms %v: squared norm %v is above %v", v, small*small, sq)
			}
		}
	}
}

// If a sum cancels, the result is the bound on the error of n additions in double; the
// operands are ones.
func TestChannels_CancellingTerms(t *testing.T) {
	device(t)
	for _, inner := range []int{1, 4} {
		const rows, channels = 6, 3
		x := operand{tensor.Shape{rows, channels, inner}, make([]float32, rows*channels*inner)}
		for i := range x.values {
			x.values[i] = float32(1 - i/(channels*inner)%2*2)
		}
		got := float64(computed(t, op.SquaredNorms{Form: op.Shift{Channels: channels, Inner: inner}, Records: 1}, []operand{x})[0])
		n := float64(rows * inner)
		if want := math.Pow((n+8)*0x1p-53*n, 2) * channels; !(math.Abs(got-want) <= 1e-6*want) {
			t.Errorf("inner %d: squared norm %v, want %v", inner, got, want)
		}
	}
}

// The norm of the sum of one word's rows includes the bound on the error of a float sum.
func TestLookups_CancellingTerms(t *testing.T) {
	device(t)
	const large = 1 << 30
	index, delta := operand{tensor.Shape{1, 3}, []float32{1, 1, 1}}, operand{tensor.Shape{1, 3, 1}, []float32{large, 1, -large}}
	f := op.Gather{Vocabulary: 2, Dim: 1, Bag: 1}
	got := float64(computed(t, op.SquaredNorms{Form: f, Records: 1, Method: op.Group}, []operand{index, delta})[0])
	norm := 1 + (3+1)*0x1p-24*(2*large+1)
	if want := norm * norm; !(math.Abs(got-want) <= 1e-6*want) {
		t.Errorf("squared norm %v, want %v", got, want)
	}
}
