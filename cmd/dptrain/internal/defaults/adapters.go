package defaults

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// The constants of the rule for low-rank adapters of a checkpoint. docs/defaults.md has their evidence.
const (
	adapterSteps = 60
	adapterMost  = 1024  // records of a lot, which limits the time
	adapterScale = 0.077 // S
	adapterClip  = 0.5   // C
)

// ForAdapters returns the settings for low-rank adapters of a checkpoint, with its head.
//
// A lot costs a pass through the whole network, so lots are few and large: noise of a lot's mean falls with its size, and
// more lots would share the same ε. The noise in a weight after T lots of Adam is S = η·√T, as for a head.
func ForAdapters(f Facts, fixed Fixed) Settings {
	s := Settings{Optimizer: "adam", Clip: adapterClip}
	steps := max(adapterSteps, f.Records/adapterMost) // each record takes part once, on average
	s.Lot, s.Steps = fitLots(f.Records, max(1, min(f.Records, adapterMost)), steps, fixed)
	s.LearningRate = number.TwoDigits(adapterScale / math.Sqrt(float64(s.Steps)))
	s.Why = Reasons{
		Lot:          whyLot(f.Records, s.Lot, fmt.Sprintf("at most %d texts, which limits the time", adapterMost)),
		Steps:        whySteps(fixed, "by measurements on text"),
		Clip:         "by measurements on text",
		Optimizer:    "its steps do not depend on the clip bound",
		LearningRate: whyRate(adapterScale, s.Steps),
	}
	return s
}
