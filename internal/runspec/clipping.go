package runspec

import (
	"math"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine"
)

// stabilityConstant is γ of normalised clipping in Bu et al. 2022.
const stabilityConstant = 0.01

// clippingGroups translates --clipping into groups of parameters.
func (s *Flags) clippingGroups(c *engine.Config) ([]clip.Group, error) {
	bound := clip.Constant(s.Clip)
	switch s.Clipping {
	case "flat":
		return clip.Flat(bound, nil), nil
	case "normalized":
		return clip.Flat(bound, clip.Normalized{Gamma: stabilityConstant}), nil
	case "adaptive":
		return clip.Flat(clip.Quantile{Initial: s.Clip, Target: 0.5, Rate: 0.2, Noise: expectedLot(c) / 20}, nil), nil
	}
	net, err := c.Network(1)
	if err != nil {
		return nil, err
	}
	var names []string
	var roots []float64
	for _, p := range net.Params {
		names = append(names, p.Name())
		roots = append(roots, math.Sqrt(float64(p.Shape().TotalSize())))
	}
	if s.Clipping == "per-layer" {
		return clip.PerParameter(names, bound, nil), nil
	}
	// Joint clipping: the scale of a parameter is the root of its share of all coordinates,
	// which would be its norm if all coordinates were equal.
	var total float64
	for _, r := range roots {
		total += r * r
	}
	for i := range roots {
		roots[i] /= math.Sqrt(total)
	}
	return []clip.Group{{Name: "gradient", Parameters: names, Scales: roots, Bound: bound}}, nil
}
