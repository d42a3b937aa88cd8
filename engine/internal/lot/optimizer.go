package lot

import (
	"fmt"

	"github.com/dptrain/dptrain/engine/internal/network"
	"github.com/dptrain/dptrain/engine/internal/release"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/internal/device/plan"
)

// Optimizer updates weights by a rule that no device computes, from the gradients that a
// device has released.
//
// It reads released gradients and public numbers only, and keeps no other state than its slots.
// So the weights are post-processing of the releases, as those of an optimizer on the device.
type Optimizer struct {
	rule    optim.Rule
	result  func(slots [][]float32) []float32 // nil where the weights are the result
	average plan.Average
	network *network.Network
	groups  []plan.RateFactors // nil where all multipliers are 1
	slots   [][][]float32      // [parameter][slot]
}

// NewOptimizer returns a rule with slots of zeros. groups has the multipliers of each parameter; nil: all
// are 1.
func NewOptimizer(rule optim.Rule, average optim.Average, n *network.Network, groups []plan.RateFactors) *Optimizer {
	h := &Optimizer{rule: rule, average: average.ForDevice(), network: n, groups: groups}
	if e, ok := rule.(optim.Extrapolator); ok {
		h.result = e.Result
	}
	for _, p := range n.Program.Parameters {
		slots := make([][]float32, rule.Slots())
		for s := range slots {
			slots[s] = make([]float32, p.Shape.TotalSize())
		}
		h.slots = append(h.slots, slots)
	}
	return h
}

// update turns the gradients of a release into a step.
func (h *Optimizer) update(m *release.Mechanism, rate float64) error {
	e := h.network.Executable
	if err := e.SyncState(); err != nil {
		return err
	}
	state := e.State()
	for v, weights := range state.Weights {
		s := optim.Step{Number: m.Step.Step, Rate: rate, DecayMultiplier: 1, NoiseDeviation: m.NoiseOf(v) * m.Step.Scale}
		if h.groups != nil {
			s.Rate *= h.groups[v].RateMultiplier
			s.DecayMultiplier = h.groups[v].DecayMultiplier
		}
		if err := h.rule.Update(s, weights, state.Slots[v][0], h.slots[v]); err != nil {
			return fmt.Errorf("optimizer, parameter %s: %w", h.network.Program.Parameters[v].Name, err)
		}
		if h.average.Decay > 0 {
			if err := h.average.Apply(s.Number, state.Average[v], h.resultOf(v, weights)); err != nil {
				return err
			}
		}
	}
	return e.LoadState()
}

// State returns the host's view of what a checkpoint stores. h may be nil.
func (h *Optimizer) State(e plan.Executable) plan.State {
	s := e.State()
	if h != nil {
		s.Slots = h.slots
	}
	return s
}

// resultOf returns the weights that the rule has produced for a parameter.
func (h *Optimizer) resultOf(v int, weights []float32) []float32 {
	if h.result == nil {
		return weights
	}
	return h.result(h.slots[v])
}

// Results returns the weights that the rule has produced.
func (h *Optimizer) Results() [][]float32 {
	weights := h.network.Executable.State().Weights
	all := make([][]float32, len(weights))
	for v, w := range weights {
		all[v] = h.resultOf(v, w)
	}
	return all
}
