//go:build gpu

package compile

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"gorgonia.org/tensor"
)

// operation is an operation with its operands.
type operation struct {
	spec   op.Operation
	shapes []tensor.Shape
	in     [][]float32
}

// given draws operands of these shapes.
func given(r *rand.Rand, s op.Operation, shapes ...tensor.Shape) operation {
	o := operation{spec: s, shapes: shapes}
	for _, shape := range shapes {
		x := make([]float32, shape.TotalSize())
		for i := range x {
			x[i] = float32(0.2 * r.NormFloat64())
		}
		o.in = append(o.in, x)
	}
	return o
}

// program is the operation, with inputs as operands.
func (o operation) program(t *testing.T) *plan.Program {
	t.Helper()
	p := &plan.Program{Batch: 1, Records: 1, PerRecord: 1}
	code := plan.Instruction{Spec: o.spec, Out: len(o.in)}
	for i, s := range o.shapes {
		p.Buffers = append(p.Buffers, plan.Buffer{Name: fmt.Sprint("input ", i), Shape: s, Role: plan.RoleInput, Index: i, Base: i})
		code.In = append(code.In, i)
	}
	shape, err := o.spec.Shape(o.shapes)
	if err != nil {
		t.Fatal(err)
	}
	p.Buffers = append(p.Buffers, plan.Buffer{Name: "output", Shape: shape, Role: plan.RoleOutput, Base: code.Out})
	p.Front = []plan.Instruction{code}
	return p
}

// machine compiles the operation.
func (o operation) machine(t *testing.T, options Options) plan.Executable {
	t.Helper()
	return o.compiled(t, o.program(t), options)
}

// compiled compiles a program whose inputs are operands.
func (o operation) compiled(t *testing.T, p *plan.Program, options Options) plan.Executable {
	t.Helper()
	m, err := New(p, plan.Optimizer{Kind: plan.SGD}, false, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, b := range p.Buffers {
		if b.Role == plan.RoleInput {
			copy(m.Input(b.Index), o.in[b.Base])
		}
	}
	return m
}

// run returns the result on the device.
func (o operation) run(t *testing.T, options Options) []float32 {
	t.Helper()
	m := o.machine(t, options)
	if err := m.Forward(); err != nil {
		t.Fatal(err)
	}
	return append([]float32(nil), m.Output()...)
}

// reference returns the result in float64, and the largest sum of absolute terms.
func (o operation) reference() (want []float64, scale float64) {
	for _, absolute := range []bool{true, false} {
		wide := make([][]float64, len(o.in))
		for i, x := range o.in {
			for _, v := range x {
				if wide[i] = append(wide[i], float64(v)); absolute {
					wide[i][len(wide[i])-1] = math.Abs(float64(v))
				}
			}
		}
		shape, _ := o.spec.Shape(o.shapes)
		want = make([]float64, shape.TotalSize())
		o.spec.Do(want, wide, o.shapes)
		if absolute {
			for _, v := range want {
				scale = math.Max(scale, v)
			}
		}
	}
	return want, scale
}

func (o operation) compare(t *testing.T, got []float32, tolerance float64) {
	t.Helper()
	want, scale := o.reference()
	for i, w := range want {
		if !(math.Abs(float64(got[i])-w) <= tolerance*scale) {
			t.Fatalf("%v: element %d of %d is %v, want %v", o.spec, i, len(got), got[i], w)
		}
	}
}

// tilesAgree checks that neither the tile nor separate blocks for slices change a bit.
func (o operation) tilesAgree(t *testing.T, tiles map[Precision][]tile, precision Precision) {
	t.Helper()
	var first []float32
	for _, one := range tiles[precision] {
		for _, separate := range []bool{false, true} {
			got := forced(one, separate, func() []float32 { return o.run(t, Options{Precision: precision}) })
			if first == nil {
				o.compare(t, got, allowed[precision].products)
				first = got
			}
			same(t, "tile "+one.name, got, first)
		}
	}
}

// forced runs f with one tile, with blocks for each slice if that is requested and possible,
// and without libraries.
func forced(one tile, separate bool, f func() []float32) []float32 {
	defer func() { forceOption = nil }()
	forceOption = func(names []string) int {
		for _, name := range []string{tileSchedule{one, separate}.String(), one.name, ownKernels} {
			if i := slices.Index(names, name); i >= 0 {
				return i
			}
		}
		return -1
	}
	return f()
}

func same(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: element %d is %v, was %v", what, i, got[i], want[i])
		}
	}
}
