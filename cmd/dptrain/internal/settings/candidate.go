package settings

import (
	"fmt"
	"maps"
	"math"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// Hyperparameters are the settings that tune varies, and the noise that follows from them.
type Hyperparameters struct {
	Clip            float64 `json:"clip"`
	LearningRate    float64 `json:"learning_rate"`
	Lot             int     `json:"lot"`
	Steps           int     `json:"steps"`
	NoiseMultiplier float64 `json:"noise_multiplier"`
}

// Hyperparameters returns the settings that tune varies.
func (s *Spec) Hyperparameters() Hyperparameters {
	return Hyperparameters{s.Flags.Clip, s.Flags.LearningRate, s.Config.Sampling.Lot, s.Config.Steps, s.Config.Mechanism.NoiseMultiplier}
}

// Flags returns the flags that repeat the settings. The noise follows from the budget.
func (h Hyperparameters) Flags() string {
	return fmt.Sprintf("--clip %v --lr %v --lot %d --steps %d", h.Clip, h.LearningRate, h.Lot, h.Steps)
}

// Candidate returns the flags of the i-th candidate of a hyperparameter search. Candidate 0
// has the specification's own flags. The others cover plausible ranges on a logarithmic
// scale. They are evenly spread for any number of candidates: each axis takes multiples of
// a power of the inverse of the root of x⁵ = x + 1. Flags with a value keep it.
func (s *Spec) Candidate(i int) *Flags {
	f := *s.Flags
	f.given = maps.Clone(s.Flags.given)
	if i == 0 {
		return &f
	}
	const root = 1.1673039782614187
	axis := 0
	spread := func(low, high float64) float64 {
		axis++
		_, part := math.Modf(0.5 + float64(i)*math.Pow(root, -float64(axis)))
		return number.TwoDigits(low * math.Pow(high/low, part))
	}
	n := float64(s.Config.PublicRecordCount())
	expected, lots := expectedLot(&s.Config), float64(s.Config.Steps)
	clip, lr := spread(0.1*f.Clip, 10*f.Clip), spread(0.06*f.LearningRate, 6*f.LearningRate)
	lot, steps := spread(max(1, expected/8), min(n, 4*expected)), spread(max(1, lots/8), 2*lots)
	if !f.given["clip"] {
		f.Clip, f.given["clip"] = clip, true
	}
	if !f.given["lr"] {
		f.LearningRate = lr
	}
	if !f.given["lot"] {
		f.Lot, f.given["lot"] = int(lot), true
	}
	if !f.given["steps"] && !f.given["epochs"] {
		f.Steps, f.given["steps"] = int(steps), true
	}
	return &f
}
