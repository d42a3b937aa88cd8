package cpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/internal/plan"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
)

// What an operation makes beside its own result has the bits that the operations
// give when each is alone: clipped all together, and each parameter by itself.
func TestWithin(t *testing.T) {
	for _, units := range []int{20, 70} {
		for _, recurrent := range []layer.RecurrentOptions{{}, {Layers: 2, Bidirectional: true}} {
			for _, norms := range []bool{true, false} {
				for _, flat := range []bool{true, false} {
					if testing.Short() && flat != norms {
						continue
					}
					name := fmt.Sprintf("%d units, %+v, norms %v, flat %v", units, recurrent, norms, flat)
					t.Run(name, func(t *testing.T) { testWithin(t, units, recurrent, norms, flat) })
				}
			}
		}
	}
}

func testWithin(t *testing.T, units int, recurrent layer.RecurrentOptions, norms, flat bool) {
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
	program, err := plan.LowerTraining(network, plan.Options{Norms: norms, Output: true})
	if err != nil {
		t.Fatal(err)
	}
	run := func(threads int, alone bool) *Executable {
		m, err := New(program, plan.Optimizer{Kind: plan.SGD}, false, threads)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		if alone {
			m.compileAlone(t)
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
	alone := run(1, true)
	for threads := 1; threads <= 3; threads++ {
		m := run(threads, false)
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

// compileAlone makes every operation know nothing of what follows it.
func (m *Executable) compileAlone(t *testing.T) {
	c := newLowering(m.program, m.memory, m.pool)
	together := newLowering(m.program, m.memory, m.pool)
	together.lowerAll(m.program.Front)
	if len(together.left) == 0 || len(together.early) == 0 {
		t.Fatal("no operation makes the result of another")
	}
	alone := func(code []plan.Instruction) (steps []func()) {
		for n := range code {
			steps = append(steps, c.lowerAll(code[n:n+1])...)
		}
		return steps
	}
	m.front, m.back = alone(m.program.Front), alone(m.program.Back)
	if len(c.left)+len(c.early) > 0 {
		t.Fatal("a product was left to another operation")
	}
}
