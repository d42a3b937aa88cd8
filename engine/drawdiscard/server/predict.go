package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/drawdiscard"
	"github.com/dptrain/dptrain/internal/quality"
	"github.com/dptrain/dptrain/models"
)

const (
	maxPredictBody    = 1 << 20
	maxPredictRecords = 1000
	// maxWaiting predictions of a model wait for the one that computes. A prediction can cost more than its
	// bytes pay for: those of a model together take one processor, their JSON included.
	maxWaiting = 4
)

// The models that answer a prediction: the average of the instances, or each instance, whose predictions
// are averaged (Pihur et al. 2018, algorithm 2).
const (
	byAverage   = "average"
	byInstances = "instances"
)

// predictRequest is the body of a prediction. Features are those of contributions: in [0, 1], or indices.
type predictRequest struct {
	Features [][]float32 `json:"features"`
	By       string      `json:"by"` // "": byAverage
}

type predictResponse struct {
	Model       string       `json:"model"`
	Updates     uint64       `json:"updates"`
	By          string       `json:"by"`
	Predictions []prediction `json:"predictions"`
}

// prediction is the most probable class and the probabilities of all classes, or the target on the scale
// of contributions.
type prediction struct {
	Class         *int      `json:"class,omitempty"`
	Probabilities []float64 `json:"probabilities,omitempty"`
	Target        *float64  `json:"target,omitempty"`
}

// predictor computes predictions of one model, one request at a time.
type predictor struct {
	spec      drawdiscard.Spec
	mu        sync.Mutex
	waiting   chan struct{}
	glm       *drawdiscard.GLM
	evaluator *engine.Evaluator // of a network; nil before the first request
}

func newPredictor(spec drawdiscard.Spec) *predictor {
	return &predictor{spec: spec, waiting: make(chan struct{}, 1+maxWaiting)}
}

// enter waits until no other prediction is computed, and reports false if too many wait. The caller then
// calls leave.
func (p *predictor) enter() bool {
	select {
	case p.waiting <- struct{}{}:
		p.mu.Lock()
		return true
	default:
		return false
	}
}

func (p *predictor) leave() {
	p.mu.Unlock()
	<-p.waiting
}

// open makes the model for the first request.
func (p *predictor) open() (err error) {
	switch {
	case p.glm != nil || p.evaluator != nil:
		return nil
	case p.spec.IsGLM():
		p.glm, err = drawdiscard.NewGLM(drawdiscard.Family(p.spec.Model), p.spec.Inputs.Size(), p.spec.Classes)
		return err
	}
	example := models.DataSpec{Shape: p.spec.Inputs, Vocabulary: p.spec.Vocabulary, Classes: p.spec.Classes}
	if p.spec.Classes == 0 {
		example.Targets = 1
	}
	build, err := models.Parse(p.spec.Model, example, 1)
	if err != nil {
		return err
	}
	p.evaluator, err = engine.NewEvaluator(build, engine.DeviceOptions{Name: "cpu", Threads: 1})
	return err
}

func (p *predictor) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.evaluator != nil {
		p.evaluator.Close()
		p.evaluator = nil
	}
}

// predict computes the mean prediction of some models for n records: the probability of each class, or
// one target. The caller has entered.
func (p *predictor) predict(all [][]float32, features []float32, n int) ([][]float64, error) {
	if err := p.open(); err != nil {
		return nil, err
	}
	sums := make([][]float64, n)
	for i := range sums {
		sums[i] = make([]float64, max(1, p.spec.Classes))
	}
	for _, weights := range all {
		add := func(i int, values ...float64) {
			for c, v := range values {
				sums[i][c] += v / float64(len(all))
			}
		}
		if err := p.add(weights, features, n, add); err != nil {
			return nil, err
		}
	}
	return sums, nil
}

// add computes the predictions of one model.
func (p *predictor) add(weights, features []float32, n int, add func(i int, values ...float64)) error {
	if p.glm == nil {
		return p.addNetwork(weights, features, n, add)
	}
	outputs := p.glm.Weights() / (p.spec.Inputs.Size() + 1)
	means := make([]float32, n*outputs)
	p.glm.Predict(means, weights, features)
	values := make([]float64, outputs)
	for i := range n {
		for o := range values {
			values[o] = float64(means[i*outputs+o])
		}
		if drawdiscard.Family(p.spec.Model) == drawdiscard.Logistic {
			add(i, 1-values[0], values[0])
		} else {
			add(i, values...)
		}
	}
	return nil
}

