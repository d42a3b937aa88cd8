package settings

import (
	"math"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine"
)

// clippings are the choices of --clipping.
var clippings = []string{"flat", "per-layer", "per-layer-size", "joint", "normalized", "adaptive"}

// stabilityConstant is γ of normalised clipping in Bu et al. 2022.
const stabilityConstant = 0.01

// clippingGroups translates --clipping into groups of parameters.
func (s *Flags) clippingGroups(c *engine.Config) ([]clip.Group, error) {
	switch bound := clip.Constant(s.Clip); s.Clipping {
	case "flat":
		return clip.Flat(bound, nil), nil
	case "normalized":
		return clip.Flat(bound, clip.Normalized{Gamma: stabilityConstant}), nil
	case "adaptive":
		return clip.Flat(adaptiveBound(s.Clip, expectedLot(c)), nil), nil
	}
	net, err := c.Network(1)
	if err != nil {
		return nil, err
	}
	var names []string
	var roots []float64 // of the sizes
	for _, p := range net.Trained() {
		names = append(names, p.Name())
		roots = append(roots, math.Sqrt(float64(p.Shape().TotalSize())))
	}
	if s.Clipping == "per-layer" {
		return clip.PerParameter(names, clip.Constant(s.Clip), nil), nil
	}
	var total float64
	for _, r := range roots {
		total += r * r
	}
	for i := range roots {
		roots[i] /= math.Sqrt(total)
	}
	if s.Clipping == "per-layer-size" {
		var groups []clip.Group
		for i, name := range names {
			groups = append(groups, clip.Group{Name: name, Parameters: []string{name}, Bound: clip.Constant(s.Clip * roots[i])})
		}
		return groups, nil
	}
	// Joint clipping: the scale of a parameter is the root of its share of all coordinates,
	// which would be its norm if all coordinates were equal.
	if !s.given["clip"] {
		s.Clip = jointBound(len(names))
	}
	return []clip.Group{{Name: "gradient", Parameters: names, Scales: roots, Bound: clip.Constant(s.Clip)}}, nil
}

// adaptiveBound returns a bound that follows the median of the norms, with the rate of Andrew et
// al. 2021 and their noise of the counts.
func adaptiveBound(initial, lot float64) clip.Quantile {
	return clip.Quantile{Initial: initial, Target: 0.5, Rate: 0.2, Noise: lot / 20}
}

// jointBound is the default bound of joint clipping for k parameters: √k. Let all coordinates of
// a gradient g be equal. Divided by its scale, each parameter's part has the norm ‖g‖, and all
// k parts together have √k·‖g‖. With this bound such a gradient is clipped to the norm 1, as by
// flat clipping with its default bound. With the bound 1 it would be clipped to 1/√k, and the first
// steps would be as much shorter.
func jointBound(k int) float64 { return math.Sqrt(float64(k)) }
