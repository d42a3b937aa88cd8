package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
)

// A step that computes the results of several instructions gives the bits that one step
// per instruction gives, with the same clip factors for all parameters and with others.
func TestFusion_KeepsBits(t *testing.T) {
	for _, units := range []int{20, 70} {
		for _, recurrent := range []layer.RecurrentOptions{{}, {Layers: 2, Bidirectional: true}} {
			for _, norms := range []bool{true, false} {
				for _, flat := range []bool{true, false} {
					if testing.Short() && flat != norms {
						continue
					}
					name := fmt.Sprintf("%d units, %+v, norms %v, flat %v", units, recurrent, norms, flat)
					t.Run(name, func(t *testing.T) { testFusion(t, units, recurrent, norms, flat) })
				}
			}
		}
	}
}

func testFusion(t *testing.T, units int, recurrent layer.RecurrentOptions, norms, flat bool) {
	const records, steps, vocabulary, classes = 29, 5, 30, 3
	network, err := perexample.Compile(func(batch int) (*perexample.Network, error) {
		n := layer.NewBuilder(batch, 1)
		x := layer.Embedding(n, n.Input("features", steps), "table", vocabulary, 50)
		x = layer.MeanOverTime(n, layer.LSTM(n, x, "lstm", units, recurrent))
		logits := layer.Dense(n, x, "fc", classes, layer.Identity)
		n.SetLoss(layer.CrossEntropy(n, logits, n.Input("label")), logits)
		return n.Network()
	}, records, 1)
	if err != nil {
		t.Fatal(err)
	}
	program, err := plan.LowerTraining(network, plan.TrainingOptions{Norms: norms, Output: true})
	if err != nil {
		t.Fatal(err)
	}
	run := func(threads int, fuse bool) *Executable {
		open := newExecutable
		if fuse {
			open = New
		}
		m, err := open(program, plan.Optimizer{Kind: plan.SGD}, false, threads)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		if fuse {
			m.checkFused(t, norms)
		} else {
			m.lowerEachAlone(t)
		}
		r := rand.New(rand.NewPCG(1, 2))
		for i := range m.Input(0) {
			m.Input(0)[i] = float32(r.IntN(vocabulary))
		}
		for i := range m.Input(1) {
			m.Input(1)[i] = float32(r.IntN(classes))
		}
		for v := range program.Parameters {
			for i := range m.ClipFactors(v) {
				m.ClipFactors(v)[i] = 1 / float32(i+1)
				if !flat {
					m.ClipFactors(v)[i] += float32(v)
				}
			}
		}
		if err := m.Forward(); err != nil {
			t.Fatal(err)
		}
		if err := m.AddClippedSums(); err != nil {
			t.Fatal(err)
		}
		return m
	}
	alone := run(1, false)
	for threads := 1; threads <= 3; threads++ {
		m := run(threads, true)
		equal := func(what string, x, y []float32) {
			t.Helper()
			for i, v := range x {
				if v != y[i] {
					t.Fatalf("%d threads: %s [%d] is %v, alone %v", threads, what, i, v, y[i])
				}
			}
		}
		equal("output", m.Output(), alone.Output())
		for v, vector := range program.Parameters {
			equal("squared norms of "+vector.Name, m.SquaredNorms(v), alone.SquaredNorms(v))
			equal("sum of "+vector.Name, m.Sum(v), alone.Sum(v))
		}
	}
}

// checkFused checks that steps of this executable compute results of several instructions.
func (m *Executable) checkFused(t *testing.T, pairs bool) {
	before, after := 0, 0
	for _, i := range m.program.Front {
		if i.Before != nil {
			before++
		}
		if i.After != nil {
			after++
		}
	}
	l := newLowering(m.program, m.memory, m.pool)
	l.lowerAll(m.program.Back)
	if before == 0 || after == 0 || pairs != (len(l.computedEarly) > 0) {
		t.Fatalf("%d products before an LSTM, %d instructions after one, %d paired sums", before, after, len(l.computedEarly))
	}
}

// lowerEachAlone lowers every instruction as if no other followed it.
func (m *Executable) lowerEachAlone(t *testing.T) {
	l := newLowering(m.program, m.memory, m.pool)
	alone := func(code []plan.Instruction) (steps []func()) {
		for n := range code {
			if code[n].Before != nil || code[n].After != nil {
				t.Fatal("the program has fused instructions")
			}
			steps = append(steps, l.lowerAll(code[n:n+1])...)
		}
		return steps
	}
	m.front, m.back = alone(m.program.Front), alone(m.program.Back)
	if len(l.computedEarly) > 0 {
		t.Fatal("a step computes the result of another instruction")
	}
}
