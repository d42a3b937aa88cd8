package defaults

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// The constants of the rule for the head of a checkpoint. docs/defaults.md has their evidence.
const (
	headSteps    = 200
	headExamples = 2000000 // of all lots, which limits the time
	headScale    = 0.2     // S
	headClip     = 0.5     // C
	headAverage  = 0.95
)

// ForHead returns the settings for the head of a checkpoint, if nothing else is trained.
//
// The outputs of the frozen layers are computed once, so every record can take part in every lot. Adam
// divides by the noise, as in a linear network: the noise in a weight after T lots is S = η·√T.
func ForHead(f Facts, fixed Fixed) Settings {
	s := Settings{Optimizer: "adam", Clip: headClip, Average: headAverage}
	s.Lot, s.Steps = fitLots(f.Records, max(1, min(f.Records, headExamples/headSteps)), headSteps, fixed)
	s.LearningRate = number.TwoDigits(headScale / math.Sqrt(float64(s.Steps)))
	s.Why = Reasons{
		Lot:          whyLot(f.Records, s.Lot, fmt.Sprintf("at most %d texts in %d lots", headExamples, headSteps)),
		Steps:        whySteps(fixed, "by measurements on text"),
		Clip:         "by measurements on text",
		Optimizer:    "its steps do not depend on the clip bound",
		LearningRate: whyRate(headScale, s.Steps),
		Average:      whyAverage(headAverage),
	}
	return s
}
