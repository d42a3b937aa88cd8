package main

import (
	"math"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine"
)

var clippings = []string{"flat", "per-layer", "joint", "normalized", "adaptive"}

// gamma is the stability constant of normalised clipping in Bu et al. 2022.
const gamma = 0.01

// groups turns --clipping into groups of vectors.
func (j *job) groups() error {
	s, bound := j.set, clip.Constant(j.set.clip)
	switch s.clipping {
	case "flat":
		j.config.Mechanism.Clipping = clip.Flat(bound, nil)
	case "normalized":
		j.config.Mechanism.Clipping = clip.Flat(bound, clip.Normalized{Gamma: gamma})
	case "adaptive":
		expected := float64(j.config.Sampling.Lot)
		if j.config.Sampling.Rate > 0 {
			expected = j.config.Sampling.Rate * float64(engine.RecordCount(j.config.Train, j.config.Records))
		}
		j.config.Mechanism.Clipping = clip.Flat(clip.Quantile{Initial: s.clip, Target: 0.5, Rate: 0.2, Noise: expected / 20}, nil)
	default:
		net, err := j.config.Network(1)
		if err != nil {
			return err
		}
		var names []string
		var roots []float64
		for _, p := range net.Params {
			names = append(names, p.Name())
			roots = append(roots, math.Sqrt(float64(p.Shape().TotalSize())))
		}
		if s.clipping == "per-layer" {
			j.config.Mechanism.Clipping = clip.PerParameter(names, bound, nil)
			return nil
		}
		// Joint: a vector's scale is the root of its share of the coordinates, the
		// norm that it would have if all coordinates were alike.
		var all float64
		for _, r := range roots {
			all += r * r
		}
		for i := range roots {
			roots[i] /= math.Sqrt(all)
		}
		j.config.Mechanism.Clipping = []clip.Group{{Name: "gradient", Parameters: names, Scales: roots, Bound: bound}}
	}
	return nil
}
