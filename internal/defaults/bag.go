package defaults

import (
	"math"

	"github.com/dptrain/dptrain/internal/number"
)

const (
	bagSteps   = 200
	bagLots    = 4 // lots have a quarter of the records
	largestBag = 1 << 13
	bagScale   = 1 // S: most rows of a table of embeddings have no gradient, so their noise is not in the output
)

// ForBag returns the settings for the mean of the embeddings of a text's words.
func ForBag(records int, fixed Fixed) Settings {
	s := Settings{Optimizer: "adam", Average: tableAverage, Clip: 1}
	s.Lot, s.Steps = fitLots(records, max(1, min(records/bagLots, largestBag)), bagSteps, fixed)
	s.LearningRate = number.TwoDigits(bagScale / math.Sqrt(float64(s.Steps)))
	return s
}
