package quality

import "math"

// Residuals are predictions of a regression next to the true values, in the units of the target.
type Residuals struct {
	Examples int          `json:"examples"` // of the test data; the points are some of them, at equal distances
	Points   [][2]float64 `json:"points"`   // prediction and true value
}

// maxResiduals bounds the points of a plot.
const maxResiduals = 400

// Numbers collects the predicted numbers of examples with one target each.
type Numbers struct {
	unscale       func(float64) float64
	examples      int
	stride        int
	mean, squares float64 // of the targets: squares is the sum of squared differences from the mean
	points        [][2]float64
	invalid       bool // a prediction was not finite
}

// NewNumbers returns a collector for a number of examples; unscale converts an output to the units of
// the target.
func NewNumbers(examples int, unscale func(float64) float64) *Numbers {
	return &Numbers{unscale: unscale, stride: max(1, (examples+maxResiduals-1)/maxResiduals)}
}

// Add adds the target of an example and the network's output for it, both scaled.
func (n *Numbers) Add(expected, output []float32) {
	if len(expected) != 1 || len(output) != 1 {
		n.invalid = true
		return
	}
	truth, prediction := n.unscale(float64(expected[0])), n.unscale(float64(output[0]))
	if !isFinite(prediction) {
		n.invalid = true
	}
	if n.examples%n.stride == 0 && !n.invalid {
		n.points = append(n.points, [2]float64{rounded(prediction, 5), rounded(truth, 5)})
	}
	n.examples++ // Welford's recurrence
	difference := truth - n.mean
	n.mean += difference / float64(n.examples)
	n.squares += difference * (truth - n.mean)
}

// Measures returns the measures; only the baseline if a prediction was not finite.
func (n *Numbers) Measures() *Measures {
	if n.examples == 0 {
		return nil
	}
	baseline := rounded(math.Sqrt(n.squares/float64(n.examples)), 6) // targets are read as float32
	m := &Measures{Baseline: &baseline}
	if !n.invalid {
		m.Residuals = &Residuals{n.examples, n.points}
	}
	return m
}
