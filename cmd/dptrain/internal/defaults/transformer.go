package defaults

import (
	"fmt"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// The constants of the rule for a transformer. docs/defaults.md has their evidence.
const (
	transformerSteps = 150
	transformerLots  = 40    // lots have this part of the records
	transformerLeast = 500   // records of a lot, if there are as many
	transformerMost  = 1024  // records of a lot, which limits the time
	transformerClip  = 1     // C
	transformerScale = 0.015 // of the learning rate
	transformerRate  = 0.5   // the highest
)

// ForTransformer returns the settings for a transformer that predicts a class of a text.
//
// It learns with momentum, as convolutions do: after T lots of rate η and clip bound C the noise in a
// weight is about η·C·T/(μ·n). So η grows with μ·n/T.
func ForTransformer(f Facts, fixed Fixed) Settings {
	s := Settings{Optimizer: "momentum", Clip: transformerClip}
	lot := min(max(f.Records/transformerLots, transformerLeast), transformerMost)
	s.Lot, s.Steps = fitLots(f.Records, max(1, min(lot, f.Records)), transformerSteps, fixed)
	if fixed.Clip > 0 {
		s.Clip = fixed.Clip
	}
	signal := PrivacyParameter(f.Epsilon, f.Delta) * float64(f.Records)
	s.LearningRate = number.TwoDigits(min(transformerRate, transformerScale*signal/float64(s.Steps)) * transformerClip / s.Clip)
	s.Why = Reasons{
		Lot:          whyLot(f.Records, s.Lot, fmt.Sprintf("a part of 1/%d of the records, from %d to %d", transformerLots, transformerLeast, transformerMost)),
		Steps:        whySteps(fixed, "by measurements on text"),
		Clip:         "by measurements on text",
		Optimizer:    "Adam moves many weights away from their start by noise",
		LearningRate: fmt.Sprintf("grows with μ·n/lots, up to %g; μ·n = %s", transformerRate, round(signal)),
	}
	return s
}
