package engine_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/optim"
)

// signMomentum is an optimizer of a user: it moves each weight by the learning rate, against the
// sign of an exponential moving average of released gradients (Bernstein et al. 2018).
type signMomentum struct{ Decay float64 }

func (signMomentum) Slots() int { return 1 }

func (s signMomentum) Check() error {
	if !(s.Decay >= 0 && s.Decay < 1) {
		return fmt.Errorf("a decay of %v: give a number from 0 to less than 1", s.Decay)
	}
	return nil
}

func (s signMomentum) Describe() string { return fmt.Sprintf("sign momentum %v", s.Decay) }

func (s signMomentum) Update(step optim.Step, weights, gradient []float32, state [][]float32) error {
	keep, rate := float32(s.Decay), float32(step.Rate)
	mean := state[0]
	for i, g := range gradient {
		mean[i] = keep*mean[i] + (1-keep)*g
		switch {
		case mean[i] > 0:
			weights[i] -= rate
		case mean[i] < 0:
			weights[i] += rate
		}
	}
	return nil
}

// An optimizer of a user. It gets released gradients only, so it costs no privacy, on every
// device. Its state is part of checkpoints.
func Example_optimizer() {
	dir, err := os.MkdirTemp("", "dptrain")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	run, err := engine.New(engine.Config{
		Network:   ringNetwork,
		Train:     ring(2000, 1),
		Sampling:  engine.Sampling{Lot: 200},
		Steps:     150,
		Mechanism: engine.Mechanism{NoiseMultiplier: 1},
		Optimization: engine.Optimization{
			Optimizer: signMomentum{Decay: 0.8},
			Schedule:  optim.Schedule{Base: 0.03, Shape: optim.ShapeCosine},
		},
		Files: engine.Files{Ledger: filepath.Join(dir, "ledger.jsonl"), CheckpointFolder: filepath.Join(dir, "checkpoint")},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer run.Close()
	if err := run.Train(context.Background(), nil); err != nil {
		log.Fatal(err)
	}
	weights, err := run.Parameters()
	if err != nil {
		log.Fatal(err)
	}
	evaluator, err := engine.NewEvaluator(ringNetwork, engine.DeviceOptions{Name: "cpu"})
	if err != nil {
		log.Fatal(err)
	}
	defer evaluator.Close()
	score, err := evaluator.Score(engine.Values(weights), ring(500, 2))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("learned the ring:", score.Loss < 0.45) // guessing has a loss of log 2
	// Output: learned the ring: true
}
