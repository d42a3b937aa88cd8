// Package quality measures how good predictions are on public test data, beyond their accuracy: the
// result of a constant prediction, calibration, ROC curves and residuals.
//
// Everything here is a function of the test data and of released weights.
package quality

import (
	"math"
	"strconv"
)

// Measures are the measures of a run's final weights, as run.json contains them.
type Measures struct {
	Baseline    *float64   `json:"baseline,omitempty"` // accuracy of the most frequent class of the test data, or root mean squared error of their mean
	Calibration []Bin      `json:"calibration,omitempty"`
	ROC         *ROC       `json:"roc,omitempty"`
	Residuals   *Residuals `json:"residuals,omitempty"`
}

// Collector collects the predictions for the examples of a set, in order.
type Collector interface {
	// Add adds the expected label or target of an example and the network's output for it.
	Add(expected, output []float32)
	// Measures returns the measures of what was added.
	Measures() *Measures
}

// maxExamples bounds the examples that a curve is computed from.
const maxExamples = 20_000

// sample chooses the examples with equal distances of which there are at most maxExamples.
type sample struct{ next, stride int }

func newSample(examples int) sample {
	return sample{stride: max(1, (examples+maxExamples-1)/maxExamples)}
}

// take reports whether the next example is one of the sample.
func (s *sample) take() bool {
	s.next++
	return (s.next-1)%s.stride == 0
}

// rounded keeps the digits that a plot can show.
func rounded(x float64, digits int) float64 {
	y, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', digits, 64), 64)
	return y
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
