package engine

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/internal/plan"
)

// paces asks for what the learning rate and the weight decay of each parameter are
// multiplied by; nil where nothing was given.
func (r *Run) paces() ([]plan.ParamGroup, error) {
	c := &r.config
	if c.Optimization.LearningRateMultiplier == nil && c.Optimization.WeightDecayMultiplier == nil {
		return nil, nil
	}
	all := make([]plan.ParamGroup, len(r.program.Parameters))
	for i, v := range r.program.Parameters {
		p := plan.ParamGroup{RateMultiplier: 1, DecayMultiplier: 1}
		if c.Optimization.LearningRateMultiplier != nil {
			p.RateMultiplier = c.Optimization.LearningRateMultiplier(v.Name)
		}
		if c.Optimization.WeightDecayMultiplier != nil {
			p.DecayMultiplier = c.Optimization.WeightDecayMultiplier(v.Name)
		}
		if !(p.RateMultiplier > 0) || math.IsInf(p.RateMultiplier, 1) {
			return nil, fmt.Errorf("parameter %s: %v times the learning rate: LearningRateMultiplier must return a number above 0; to freeze a parameter, omit it of the network's Params", v.Name, p.RateMultiplier)
		}
		if !(p.DecayMultiplier >= 0) || math.IsInf(p.DecayMultiplier, 1) {
			return nil, fmt.Errorf("parameter %s: %v times the weight decay: WeightDecayMultiplier must return a number of at least 0", v.Name, p.DecayMultiplier)
		}
		all[i] = p
	}
	return all, nil
}
