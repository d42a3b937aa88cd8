package plan_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
	"gorgonia.org/tensor"
)

// interpreter runs a program by the operations' references, in memory that is laid out
// like a device's.
type interpreter struct {
	program *plan.Program
	arena   []float64
	own     [][]float64 // memory of buffers outside the arena
}

func newInterpreter(p *plan.Program) *interpreter {
	m := &interpreter{program: p, arena: make([]float64, p.Arena), own: make([][]float64, len(p.Buffers))}
	for i, b := range p.Buffers {
		m.own[i] = make([]float64, b.Size())
		values := b.Value
		if b.Draw != nil {
			values = make([]float32, b.Size())
			b.Draw(values)
		}
		for k, v := range values {
			m.own[i][k] = float64(v)
		}
	}
	return m
}

func (m *interpreter) memory(id int) []float64 {
	base := m.program.Buffers[id].Base
	b := m.program.Buffers[base]
	if b.Role == plan.RoleTemporary {
		return m.arena[b.Offset:][:b.Size()]
	}
	return m.own[base]
}

func (m *interpreter) run(code []plan.Instruction) {
	for _, c := range code {
		fused := map[int][]float64{} // what Before computes, in memory outside the program
		if c.Before != nil {
			base := m.program.Buffers[c.Before.Out].Base
			fused[base] = make([]float64, m.program.Buffers[base].Size())
			m.instruction(*c.Before, fused)
		}
		m.instruction(c, fused)
		if c.After != nil {
			m.instruction(*c.After, fused)
		}
	}
}

func (m *interpreter) instruction(c plan.Instruction, fused map[int][]float64) {
	memory := func(id int) []float64 {
		if x, is := fused[m.program.Buffers[id].Base]; is {
			return x
		}
		return m.memory(id)
	}
	var in [][]float64
	var shapes []tensor.Shape
	for _, id := range c.In {
		in = append(in, slices.Clone(memory(id)))
		shapes = append(shapes, m.program.Buffers[id].Shape)
	}
	out := memory(c.Out)
	result := make([]float64, len(out))
	c.Spec.Do(result, in, shapes)
	for i, v := range result {
		if c.Accumulate {
			v += out[i]
		}
		out[i] = v
	}
}

// TestFuseLSTM_ProgramComputesTheSame: the pass fuses every LSTM, of one or two layers, in
// one direction or both, and no result changes a bit.
func TestFuseLSTM_ProgramComputesTheSame(t *testing.T) {
	const records, steps, vocabulary, classes = 3, 4, 7, 3
	for _, options := range []layer.RecurrentOptions{{}, {Layers: 2}, {Layers: 2, Bidirectional: true}} {
		for _, norms := range []bool{true, false} {
			network, err := perexample.Compile(func(batch int) (*perexample.Network, error) {
				b := layer.NewBuilder(batch, 1)
				x := layer.Embedding(b, b.Input("tokens", steps), "table", vocabulary, 5)
				x = layer.MeanOverTime(b, layer.LSTM(b, x, "lstm", 6, options))
				logits := layer.Dense(b, x, "fc", classes, layer.Identity)
				b.SetLoss(layer.CrossEntropy(b, logits, b.Input("label")), logits)
				return b.Network()
			}, records, 1)
			if err != nil {
				t.Fatal(err)
			}
			p, err := plan.LowerTraining(network, plan.TrainingOptions{Norms: norms, Output: true})
			if err != nil {
				t.Fatal(err)
			}
			before := len(p.Front) + len(p.Back)
			q := p.FuseLSTM()
			lstms, fused := 0, 0
			for _, i := range slices.Concat(q.Front, q.Back) {
				switch i.Spec.(type) {
				case op.LSTMTrace, op.LSTMGrad:
					lstms++
				case op.LSTM:
					t.Errorf("%+v: hidden states are not computed with their trace", options)
				}
				for _, with := range []*plan.Instruction{i.Before, i.After} {
					if with != nil {
						fused++
					}
				}
			}
			layers, directions := max(options.Layers, 1), 1
			if options.Bidirectional {
				directions = 2
			}
			if want := layers * directions; lstms != 2*want || fused != 3*want {
				t.Errorf("%+v: %d instructions of LSTMs, %d fused with them; want %d and %d", options, lstms, fused, 2*want, 3*want)
			}
			if after := len(q.Front) + len(q.Back); after != before-fused || len(p.Front)+len(p.Back) != before {
				t.Errorf("%+v: %d instructions became %d with %d fused", options, before, after, fused)
			}
			var results [2][]float64
			for k, program := range []*plan.Program{p, q} {
				m := newInterpreter(program)
				r := rand.New(rand.NewPCG(1, 2))
				for i, b := range program.Buffers {
					for j := range m.own[i] {
						switch {
						case b.Role == plan.RoleInput && b.Index == 0:
							m.own[i][j] = float64(r.IntN(vocabulary))
						case b.Role == plan.RoleInput:
							m.own[i][j] = float64(r.IntN(classes))
						case b.Role == plan.RoleClipFactors:
							m.own[i][j] = r.Float64()
						}
					}
				}
				m.run(program.Front)
				m.run(program.Back)
				for i, b := range program.Buffers {
					switch b.Role {
					case plan.RoleSquaredNorms, plan.RoleOutput, plan.RoleLosses, plan.RoleClippedSum:
						results[k] = append(results[k], m.memory(i)...)
					}
				}
			}
			if len(results[0]) != len(results[1]) || len(results[0]) == 0 {
				t.Fatalf("%+v: %d and %d results", options, len(results[0]), len(results[1]))
			}
			for i, x := range results[0] {
				if math.Float64bits(x) != math.Float64bits(results[1][i]) || x != x {
					t.Fatalf("%+v, norms %v: result %d is %v, after the pass %v", options, norms, i, x, results[1][i])
				}
			}
		}
	}
}
