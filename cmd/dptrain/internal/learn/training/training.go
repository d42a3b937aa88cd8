// Package training has the operations of the guide that run the engine: on digits that the program
// draws, in one thread, with a ledger in memory.
package training

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/learn/operation"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/models"
	"github.com/dptrain/dptrain/perexample"
)

// Operations are those of this package.
var Operations = operation.Table{
	"train":     operation.Whole(train),
	"members":   operation.Whole(members),
	"descent":   operation.Whole(descent),
	"gradients": operation.Whole(gradients),
	"attack":    operation.Divided(attack, splitAttack, mergeAttacks),
}

var oneThread = engine.DeviceOptions{Name: "cpu", Threads: 1}

// first returns the first n examples of a set.
func first(s data.Set, n int) (data.Set, error) { return subset(s, 0, n) }

func subset(s data.Set, from, to int) (data.Set, error) {
	if from < 0 || to > s.Len() || from >= to {
		return nil, fmt.Errorf("pictures %d to %d: there are %d", from, to, s.Len())
	}
	rows := make([]int, to-from)
	for i := range rows {
		rows[i] = from + i
	}
	return data.Subset(s, rows)
}

// digitNetwork builds a model for the pictures of digits.
func digitNetwork(model string, s data.Set) (perexample.Build, error) {
	return models.Parse(model, models.DataSpec{Shape: s.Columns()[0].Shape, Classes: 10}, 1)
}

type trainRequest struct {
	Records int     `json:"records"`
	Lot     int     `json:"lot"`
	Steps   int     `json:"steps"`
	Epsilon float64 `json:"epsilon"` // 0: Noise is given
	Noise   float64 `json:"noise"`
	Delta   float64 `json:"delta"`
	Clip    float64 `json:"clip"`
	Rate    float64 `json:"rate"` // learning rate
}

// trainProgress is what is public after some lots. The test pictures are public.
type trainProgress struct {
	Lot      int     `json:"lot"`
	Lots     int     `json:"lots"`
	Epsilon  float64 `json:"epsilon"` // of the lots so far
	Accuracy float64 `json:"accuracy"`
	Loss     float64 `json:"loss"`
}

type trainAnswer struct {
	Epsilon  float64 `json:"epsilon"` // of the ledger, by the default accountant
	Delta    float64 `json:"delta"`
	Noise    float64 `json:"noise"`
	Steps    int     `json:"steps"`
	Accuracy float64 `json:"accuracy"` // on 5,000 public test pictures
	Loss     float64 `json:"loss"`
	Ledger   string  `json:"ledger"`
}

const progressReports = 24

var errNoise = errors.New("give an ε or a noise multiplier above 0")

// train trains a linear model of edges with the engine, as dptrain train does.
func train(q trainRequest, progress func(any)) (a trainAnswer, err error) {
	digits := data.DigitEdges()
	set, err := first(digits.Train, q.Records)
	if err != nil {
		return a, err
	}
	build, err := digitNetwork("logistic", set)
	if err != nil {
		return a, err
	}
	var text bytes.Buffer
	c := engine.Config{
		Network: build, Train: set, Sampling: engine.Sampling{Lot: q.Lot}, Steps: q.Steps,
		Mechanism:    engine.Mechanism{Clipping: clip.Flat(clip.Constant(q.Clip), nil), NoiseMultiplier: q.Noise},
		Budget:       engine.Budget{Delta: q.Delta},
		Optimization: momentum(q.Rate),
		Device:       oneThread,
		Files:        engine.Files{LedgerWriter: &text},
	}
	if q.Epsilon > 0 {
		if c.Mechanism.NoiseMultiplier, err = c.CalibrateNoise(q.Epsilon); err != nil {
			return a, err
		}
	} else if !(q.Noise > 0) {
		return a, errNoise
	}
	r, err := engine.New(c)
	if err != nil {
		return a, err
	}
	defer r.Close()
	evaluator, err := engine.NewEvaluator(build, oneThread)
	if err != nil {
		return a, err
	}
	defer evaluator.Close()
	score := func() (engine.Evaluation, error) {
		weights, err := r.BorrowParameters()
		if err != nil {
			return engine.Evaluation{}, err
		}
		return evaluator.Score(engine.Values(weights), digits.Test)
	}
	planned := c.PlannedHistory()
	meter, err := accountant.NewMeter(ledger.History{Header: planned.Header}, planned.Lots[0].Lot, q.Delta, "")
	if err != nil {
		return a, err
	}
	every := max(1, q.Steps/progressReports)
	err = r.Train(context.Background(), func(p *engine.Progress) error {
		if p.Lot%every != 0 && p.Lot != p.Lots {
			return nil
		}
		spent, err := meter.Epsilon(p.Lot)
		if err != nil {
			return err
		}
		e, err := score()
		progress(trainProgress{Lot: p.Lot, Lots: p.Lots, Epsilon: spent, Accuracy: e.Accuracy, Loss: e.Loss})
		return err
	})
	if err != nil {
		return a, err
	}
	e, err := score()
	if err != nil {
		return a, err
	}
	if err := r.Close(); err != nil {
		return a, err
	}
	g, err := r.Spent("")
	return trainAnswer{Epsilon: g.Epsilon, Delta: g.Delta, Noise: c.Mechanism.NoiseMultiplier, Steps: r.StepsDone(),
		Accuracy: e.Accuracy, Loss: e.Loss, Ledger: text.String()}, err
}

func momentum(rate float64) engine.Optimization {
	return engine.Optimization{Optimizer: optim.Optimizer{Kind: optim.KindMomentum, Momentum: 0.9}, Schedule: optim.Schedule{Base: rate}}
}

// plainSGD is a run of SGD without clipping and noise, without its sampling and its number of lots.
func plainSGD(build perexample.Build, set data.Set, rate float64) engine.Config {
	return engine.Config{Network: build, Train: set, Mechanism: engine.Mechanism{NonPrivate: true},
		Optimization: engine.Optimization{Schedule: optim.Schedule{Base: rate}}, Device: oneThread}
}

// fit trains a network by SGD without privacy and returns its weights.
func fit(build perexample.Build, set data.Set, lot, steps int) ([][]float32, error) {
	c := plainSGD(build, set, 0.5)
	c.Sampling, c.Steps = engine.Sampling{Lot: lot}, steps
	r, err := engine.New(c)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := r.Train(context.Background(), nil); err != nil {
		return nil, err
	}
	p, err := r.Parameters()
	return engine.Values(p), err
}

func norm(v []float32) float64 { return math.Sqrt(dot(v, v)) }

func dot(v, w []float32) (sum float64) {
	for i := range v {
		sum += float64(v[i]) * float64(w[i])
	}
	return sum
}
