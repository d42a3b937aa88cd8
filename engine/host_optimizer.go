package engine

import (
	"fmt"

	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/internal/device/plan"
)

// maxSlots bounds the memory of an optimizer.
const maxSlots = 64

// onHost reports whether the host computes the optimizer.
func (o *Optimization) onHost() bool {
	_, known := o.Optimizer.(optim.Optimizer)
	return !known
}

// ofDevice returns the optimizer that devices compute in one pass with the noise. Where the host
// computes another one, the device keeps the released gradient: momentum with a decay of 0 stores
// it in its slot, and a learning rate of 0 leaves the weights as they are.
func (o *Optimization) ofDevice() plan.Optimizer {
	if known, ok := o.Optimizer.(optim.Optimizer); ok {
		return known.ForDevice()
	}
	return plan.Optimizer{Kind: plan.Momentum}
}

// hostOptimizer updates weights by a rule that no device computes, from the gradients that a
// device has released.
//
// It reads released gradients and public numbers only, and keeps no other state than its slots.
// So the weights are post-processing of the releases, as those of an optimizer on the device.
type hostOptimizer struct {
	rule    optim.Rule
	result  func(slots [][]float32) []float32 // nil where the weights are the result
	average plan.Average
	network *compiledNetwork
	groups  []plan.ParamGroup // nil where all multipliers are 1
	slots   [][][]float32     // [parameter][slot]
}

// newHostOptimizer returns nil where the device computes the optimizer.
func newHostOptimizer(o *Optimization, n *compiledNetwork, groups []plan.ParamGroup) *hostOptimizer {
	if !o.onHost() {
		return nil
	}
	h := &hostOptimizer{rule: o.Optimizer, average: o.Average.ForDevice(), network: n, groups: groups}
	if e, ok := o.Optimizer.(optim.Extrapolator); ok {
		h.result = e.Result
	}
	for _, p := range n.program.Parameters {
		slots := make([][]float32, o.Optimizer.Slots())
		for s := range slots {
			slots[s] = make([]float32, p.Shape.TotalSize())
		}
		h.slots = append(h.slots, slots)
	}
	return h
}

// update turns the gradients of a release into a step.
func (h *hostOptimizer) update(m *mechanism, rate float64) error {
	e := h.network.executable
	if err := e.SyncState(); err != nil {
		return err
	}
	state := e.State()
	for v, weights := range state.Weights {
		s := optim.Step{Number: m.release.Step, Rate: rate, DecayMultiplier: 1, NoiseDeviation: m.noiseOf(v) * m.release.Scale}
		if h.groups != nil {
			s.Rate *= h.groups[v].RateMultiplier
			s.DecayMultiplier = h.groups[v].DecayMultiplier
		}
		if err := h.rule.Update(s, weights, state.Slots[v][0], h.slots[v]); err != nil {
			return fmt.Errorf("optimizer, parameter %s: %w", h.network.program.Parameters[v].Name, err)
		}
		if h.average.Decay > 0 {
			if err := h.average.Apply(s.Number, state.Average[v], h.resultOf(v, weights)); err != nil {
				return err
			}
		}
	}
	return e.LoadState()
}

// state returns the host's view of what a checkpoint stores. h may be nil.
func (h *hostOptimizer) state(e plan.Executable) plan.State {
	s := e.State()
	if h != nil {
		s.Slots = h.slots
	}
	return s
}

// resultOf returns the weights that the rule has produced for a parameter.
func (h *hostOptimizer) resultOf(v int, weights []float32) []float32 {
	if h.result == nil {
		return weights
	}
	return h.result(h.slots[v])
}

// results returns the weights that the rule has produced.
func (h *hostOptimizer) results() [][]float32 {
	weights := h.network.executable.State().Weights
	all := make([][]float32, len(weights))
	for v, w := range weights {
		all[v] = h.resultOf(v, w)
	}
	return all
}
