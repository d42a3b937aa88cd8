package inference

import (
	"errors"
	"fmt"
	"math"

	"github.com/dptrain/dptrain/internal/quality"
)

// Prediction is the answer for one example: a class, or a number.
type Prediction struct {
	Class         string    // the most probable class; the first of several
	Probability   float64   // of Class
	Probabilities []float64 // of all classes, in the order of Model.Classes; nil for a number

	Value float64 // the predicted number, in the units of the target; 0 for a class
}

// ErrNotFinite is the error for an output that is not finite.
var ErrNotFinite = errors.New("the model's output is not finite: the example has numbers far outside the range of the training data, or the training diverged")

// newAnswer returns how the output of a network becomes an answer.
func newAnswer(n Network) (func(output []float32) (Prediction, error), error) {
	schema := n.Options.Schema
	bounds, bounded := schema.Bounds[schema.Target]
	switch {
	case n.Targets > 1 || n.Targets == 1 && !bounded:
		return nil, fmt.Errorf("the model has %d targets and no bounds of %q: it needs one target with bounds", n.Targets, schema.Target)
	case n.Targets == 1:
		return func(output []float32) (Prediction, error) {
			v := bounds.Unscale(float64(output[0]))
			if f := float64(float32(v)); math.IsNaN(f) || math.IsInf(f, 0) {
				return Prediction{}, ErrNotFinite
			}
			return Prediction{Value: v}, nil
		}, nil
	case schema.PredictNext || len(n.Labels) > 0:
		return nil, errors.New("the model predicts every step of an example, and a prediction is one answer for each example: use dptrain export DIR with the format onnx to get all steps in another program")
	}
	return func(output []float32) (Prediction, error) {
		if len(output) != len(n.Classes) {
			return Prediction{}, fmt.Errorf("the model has %d outputs for %d classes", len(output), len(n.Classes))
		}
		probabilities := make([]float64, len(output))
		best, finite := quality.Softmax(probabilities, output)
		if !finite {
			return Prediction{}, ErrNotFinite
		}
		return Prediction{Class: n.Classes[best], Probability: probabilities[best], Probabilities: probabilities}, nil
	}, nil
}
