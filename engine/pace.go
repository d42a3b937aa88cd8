package engine

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/internal/plan"
)

// paces asks for what the learning rate and the weight decay of each parameter are
// multiplied by; nil where nothing was given.
func (r *Run) paces() ([]plan.Pace, error) {
	c := &r.config
	if c.RateOf == nil && c.DecayOf == nil {
		return nil, nil
	}
	all := make([]plan.Pace, len(r.program.Vectors))
	for i, v := range r.program.Vectors {
		p := plan.Pace{Rate: 1, Decay: 1}
		if c.RateOf != nil {
			p.Rate = c.RateOf(v.Name)
		}
		if c.DecayOf != nil {
			p.Decay = c.DecayOf(v.Name)
		}
		if !(p.Rate > 0) || math.IsInf(p.Rate, 1) {
			return nil, fmt.Errorf("parameter %s: %v times the learning rate: RateOf must give a number above 0; to keep a parameter as it is, leave it out of the network's Params", v.Name, p.Rate)
		}
		if !(p.Decay >= 0) || math.IsInf(p.Decay, 1) {
			return nil, fmt.Errorf("parameter %s: %v times the weight decay: DecayOf must give a number from 0 on", v.Name, p.Decay)
		}
		all[i] = p
	}
	return all, nil
}
