package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/device/simd"
	"github.com/dptrain/dptrain/models"
	"github.com/dptrain/dptrain/perexample"
)

// Norms and sums of a network whose pictures have their channels last are those of its
// operations' reference loops in float64.
func TestChannelsLast_AgreesWithReference(t *testing.T) {
	build, err := models.Parse("mnist-cnn", models.DataSpec{Shape: []int{1, 28, 28}, Classes: 10}, 1)
	if err != nil {
		t.Fatal(err)
	}
	network, err := perexample.Compile(build, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, private := range []bool{true, false} {
		program, err := plan.LowerTraining(network, plan.TrainingOptions{Norms: private})
		if err != nil {
			t.Fatal(err)
		}
		sgd := plan.Optimizer{Kind: plan.SGD}
		m, err := New(program, sgd, false, 2)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		want := &Executable{program: program}
		want.allocate(sgd, false)
		want.drawValues(program)
		l := newLowering(m.program, m.memory, m.pool)
		last := 0
		for _, channelsLast := range l.channelsLast {
			if channelsLast {
				last++
			}
		}
		if kernels := simd.ISA() != "go"; kernels != (last == 8) {
			t.Errorf("%d buffers have their channels last, want 8", last)
		}
		r := rand.New(rand.NewPCG(7, 8))
		for i := range want.inputs[0] {
			want.inputs[0][i] = float32(r.NormFloat64())
		}
		for i := range want.inputs[1] {
			want.inputs[1][i] = float32(r.IntN(10))
		}
		for v := range program.Parameters {
			for i, f := range []float32{0.5, 0, 2} {
				m.ClipFactors(v)[i], want.ClipFactors(v)[i] = f, f
			}
		}
		for i, x := range want.inputs {
			copy(m.inputs[i], x)
		}
		if err := m.Forward(); err != nil {
			t.Fatal(err)
		}
		if err := m.AddClippedSums(); err != nil {
			t.Fatal(err)
		}
		for _, code := range [][]plan.Instruction{program.Front, program.Back} {
			for _, i := range code {
				k := call{out: want.memory[i.Out], accumulate: i.Accumulate}
				for _, id := range i.In {
					k.in = append(k.in, want.memory[id])
					k.shapes = append(k.shapes, program.Buffers[id].Shape)
				}
				lowerReference(i.Spec, k)()
			}
		}
		for v := range program.Parameters {
			for _, pair := range [][2][]float32{{m.SquaredNorms(v), want.SquaredNorms(v)}, {m.Sum(v), want.Sum(v)}} {
				var off, size float64
				for i, x := range pair[1] {
					off += math.Pow(float64(x-pair[0][i]), 2)
					size += float64(x) * float64(x)
				}
				if !(off <= 1e-10*size) {
					t.Errorf("private %v, parameter %d: relative error %v", private, v, math.Sqrt(off/size))
				}
			}
		}
	}
}
