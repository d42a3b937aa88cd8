package optim_test

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
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

// network scores the two halves of a square.
func network(batch int) (*perexample.Network, error) {
	n := layer.NewBuilder(batch, 1)
	logits := layer.Dense(n, n.Input("point", 2), "fc", 2, layer.Identity)
	n.SetLoss(layer.CrossEntropy(n, logits, n.Input("half")), logits)
	return n.Network()
}

func points() data.Set {
	r := rand.New(rand.NewPCG(1, 0))
	at, half := make([]float32, 2*2000), make([]float32, 2000)
	for i := range half {
		at[2*i], at[2*i+1] = 2*r.Float32()-1, 2*r.Float32()-1
		if at[2*i] > 0 {
			half[i] = 1
		}
	}
	set, err := data.NewTable([]data.Column{
		{Name: "point", Shape: []int{2}},
		{Name: "half", Kind: data.Label, Classes: 2},
	}, [][]float32{at, half}, nil)
	if err != nil {
		log.Fatal(err)
	}
	return set
}

// An optimizer of a user. It gets released gradients only, so it costs no privacy, on every
// device. Its state is part of checkpoints.
func Example_rule() {
	dir, err := os.MkdirTemp("", "dptrain")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	run, err := engine.New(engine.Config{
		Network:   network,
		Train:     points(),
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
	evaluator, err := engine.NewEvaluator(network, engine.DeviceOptions{Name: "cpu"})
	if err != nil {
		log.Fatal(err)
	}
	defer evaluator.Close()
	score, err := evaluator.Score(engine.Values(weights), points())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("learned:", score.Loss < 0.45) // guessing has a loss of log 2
	// Output: learned: true
}
