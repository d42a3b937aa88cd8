package plantest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"gorgonia.org/tensor"
)

// Compile compiles a program for the device under test, on a number of threads.
type Compile func(p *plan.Program, o plan.Optimizer, average bool, threads int) (plan.Executable, error)

// operand is one input of an operation.
type operand struct {
	shape  tensor.Shape
	values []float32
	shared bool // a weight, which belongs to no record
}

// trial is an operation with inputs. Operands that are not shared have one block per
// record along axis 0.
type trial struct {
	spec      func(records int) op.Operation
	in        []operand
	records   int
	apart     bool    // the result has one block per record, computed from that record alone
	tolerance float64 // relative to the largest element of the result
}

func (tr trial) String() string { return fmt.Sprintf("%v%v", tr.spec(tr.records), shapes(tr.in)) }

func shapes(in []operand) []tensor.Shape {
	s := make([]tensor.Shape, len(in))
	for i, x := range in {
		s[i] = x.shape
	}
	return s
}

// shape is the shape of the result.
func (tr trial) shape(t *testing.T) tensor.Shape {
	t.Helper()
	s, err := tr.spec(tr.records).Shape(shapes(tr.in))
	if err != nil {
		t.Fatalf("%v: %v", tr, err)
	}
	return s
}

// reference computes the result, of the given shape, with the operation's own Do.
func (tr trial) reference(shape tensor.Shape) []float64 {
	in := make([][]float64, len(tr.in))
	for i, x := range tr.in {
		in[i] = make([]float64, len(x.values))
		for j, v := range x.values {
			in[i][j] = float64(v)
		}
	}
	out := make([]float64, shape.TotalSize())
	tr.spec(tr.records).Do(out, in, shapes(tr.in))
	return out
}

// pick is the same operation on some of the records, in the given order. A negative
// number stands for a record of NaNs.
func (tr trial) pick(records ...int) trial {
	in := make([]operand, len(tr.in))
	for i, x := range tr.in {
		if in[i] = x; x.shared {
			continue
		}
		n := len(x.values) / tr.records
		in[i].shape = x.shape.Clone()
		in[i].shape[0] = x.shape[0] / tr.records * len(records)
		in[i].values = nil
		for _, r := range records {
			if r >= 0 {
				in[i].values = append(in[i].values, x.values[r*n:(r+1)*n]...)
				continue
			}
			for range n {
				in[i].values = append(in[i].values, float32(math.NaN()))
			}
		}
	}
	tr.in, tr.records = in, len(records)
	return tr
}

// program is a program of one instruction, whose result is the output.
func (tr trial) program(t *testing.T) *plan.Program {
	t.Helper()
	p := &plan.Program{Batch: tr.records, Records: tr.records, PerRecord: 1}
	code := plan.Instruction{Spec: tr.spec(tr.records), Out: len(tr.in)}
	for i, x := range tr.in {
		p.Buffers = append(p.Buffers, plan.Buffer{Name: fmt.Sprint("input ", i), Shape: x.shape, Role: plan.RoleInput, Index: i, Base: i})
		code.In = append(code.In, i)
	}
	p.Buffers = append(p.Buffers, plan.Buffer{Name: "output", Shape: tr.shape(t), Role: plan.RoleOutput, Base: code.Out})
	p.Front = []plan.Instruction{code}
	return p
}

// machine compiles the program and fills its inputs.
func (tr trial) machine(t *testing.T, compile Compile, p *plan.Program, threads int) plan.Executable {
	t.Helper()
	m, err := compile(p, plan.Optimizer{Kind: plan.SGD}, false, threads)
	if err != nil {
		t.Fatalf("%v: %v", tr, err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	for i, x := range tr.in {
		copy(m.Input(i), x.values)
	}
	return m
}

// run returns the result of the device.
func (tr trial) run(t *testing.T, compile Compile, threads int) []float32 {
	t.Helper()
	m := tr.machine(t, compile, tr.program(t), threads)
	if err := m.Forward(); err != nil {
		t.Fatalf("%v: %v", tr, err)
	}
	return append([]float32(nil), m.Output()...)
}

// normal is a tensor of independent standard normals.
func normal(r *rand.Rand, shape ...int) operand {
	x := operand{shape: shape, values: make([]float32, tensor.Shape(shape).TotalSize())}
	for i := range x.values {
		x.values[i] = float32(r.NormFloat64())
	}
	return x
}

// whole is a tensor of whole numbers from lo to hi−1.
func whole(r *rand.Rand, lo, hi int, shape ...int) operand {
	x := normal(r, shape...)
	for i := range x.values {
		x.values[i] = float32(lo + r.IntN(hi-lo))
	}
	return x
}

// weight is an operand that belongs to no record.
func weight(x operand) operand {
	x.shared = true
	return x
}

// between draws a whole number from lo to hi.
func between(r *rand.Rand, lo, hi int) int { return lo + r.IntN(hi-lo+1) }
