package bench

import (
	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/plan"
	"github.com/dptrain/dptrain/models"
	"github.com/dptrain/dptrain/perexample"
)

func (w Workload) build() (perexample.Build, error) { return models.Parse(w.Model, w.Example, 1) }

// Operations counts the floating-point operations of one ordinary step, two for
// each multiply-add of a matrix product, convolution, recurrence or attention:
// once forward, once for the gradient in the weights (of attention: the other
// operand) and once for the gradient in the inputs, unless these are the data.
// Nothing else is counted: no activations, pooling, normalisation, lookups, noise
// or update, and none of what a private step adds. So private and plain steps, and
// other programs' steps, are held against the same work.
func (w Workload) Operations() (float64, error) {
	build, err := w.build()
	if err != nil {
		return 0, err
	}
	network, err := build(w.Batch)
	if err != nil {
		return 0, err
	}
	program, err := plan.LowerEvaluation(network)
	if err != nil {
		return 0, err
	}
	total := 0
	for _, in := range program.Front {
		passes := 3
		if program.Buffers[program.Buffers[in.In[0]].Base].Role == plan.RoleInput {
			passes = 2
		}
		total += passes * forward(program, in)
	}
	return 2 * float64(total), nil
}

// forward counts the multiply-adds of an instruction.
func forward(p *plan.Program, in plan.Instruction) int {
	out := p.Buffers[in.Out].Shape
	second := func(axis int) int { return p.Buffers[in.In[1]].Shape[axis] }
	switch s := in.Spec.(type) {
	case op.Linear:
		return out.TotalSize() * second(0)
	case op.MatMul:
		if s.TransB {
			return out.TotalSize() * second(1)
		}
		return out.TotalSize() * second(0)
	case op.Conv2D:
		return out.TotalSize() * p.Buffers[in.In[1]].Size() / out[1]
	case op.LSTM:
		return out.TotalSize() * 4 * second(0)
	case op.Attention:
		seen := out[1] // steps that one looks at, in the mean
		if s.Causal {
			return out.TotalSize() * (seen + 1)
		}
		return out.TotalSize() * 2 * seen
	}
	return 0
}
