package defaults

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// The constants of the rule for what a checkpoint's blocks contain. docs/defaults.md has their evidence.
const (
	tuningSteps = 60
	tuningMost  = 1024   // records of a lot, which limits the time
	tuningScale = 0.077  // S of adapters and biases
	wholeScale  = 0.0077 // S of all weights
	tuningClip  = 0.5    // C of classes
	nextClip    = 0.1    // C of next ids
)

// Tuned is what a run trains of a checkpoint.
type Tuned struct {
	Whole bool // all weights, not adapters or biases
	Next  bool // to predict the next id, not a class
}

// ForFineTuning returns the settings for adapters, biases or all weights of a checkpoint.
//
// A lot costs a pass through the whole network, so lots are few and large: noise of a lot's mean falls with its size, and
// more lots would share the same ε. The noise in a weight after T lots of Adam is S = η·√T, as for a head. All weights
// together bear less of it than a few.
func ForFineTuning(f Facts, fixed Fixed, t Tuned) Settings {
	s := Settings{Optimizer: "adam", Clip: tuningClip}
	steps := max(tuningSteps, f.Records/tuningMost) // each record takes part once, on average
	s.Lot, s.Steps = fitLots(f.Records, max(1, min(f.Records, tuningMost)), steps, fixed)
	scale := tuningScale
	if t.Whole {
		scale = wholeScale
	}
	if t.Next {
		s.Clip = nextClip
	}
	s.LearningRate = number.TwoDigits(scale / math.Sqrt(float64(s.Steps)))
	s.Why = Reasons{
		Lot:          whyLot(f.Records, s.Lot, fmt.Sprintf("at most %d records, which limits the time", tuningMost)),
		Steps:        whySteps(fixed, "by measurements on text"),
		Clip:         "by measurements on text",
		Optimizer:    "its steps do not depend on the clip bound",
		LearningRate: whyRate(scale, s.Steps),
	}
	return s
}
