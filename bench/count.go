package bench

import (
	"github.com/dptrain/dptrain/engine/weights"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/models"
	"github.com/dptrain/dptrain/perexample"
)

// build builds the network. What a checkpoint's name does not train is frozen.
func (w Workload) build() (perexample.Build, error) {
	build, err := models.Parse(w.Model, w.Example, 1)
	if err != nil {
		return nil, err
	}
	checkpoint, err := models.Pretrained(w.Model)
	if checkpoint == nil || err != nil {
		return build, err
	}
	net, err := build.ForBatch(1)
	if err != nil {
		return nil, err
	}
	frozen, _, err := checkpoint.Parts(net)
	if err != nil {
		return nil, err
	}
	return weights.Freeze(build, frozen...), nil
}

// FloatingPointOperations counts the floating-point operations of one ordinary step: two for each
// multiply-add of a matrix product, convolution, recurrence or attention. Each counts once for the
// forward pass, once for the weight gradient (for attention: the gradient of the other operand) and
// once for the input gradient, unless the input is the data.
//
// Activations, pooling, normalisation, lookups, noise, updates and the additional work of a private
// step do not count. Private steps, plain steps and the steps of other programs are thus compared
// for the same work.
func (w Workload) FloatingPointOperations() (float64, error) {
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
		total += passes * forwardMultiplyAdds(program, in)
	}
	return 2 * float64(total), nil
}

// forwardMultiplyAdds counts the multiply-adds of an instruction in the forward pass.
func forwardMultiplyAdds(p *plan.Program, in plan.Instruction) int {
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
		steps := out[1]
		if s.Causal {
			return out.TotalSize() * (steps + 1) // a position attends to (steps+1)/2 positions on average
		}
		return out.TotalSize() * 2 * steps
	}
	return 0
}
