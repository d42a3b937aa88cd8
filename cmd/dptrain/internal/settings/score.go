package settings

import (
	"errors"
	"math"

	"github.com/dptrain/dptrain/engine"
)

// EvaluateTest evaluates parameters on the test data. It fails if the network gives neither
// an accuracy nor a prediction error, by which settings could be compared.
func (s *Spec) EvaluateTest(parameters []engine.Parameter) (engine.Evaluation, error) {
	e, err := engine.NewEvaluator(s.Config.Network, s.Config.Device)
	if err != nil {
		return engine.Evaluation{}, err
	}
	defer e.Close()
	result, err := e.Score(engine.Values(parameters), s.Task.Test)
	if err == nil && result.Labels == 0 && result.Targets == 0 {
		err = errors.New("the network gives no scores for a label, so settings cannot be compared by their accuracy; use another --model")
	}
	return result, err
}

// Score returns the value by which settings are compared, higher is better: the accuracy,
// or the negative RMSE. NaN scores below every number.
func Score(e *engine.Evaluation) float64 {
	switch {
	case e.Targets == 0:
		return e.Accuracy
	case math.IsNaN(e.RMSE):
		return -math.MaxFloat64
	}
	return max(-e.RMSE, -math.MaxFloat64)
}
