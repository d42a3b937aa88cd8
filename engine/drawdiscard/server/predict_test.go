package server

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/engine/drawdiscard"
)

// expectedMean is the prediction of an instance for a record, computed in float64 from the definition of
// each model: the probabilities of the classes, or the target.
func expectedMean(spec drawdiscard.Spec, w []float32, x []float64) []float64 {
	dense := func(at func(i, o int) float32, bias []float32, x []float64) []float64 {
		z := make([]float64, len(bias))
		for o := range z {
			z[o] = float64(bias[o])
			for i := range x {
				z[o] += x[i] * float64(at(i, o))
			}
		}
		return z
	}
	d := len(x)
	rows := func(outputs int) []float64 { // [out, in]
		return dense(func(i, o int) float32 { return w[o*d+i] }, w[outputs*d:], x)
	}
	softmax := func(z []float64) []float64 {
		p, sum := make([]float64, len(z)), 0.0
		for i := range z {
			p[i] = math.Exp(z[i])
			sum += p[i]
		}
		for i := range p {
			p[i] /= sum
		}
		return p
	}
	switch spec.Model {
	case "linear":
		return rows(1)
	case "poisson":
		return []float64{math.Exp(rows(1)[0])}
	case "logistic":
		return softmax([]float64{0, rows(1)[0]})
	case "multinomial":
		return softmax(rows(spec.Classes))
	}
	const hidden = 4 // mlp:4, weights [in, out]
	h := dense(func(i, o int) float32 { return w[i*hidden+o] }, w[d*hidden:][:hidden], x)
	for i := range h {
		h[i] = max(0, h[i])
	}
	w = w[(d+1)*hidden:]
	return softmax(dense(func(i, o int) float32 { return w[i*spec.Classes+o] }, w[hidden*spec.Classes:], h))
}

// The averaged model predicts, or the predictions of the instances are averaged; both are computed from
// the instances in float64.
func TestPredict_MatchesDefinition(t *testing.T) {
	records := [][]float64{{0, 1, 0.25}, {1, 0.5, 0}}
	for _, spec := range []drawdiscard.Spec{{Model: "linear"}, {Model: "poisson"}, {Model: "logistic", Classes: 2}, {Model: "multinomial", Classes: 3}, {Model: "mlp:4", Classes: 3}} {
		spec.Inputs = drawdiscard.Shape{3}
		d := described("ads", 4)
		d.Spec, d.FalseAlarms, d.Settings.Epsilon, d.Instances = spec, 0, 10, 3
		r := start(t, Options{}, d)
		m := r.models["ads"]
		mean := make([]float32, m.instances.Weights())
		m.instances.Average(mean)
		for _, by := range []string{"average", "instances"} {
			body, _ := json.Marshal(map[string]any{"features": records, "by": by})
			response, text := r.do(t, "POST", "/v1/models/ads/predict", nil, body)
			var got predictResponse
			if err := json.Unmarshal(text, &got); err != nil || response.StatusCode != 200 || len(got.Predictions) != len(records) || got.By != by || got.Model != "ads" {
				t.Fatalf("%s: %s %s", spec.Model, response.Status, text)
			}
			for i, x := range records {
				want := expectedMean(spec, mean, x)
				if by == "instances" {
					clear(want)
					for k := range m.instances.Count() {
						for c, v := range expectedMean(spec, m.instances.At(k).Weights, x) {
							want[c] += v / float64(m.instances.Count())
						}
					}
				}
				p := got.Predictions[i]
				values := p.Probabilities
				if spec.Classes == 0 {
					values = []float64{*p.Target}
				} else if values[*p.Class] != slices.Max(values) {
					t.Errorf("%s by %s: class %d of %v", spec.Model, by, *p.Class, values)
				}
				for c := range want {
					if len(values) != len(want) || math.Abs(values[c]-want[c]) > 1e-5*max(1, want[c]) {
						t.Errorf("%s by %s, record %d: %v, want %v", spec.Model, by, i, values, want)
						break
					}
				}
			}
		}
	}
}

func TestPredict_RefusesOtherBodies(t *testing.T) {
	words := described("words", 4)
	words.Spec = drawdiscard.Spec{Model: "embbag:2", Inputs: drawdiscard.Shape{2}, Vocabulary: 5, Classes: 2}
	words.Settings.Level = drawdiscard.FeatureLevel
	r := start(t, Options{}, described("ads", 3), words)
	many := `{"features": [` + strings.TrimSuffix(strings.Repeat("[0,0],", maxPredictRecords+1), ",") + "]}"
	for body, want := range map[string]problem{
		"":                                    problemMalformed,
		"[]":                                  problemMalformed,
		`{"features": [[0, 1]]} {}`:           problemMalformed,
		`{"features": [[0, 1]], "model": 1}`:  problemMalformed,
		`{"features": [[0, 1e999]]}`:          problemMalformed,
		`{"features": []}`:                    problemFeatures,
		`{"features": [[0, 1, 2]]}`:           problemFeatures,
		`{"features": [[0, 1]], "by": "all"}`: problemFeatures,
		many:                                  problemFeatures,
		strings.Repeat(" ", maxPredictBody+1): problemTooLarge,
	} {
		response, text := r.do(t, "POST", "/v1/models/ads/predict", nil, []byte(body))
		wantProblem(t, response, text, want)
	}
	for _, index := range []string{"-1", "5", "0.5"} {
		response, text := r.do(t, "POST", "/v1/models/words/predict", nil, fmt.Appendf(nil, `{"features": [[0, %s]]}`, index))
		wantProblem(t, response, text, problemFeatures)
	}
	if response, text := r.do(t, "POST", "/v1/models/words/predict", nil, []byte(`{"features": [[0, 4]]}`)); response.StatusCode != 200 {
		t.Errorf("indices: %s %s", response.Status, text)
	}
	response, text := r.do(t, "GET", "/v1/models/ads/predict", nil, nil)
	wantProblem(t, response, text, problemMethod)
}

// Only some predictions wait for the one that computes: others are refused at once.
func TestPredict_IsBusy(t *testing.T) {
	r := start(t, Options{}, described("ads", 3))
	p := r.models["ads"].predictor
	for range 1 + maxWaiting {
		p.waiting <- struct{}{}
	}
	body := []byte(`{"features": [[0, 1]]}`)
	response, text := r.do(t, "POST", "/v1/models/ads/predict", nil, body)
	wantProblem(t, response, text, problemBusy)
	for range 1 + maxWaiting {
		<-p.waiting
	}
	if response, text := r.do(t, "POST", "/v1/models/ads/predict", nil, body); response.StatusCode != 200 {
		t.Errorf("afterwards: %s %s", response.Status, text)
	}
}
