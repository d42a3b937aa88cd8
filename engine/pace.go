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
	if c.RateOf == nil && c.DecayOf == nil {
		return nil, nil
	}
	all := make([]plan.ParamGroup, len(r.program.Parameters))
	for i, v := range r.program.Parameters {
		p := plan.ParamGroup{RateMultiplier: 1, DecayMultiplier: 1}
		if c.RateOf != nil {
			p.RateMultiplier = c.RateOf(v.Name)
		}
		if c.DecayOf != nil {
			p.DecayMultiplier = c.DecayOf(v.Name)
		}
		if !(p.RateMultiplier > 0) || math.IsInf(p.RateMultiplier, 1) {
			return nil, fmt.Errorf("parameter %s: %v times the learning rate: RateOf must give a number above 0; to keep a parameter as it is, leave it out of the network's Params", v.Name, p.RateMultiplier)
		}
		if !(p.DecayMultiplier >= 0) || math.IsInf(p.DecayMultiplier, 1) {
			return nil, fmt.Errorf("parameter %s: %v times the weight decay: DecayOf must give a number from 0 on", v.Name, p.DecayMultiplier)
		}
		all[i] = p
	}
	return all, nil
}
