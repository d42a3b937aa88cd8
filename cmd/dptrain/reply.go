package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/dptrain/dptrain/internal/rundir"
)

// reply turns what a network answers to an example into the cells of a line: texts and
// float32s.
type reply struct {
	columns []string
	of      func(cells []any, output []float32) ([]any, error)
}

var errNotFinite = errors.New("what the model answers is not finite: the example has numbers far beyond those that it was trained on, or its training diverged")

// reply is the model's: a class, or a number.
func newReply(b rundir.Manifest, scores bool) (reply, error) {
	if b.Targets > 0 {
		return newNumberReply(b, scores)
	}
	if b.Schema.PredictNext || len(b.Labels) > 0 {
		return reply{}, errors.New("the model answers every step of an example, as one of the language does, and predict writes one answer an example; dptrain export DIR --format onnx writes it for programs that want all of them")
	}
	names := b.ClassNames
	columns := []string{"class", "probability"}
	if scores {
		for _, name := range names {
			columns = append(columns, "probability:"+name)
		}
	}
	shares := make([]float64, len(names))
	return reply{columns, func(cells []any, output []float32) ([]any, error) {
		best, err := softmax(shares, output)
		if err != nil {
			return nil, err
		}
		cells = append(cells, names[best], float32(shares[best]))
		if scores {
			for _, p := range shares {
				cells = append(cells, float32(p))
			}
		}
		return cells, nil
	}}, nil
}

// number is the reply of a model that predicts one, in its own units.
func newNumberReply(b rundir.Manifest, scores bool) (reply, error) {
	name := b.Schema.Target
	bounds, bounded := b.Schema.Bounds[name]
	switch {
	case scores:
		return reply{}, errors.New("the model predicts a number, which has no probability: leave out --scores")
	case b.Targets != 1 || !bounded:
		return reply{}, fmt.Errorf("model.json tells of %d numbers to predict and bounds of none of them", b.Targets)
	}
	return reply{[]string{name}, func(cells []any, output []float32) ([]any, error) {
		v := float32(bounds.Unscale(float64(output[0])))
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, errNotFinite
		}
		return append(cells, v), nil
	}}, nil
}

// softmax gives each class its probability, and the first of the most probable ones.
func softmax(shares []float64, scores []float32) (best int, err error) {
	if len(scores) != len(shares) {
		return 0, fmt.Errorf("the model answers with %d scores, and has %d classes", len(scores), len(shares))
	}
	for i, v := range scores {
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return 0, errNotFinite
		}
		if v > scores[best] {
			best = i
		}
	}
	sum := 0.0
	for i, v := range scores {
		shares[i] = math.Exp(float64(v) - float64(scores[best]))
		sum += shares[i]
	}
	for i := range shares {
		shares[i] /= sum
	}
	return best, nil
}
