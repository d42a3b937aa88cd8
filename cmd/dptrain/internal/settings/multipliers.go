package settings

import (
	"math"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/engine/weights"
	"github.com/dptrain/dptrain/perexample"
)

// multipliers returns the factors of --lr-of and --decay-of by parameter name; nil if all
// factors are 1.
func (s *Flags) multipliers(build perexample.Build) (learningRate, weightDecay func(parameter string) float64, err error) {
	if s.LearningRateOf == "" && s.WeightDecayOf == "all" {
		return nil, nil, nil
	}
	net, err := build.ForBatch(1)
	if err != nil {
		return nil, nil, err
	}
	if s.LearningRateOf != "" {
		factors, err := s.learningRateFactors(net)
		if err != nil {
			return nil, nil, err
		}
		learningRate = func(parameter string) float64 {
			if factor, given := factors[parameter]; given {
				return factor
			}
			return 1
		}
	}
	if s.WeightDecayOf == "matrices" {
		factors := map[string]float64{}
		for _, p := range net.Trained() {
			if p.Dims() > 1 {
				factors[p.Name()] = 1
			}
		}
		weightDecay = func(parameter string) float64 { return factors[parameter] }
	}
	return learningRate, weightDecay, nil
}

func (s *Flags) learningRateFactors(net *perexample.Network) (map[string]float64, error) {
	factors := map[string]float64{}
	for part := range strings.SplitSeq(s.LearningRateOf, ",") {
		name, text, _ := strings.Cut(part, "=")
		factor, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || !(factor > 0) || math.IsInf(factor, 1) || name == "" {
			return nil, exitcode.Usagef("--lr-of %q: give LAYER=FACTOR with a finite factor above 0; --freeze keeps a layer's starting weights", part)
		}
		layers, err := parseLayers(net, "--lr-of", name)
		if err != nil {
			return nil, err
		}
		for _, p := range net.Trained() {
			if !weights.BelongsTo(p.Name(), layers...) {
				continue
			}
			if factors[p.Name()] != 0 {
				return nil, exitcode.Usagef("--lr-of %s names %s twice: drop one of them", s.LearningRateOf, p.Name())
			}
			factors[p.Name()] = factor
		}
	}
	return factors, nil
}
