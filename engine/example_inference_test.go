package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/engine/weights"
)

// One program trains and writes weights, and another one computes predictions with them.
func Example_inference() {
	dir, err := os.MkdirTemp("", "dptrain")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	run, err := engine.New(engine.Config{
		Network:      ringNetwork,
		Train:        ring(2000, 1),
		Sampling:     engine.Sampling{Lot: 100},
		Steps:        200,
		Mechanism:    engine.Mechanism{NoiseMultiplier: 1},
		Optimization: engine.Optimization{Optimizer: optim.Optimizer{Kind: optim.KindMomentum, Momentum: 0.9}, Schedule: optim.Schedule{Base: 0.3}},
		Files:        engine.Files{Ledger: filepath.Join(dir, "ledger.jsonl")},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer run.Close()
	if err := run.Train(context.Background(), nil); err != nil {
		log.Fatal(err)
	}
	trained, err := run.Parameters()
	if err != nil {
		log.Fatal(err)
	}
	var file bytes.Buffer // or an *os.File
	if err := weights.Write(&file, trained); err != nil {
		log.Fatal(err)
	}

	// The other program loads the weights.
	network, _, err := weights.Load(ringNetwork, bytes.NewReader(file.Bytes()))
	if err != nil {
		log.Fatal(err)
	}
	// The set has no targets.
	points, err := data.NewTable([]data.Column{{Name: "x", Shape: []int{2}}}, [][]float32{{0, 0, 0.9, 0.9}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	evaluator, err := engine.NewEvaluator(network, engine.DeviceOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer evaluator.Close()
	outputs, err := evaluator.Predictions(evaluator.Weights(), points)
	if err != nil {
		log.Fatal(err)
	}
	for _, output := range outputs {
		fmt.Println("in the ring:", output[0] > 0)
	}
	// Output:
	// in the ring: true
	// in the ring: false
}