func (p *predictor) addNetwork(weights, features []float32, n int, add func(i int, values ...float64)) error {
	column := data.Column{Name: "features", Kind: data.Feature, Shape: p.spec.Inputs}
	if p.spec.Vocabulary > 0 {
		column.Kind, column.Classes = data.Index, p.spec.Vocabulary
	}
	set, err := data.NewTable([]data.Column{column}, [][]float32{features}, nil)
	if err != nil {
		return err
	}
	tensors, err := p.spec.Tensors()
	if err != nil {
		return err
	}
	parts := make([][]float32, len(tensors))
	rest := weights
	for i, t := range tensors {
		size := drawdiscard.CountWeights([]drawdiscard.TensorShape{t}, len(rest))
		parts[i], rest = rest[:size], rest[size:]
	}
	probabilities := make([]float64, p.spec.Classes)
	return p.evaluator.Predict(parts, set, func(i int, output []float32) error {
		if p.spec.Classes == 0 {
			add(i, float64(output[0]))
			return nil
		}
		quality.Softmax(probabilities, output)
		add(i, probabilities...)
		return nil
	})
}

// predict answers a prediction.
func (s *Server) predict(w http.ResponseWriter, r *http.Request, m *Model) {
	body, err := s.readLimited(nil, w, r, maxPredictBody, 0)
	if err != nil {
		s.reject(w, m, bodyProblem(err), fmt.Sprintf("the body of a prediction is JSON of at most %d bytes, and must arrive in time", maxPredictBody))
		return
	}
	if !m.predictor.enter() {
		s.reject(w, m, &problemBusy, "the server computes other predictions; try again later")
		return
	}
	defer m.predictor.leave()
	response, problem, detail := m.predict(body)
	if problem != nil {
		s.reject(w, m, problem, detail)
		return
	}
	writeJSON(w, response)
}

// predict answers the body of a prediction. The caller has entered the predictor.
func (m *Model) predict(body []byte) (response predictResponse, p *problem, detail string) {
	var request predictRequest
	in := json.NewDecoder(bytes.NewReader(body))
	in.DisallowUnknownFields()
	if err := in.Decode(&request); err != nil {
		return response, &problemMalformed, `send JSON such as {"features": [[0.5, 1]]}`
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return response, &problemMalformed, "something follows the JSON object"
	}
	features, err := m.checkFeatures(&request)
	if err != nil {
		return response, &problemFeatures, err.Error()
	}
	response.Model, response.By = m.description.Name, request.By
	var all [][]float32
	if request.By == byInstances {
		response.Updates = m.updates.Load()
		for i := range m.instances.Count() {
			all = append(all, m.instances.At(i).Weights)
		}
	} else {
		a := m.average()
		response.Updates, all = a.updates, [][]float32{a.weights}
	}
	means, err := m.predictor.predict(all, features, len(request.Features))
	if err != nil {
		return response, &problemFeatures, "the model cannot predict these features"
	}
	for _, mean := range means {
		one, finite := newPrediction(mean, m.description.Classes)
		if !finite {
			return response, &problemFeatures, "a prediction is not finite"
		}
		response.Predictions = append(response.Predictions, one)
	}
	return response, nil, ""
}

// newPrediction converts the probabilities of the classes, or a target. ok is false if one is not finite.
func newPrediction(mean []float64, classes int) (p prediction, ok bool) {
	best := 0
	for c, v := range mean {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return p, false
		}
		if v > mean[best] {
			best = c
		}
	}
	if classes == 0 {
		return prediction{Target: &mean[0]}, true
	}
	return prediction{Class: &best, Probabilities: mean}, true
}

// checkFeatures returns the features of all records, clipped to [0, 1] like those of contributions.
func (m *Model) checkFeatures(r *predictRequest) ([]float32, error) {
	switch r.By {
	case "":
		r.By = byAverage
	case byAverage, byInstances:
	default:
		return nil, fmt.Errorf("by is %s or %s", byAverage, byInstances)
	}
	if n := len(r.Features); n < 1 || n > maxPredictRecords {
		return nil, fmt.Errorf("send 1 to %d records", maxPredictRecords)
	}
	width, vocabulary := m.description.Inputs.Size(), m.description.Vocabulary
	var all []float32
	for i, record := range r.Features {
		if len(record) != width {
			return nil, fmt.Errorf("record %d has %d features, and the model reads %d", i, len(record), width)
		}
		for _, x := range record {
			if vocabulary > 0 && (x < 0 || x >= float32(vocabulary) || x != float32(int(x))) {
				return nil, fmt.Errorf("record %d has the index %v, and the vocabulary has %d", i, x, vocabulary)
			}
			if vocabulary == 0 {
				x = max(0, min(1, x))
			}
			all = append(all, x)
		}
	}
	return all, nil
}
