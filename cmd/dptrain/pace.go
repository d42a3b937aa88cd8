package main

import (
	"math"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/engine/weights"
	"github.com/dptrain/dptrain/internal/exitcode"
)

// decaying are what --decay-of takes.
var decaying = []string{"all", "matrices"}

// pace has the layers of --lr-of, and what --decay-of says, learn at their own pace.
func (j *job) pace() error {
	s, c := j.set, &j.config
	if s.lrOf == "" && s.decayOf == "all" {
		return nil
	}
	net, err := c.Network.ForBatch(1)
	if err != nil {
		return err
	}
	if s.lrOf != "" {
		factors := map[string]float64{}
		for part := range strings.SplitSeq(s.lrOf, ",") {
			name, text, _ := strings.Cut(part, "=")
			factor, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil || !(factor > 0) || math.IsInf(factor, 1) || name == "" {
				return exitcode.Usagef("--lr-of %q: give LAYER=FACTOR, with a factor above 0; --freeze has a layer keep its starting weights", part)
			}
			layers, err := layersOf(net, "--lr-of", name)
			if err != nil {
				return err
			}
			for _, p := range net.Params {
				if !weights.BelongsTo(p.Name(), layers...) {
					continue
				}
				if factors[p.Name()] != 0 {
					return exitcode.Usagef("--lr-of %s: %s is named twice", s.lrOf, p.Name())
				}
				factors[p.Name()] = factor
			}
		}
		c.Optimization.LearningRateMultiplier = func(parameter string) float64 {
			if factor, given := factors[parameter]; given {
				return factor
			}
			return 1
		}
	}
	if s.decayOf == "matrices" {
		decays := map[string]float64{}
		for _, p := range net.Params {
			if p.Dims() > 1 {
				decays[p.Name()] = 1
			}
		}
		c.Optimization.WeightDecayMultiplier = func(parameter string) float64 { return decays[parameter] }
	}
	return nil
}
