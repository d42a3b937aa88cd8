// Package prediction converts the outputs of a network to rows of a table and writes the
// rows as CSV or as JSON lines.
package prediction

import (
	"errors"
	"fmt"
	"math"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/internal/quality"
)

// Format converts the output of a network for one example to the cells of a row. A cell is a
// string or a float32.
type Format struct {
	Columns []string
	// AppendCells appends the cells of one example.
	AppendCells func(cells []any, output []float32) ([]any, error)
}

// ProbabilityPrefix is the beginning of the name of a column with the probability of a class.
const ProbabilityPrefix = "probability:"

// ErrNotFinite is the error for an output that is not finite.
var ErrNotFinite = errors.New("the model's output is not finite: the example has numbers far outside the range of the training data, or the training diverged")

// NewFormat returns the format of a model: a class or a number. allProbabilities adds a
// column for the probability of each class.
func NewFormat(m rundir.Manifest, allProbabilities bool) (Format, error) {
	switch {
	case m.Targets > 0:
		return newNumberFormat(m, allProbabilities)
	case m.Schema.PredictNext || len(m.Labels) > 0:
		return Format{}, errors.New("the model predicts every step of an example, and predict writes one prediction for each example: use dptrain export DIR --format onnx to get all steps in another program")
	}
	return newClassFormat(m.ClassNames, allProbabilities), nil
}

// newClassFormat writes the most probable class and its probability.
func newClassFormat(names []string, allProbabilities bool) Format {
	columns := []string{"class", "probability"}
	if allProbabilities {
		for _, name := range names {
			columns = append(columns, ProbabilityPrefix+name)
		}
	}
	probabilities := make([]float64, len(names))
	return Format{columns, func(cells []any, output []float32) ([]any, error) {
		best, err := softmax(probabilities, output)
		if err != nil {
			return nil, err
		}
		cells = append(cells, names[best], float32(probabilities[best]))
		if allProbabilities {
			for _, p := range probabilities {
				cells = append(cells, float32(p))
			}
		}
		return cells, nil
	}}
}

// newNumberFormat writes the predicted number in the units of the target.
func newNumberFormat(m rundir.Manifest, allProbabilities bool) (Format, error) {
	name := m.Schema.Target
	bounds, bounded := m.Schema.Bounds[name]
	switch {
	case allProbabilities:
		return Format{}, errors.New("the model predicts a number, which has no probability: leave out --scores")
	case m.Targets != 1 || !bounded:
		return Format{}, fmt.Errorf("model.json has %d targets and no bounds of %q: it needs one target with bounds", m.Targets, name)
	}
	return Format{[]string{name}, func(cells []any, output []float32) ([]any, error) {
		v := float32(bounds.Unscale(float64(output[0])))
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, ErrNotFinite
		}
		return append(cells, v), nil
	}}, nil
}

// softmax computes the probability of each class and returns the first of the most probable
// classes.
func softmax(probabilities []float64, scores []float32) (best int, err error) {
	if len(scores) != len(probabilities) {
		return 0, fmt.Errorf("the model has %d outputs for %d classes", len(scores), len(probabilities))
	}
	best, finite := quality.Softmax(probabilities, scores)
	if !finite {
		return 0, ErrNotFinite
	}
	return best, nil
}
