package perexample_test

import (
	"math"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
)

// standardised is a product with a weight whose columns are standardized. The part of a
// record's gradient that a column's inputs have in common is removed.
var standardised = design{name: "standardised", make: func(m *maker) *G.Node {
	x := m.input("x", 16)
	v := apply(op.Normalize{Chunk: 16, Eps: 1e-6, Center: true}, m.param("W", 5, 16))
	return squares(apply(op.MatMul{TransB: true}, x, v))
}}

// exactly is the squared norm of a record's gradient for standardised, computed in
// float64.
func exactly(w, x []float32) (square float64) {
	wide := func(x []float32) []float64 {
		y := make([]float64, len(x))
		for i, v := range x {
			y[i] = float64(v)
		}
		return y
	}
	s := op.Normalize{Chunk: 16, Eps: 1e-6, Center: true}
	for ; len(w) > 0; w = w[16:] {
		in, v, g := wide(w[:16]), make([]float64, 16), wide(x)
		s.Do(v, [][]float64{in}, nil)
		var y float64
		for i, a := range v {
			y += a * g[i]
		}
		for i := range g {
			g[i] *= 2 * y
		}
		op.NormalizeGrad(s).Do(v, [][]float64{in, g}, nil)
		for _, a := range v {
			square += a * a
		}
	}
	return square
}

// What a record adds to the sum is no longer than its squared norm guarantees
// (clipping.Float32Accuracy), also for tiny and huge records and for records whose gradient the
// function removes almost entirely. The sum adds the same rows whose norms were taken. Jᵀ
// of a clipped sum would break the guarantee: its exact result is often longer than the
// rows.
func TestDerivedWeight_SumWithinBound(t *testing.T) {
	const records = 7
	for _, dev := range devices {
		p, err := perexample.Compile(standardised.build(1), records, 1)
		if err != nil {
			t.Fatal(err)
		}
		if p.Parameters[0].Method != "in parts, pulled back" {
			t.Fatalf("method %s: the test shows nothing", p.Parameters[0].Method)
		}
		m, err := dev.open(p)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		w, longer := floats(p.Params[0].Value()), 0
		for round := range 40 {
			e := draw(t, standardised, uint64(round), records)
			x := m.Input(0)
			for i, v := range e.columns[0] {
				// The inputs are equal up to a small difference, and their sizes are from
				// 1e-12 to 1e12.
				size := math.Pow(10, float64((7*round+i/16*5)%25-12))
				x[i] = float32(size * (3 + 1e-6*float64(v)*float64(round%4)))
			}
			if err := m.Forward(); err != nil {
				t.Fatal(err)
			}
			for r := range records {
				square := adds(t, m, r, 1)
				sq := float64(m.SquaredNorms(0)[r])
				if math.IsInf(sq, 0) || math.IsNaN(sq) {
					continue // clipping leaves it out
				}
				if square*(1-1e-5) > sq+1e-30 {
					t.Fatalf("%s: a record's squared norm is %g and it adds %g", dev.name, sq, square)
				}
				if exactly(w, x[r*16:(r+1)*16])*(1-1e-5) > sq+1e-30 {
					longer++
				}
			}
		}
		if longer < 20 {
			t.Errorf("%s: %d records whose exact gradient is longer: the test shows little", dev.name, longer)
		}
	}
}

// Gradients that are larger than the rows they are computed from are neither built for
// all records at once nor kept for the sum.
func TestDerivedWeight_GradientMemory(t *testing.T) {
	const records, size = 64, 8 * 8 * 9
	d := design{make: func(m *maker) *G.Node {
		x := m.input("x", 8, 2, 2)
		w := op.Window{KernelH: 3, KernelW: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, DilationH: 1, DilationW: 1}
		k := apply(op.Normalize{Chunk: 72, Eps: 1e-4, Center: true}, m.param("K", 8, 8, 3, 3))
		return squares(apply(op.Conv2D{Window: w, Groups: 1}, x, k, m.frozen("b", 8)))
	}}
	p, err := perexample.Compile(d.build(1), records, 1)
	if err != nil {
		t.Fatal(err)
	}
	program, err := plan.LowerTraining(p, plan.TrainingOptions{Norms: true, Output: true})
	if err != nil {
		t.Fatal(err)
	}
	const rows = records * 2 * 8 * 4 // the convolution's inputs and backpropagated signals
	front := map[int]bool{}
	for _, i := range program.Front {
		front[i.Out] = true
	}
	built, kept := 0, map[int]int{}
	for _, i := range program.Back {
		for _, id := range i.In {
			if base := program.Buffers[id].Base; front[base] && program.Buffers[base].Role == plan.RoleTemporary {
				kept[base] = program.Buffers[base].Size()
			}
		}
	}
	for _, b := range program.Buffers {
		if b.Role != plan.RoleTemporary {
			continue
		}
		if b.Size() > rows {
			t.Errorf("buffer %s has %d elements, the rows have %d", b.Name, b.Size(), rows)
		}
		if b.Size() > size {
			built++
		}
	}
	if built == 0 {
		t.Error("no gradients are built")
	}
	total := 0
	for _, n := range kept {
		total += n
	}
	if total > rows || total == 0 {
		t.Errorf("%d elements outlive the norms, the rows have %d", total, rows)
	}
}

// The error names a function that has no rule, and its parameter.
func TestDerivedWeight_NamesFunctionWithoutRule(t *testing.T) {
	p, err := perexample.Compile(func(batch int) (*perexample.Network, error) {
		for _, d := range designs {
			if d.name == "the largest of a weight" {
				return d.build(1)(batch)
			}
		}
		return nil, nil
	}, 4, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, say := range []string{"parameter W", "no per-example rule", "one record at a time"} {
		if !strings.Contains(p.Warning, say) {
			t.Errorf("warning %q does not contain %q", p.Warning, say)
		}
	}
}
