package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/optim"
)

// Weights that one program trained and wrote down, by which another one answers.
func Example_inference() {
	dir, err := os.MkdirTemp("", "dptrain")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	run, err := engine.New(engine.Config{
		Network: ringNetwork, Train: ring(2000, 1), Lot: 100, Steps: 200, Noise: 1,
		Optimizer: optim.Optimizer{Kind: optim.KindMomentum, Momentum: 0.9},
		Schedule:  optim.Schedule{Base: 0.3}, Ledger: filepath.Join(dir, "ledger.jsonl"),
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
	written, err := json.Marshal(trained)
	if err != nil {
		log.Fatal(err)
	}

	// The other program.
	var parameters []engine.Parameter
	if err := json.Unmarshal(written, &parameters); err != nil {
		log.Fatal(err)
	}
	var weights [][]float32
	for _, p := range parameters {
		weights = append(weights, p.Values)
	}
	// Nobody knows the targets yet: any numbers will do.
	points, err := data.NewTable(ring(1, 1).Columns(), [][]float32{{0, 0, 0.9, 0.9}, {0, 0}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	evaluator, err := engine.NewEvaluator(ringNetwork, engine.Place{})
	if err != nil {
		log.Fatal(err)
	}
	defer evaluator.Close()
	answers, err := evaluator.Answers(weights, points)
	if err != nil {
		log.Fatal(err)
	}
	for _, answer := range answers {
		fmt.Println("in the ring:", answer[0] > 0)
	}
	// Output:
	// in the ring: true
	// in the ring: false
}
