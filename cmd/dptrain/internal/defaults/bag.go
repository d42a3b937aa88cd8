package defaults

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// The constants of the rule for bow. docs/defaults.md has their evidence.
const (
	bowNoise    = 0.55    // deviation of the noise in the difference of two outputs, for two classes
	bowStep     = 0.1     // 1 - the momentum, 0.9
	bowRate     = 60      // largest rate of the optimizer without momentum
	fewestLots  = 100     // lots
	mostLots    = 400     // lots
	largestBow  = 1 << 16 // records of a lot
	targetNoise = 0.12    // deviation of the noise in the output of a regression
	bowTarget   = 1       // C of a regression
	targetRate  = 15      // largest rate without momentum of a regression: its loss has a larger curvature
)

// ForBow returns the settings for a linear function of a set of words or n-grams: a vector of norm 1.
//
// With T lots of all n records and the rate η, an output has noise of η·T·C/(μ·n), for every T. With
// momentum, a feature that all texts have does not make the updates diverge.
func ForBow(f Facts, fixed Fixed) Settings {
	s := Settings{Optimizer: "momentum", Clip: bowTarget}
	noise, largest := targetNoise, float64(targetRate)
	if f.Classes > 0 {
		classes := float64(f.Classes)
		s.Clip = math.Sqrt(1 - 1/classes) // the norm of the first gradient
		noise, largest = bowNoise/math.Sqrt(classes), bowRate
	}
	if fixed.Clip > 0 {
		s.Clip = fixed.Clip
	}
	reach := noise * PrivacyParameter(f.Epsilon, f.Delta) * float64(f.Records) / s.Clip
	steps := int(min(max(math.Ceil(reach/largest), fewestLots), mostLots))
	s.Lot, s.Steps = fitLots(f.Records, max(1, min(f.Records, largestBow)), steps, fixed)
	s.LearningRate = number.TwoDigits(bowStep * min(reach/float64(s.Steps), largest))
	s.Clip = number.TwoDigits(s.Clip)
	s.Why = Reasons{
		Lot:          whyLot(f.Records, s.Lot, fmt.Sprintf("at most %d records", largestBow)),
		Steps:        whySteps(fixed, fmt.Sprintf("reach %s in steps of at most %g, from %d to %d lots", round(reach), largest, fewestLots, mostLots)),
		Clip:         "norm of the first gradient",
		Optimizer:    "all weights have equal noise, so plain steps are longest where the signal is",
		LearningRate: fmt.Sprintf("%g of reach/lots; reach %s grows with μ·n", bowStep, round(reach)),
	}
	if f.Classes == 0 {
		s.Why.Clip = "bounds errors of words and bias"
	}
	return s
}

const (
	bagSteps   = 200
	bagLots    = 4 // lots have a quarter of the records
	largestBag = 1 << 13
	bagScale   = 1 // S: most rows of a table of embeddings have no gradient, so their noise is not in the output
)

// ForBag returns the settings for a network that reads the mean of the embeddings of a text's words.
func ForBag(records int, fixed Fixed) Settings {
	s := Settings{Optimizer: "adam", Average: tableAverage, Clip: 1}
	s.Lot, s.Steps = fitLots(records, max(1, min(records/bagLots, largestBag)), bagSteps, fixed)
	s.LearningRate = number.TwoDigits(bagScale / math.Sqrt(float64(s.Steps)))
	s.Why = Reasons{
		Lot:          whyLot(records, s.Lot, fmt.Sprintf("a quarter of the records, at most %d", largestBag)),
		Steps:        whySteps(fixed, "by measurements on text"),
		Clip:         "by measurements on text",
		Optimizer:    "its steps do not depend on the clip bound",
		LearningRate: whyRate(bagScale, s.Steps),
		Average:      whyAverage(s.Average),
	}
	return s
}
