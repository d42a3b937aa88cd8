package simulation

import (
	"math"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/drawdiscard"
	"github.com/dptrain/dptrain/models"
)

// score is how good a model is.
type score struct {
	accuracy float64 // on test examples: the share whose class has the highest probability; of a target 0
	rmse     float64 // on test examples, of a target or a count, on the scale of contributions
	loss     float64 // mean, on the training examples of lossRecords
}

// scorer computes scores in one goroutine.
type scorer struct {
	*task
	glm       *drawdiscard.GLM  // nil: a network
	evaluator *engine.Evaluator // of a network
	test      data.Set          // of a network
	train     data.Set
	means     []float32
}

func (t *task) newScorer() (*scorer, error) {
	s := &scorer{task: t}
	var err error
	if t.spec.IsGLM() {
		s.glm, err = drawdiscard.NewGLM(drawdiscard.Family(t.Model), t.spec.Inputs.Size(), t.spec.Classes)
		return s, err
	}
	build, err := models.Parse(t.Model, t.example(), 1)
	if err != nil {
		return nil, err
	}
	if s.test, err = t.setOf(t.testRecords); err != nil {
		return nil, err
	}
	if s.train, err = t.setOf(t.lossRecords); err != nil {
		return nil, err
	}
	s.evaluator, err = engine.NewEvaluator(build, engine.DeviceOptions{Name: "cpu", Threads: 1})
	return s, err
}

// example describes an example to package models.
func (t *task) example() models.DataSpec {
	d := models.DataSpec{Shape: t.spec.Inputs, Vocabulary: t.spec.Vocabulary, Classes: t.spec.Classes}
	if t.spec.Classes == 0 {
		d.Targets = 1
	}
	return d
}

func (s *scorer) close() {
	if s.evaluator != nil {
		s.evaluator.Close()
	}
}

// compute scores a model.
func (s *scorer) compute(w []float32) (score, error) {
	if s.glm == nil {
		return s.computeNetwork(w)
	}
	test, err := s.glm.Evaluate(w, s.testRecords)
	if err != nil {
		return score{}, err
	}
	train, err := s.glm.Evaluate(w, s.lossRecords)
	return score{test.Accuracy, test.RMSE, train.Loss}, err
}

func (s *scorer) computeNetwork(w []float32) (score, error) {
	tensors, err := s.spec.Tensors()
	if err != nil {
		return score{}, err
	}
	parts := make([][]float32, len(tensors))
	for i, tensor := range tensors {
		size := drawdiscard.CountWeights([]drawdiscard.TensorShape{tensor}, math.MaxInt32)
		parts[i], w = w[:size], w[size:]
	}
	test, err := s.evaluator.Score(parts, s.test)
	if err != nil {
		return score{}, err
	}
	train, err := s.evaluator.Score(parts, s.train)
	return score{test.Accuracy, test.RMSE, train.Loss}, err
}
