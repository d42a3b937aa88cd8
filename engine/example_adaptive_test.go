package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/optim"
)

// Noise that follows what the run released: the lots after the first have less noise, because the
// released number of records is large. A filter enforces ε = 1 for all choices, and ends the run.
func Example_adaptiveNoise() {
	dir, err := os.MkdirTemp("", "dptrain")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	run, err := engine.New(engine.Config{
		Network:    ringNetwork,
		Train:      ring(4000, 1),
		Sampling:   engine.Sampling{Lot: 400},
		Steps:      1000, // at most
		Statistics: []engine.Statistic{engine.LotSize(20)},
		Budget:     engine.Budget{StopAtEpsilon: 1, Delta: 1e-5},
		Mechanism: engine.Mechanism{
			NoiseMultiplier: 6,
			Choose: func(p *engine.Progress) engine.LotChoice {
				if p.Lot > 0 && p.Released[0].Mean[0] > 0.5 {
					return engine.LotChoice{NoiseMultiplier: 4}
				}
				return engine.LotChoice{} // as configured
			},
		},
		Optimization: engine.Optimization{Schedule: optim.Schedule{Base: 1}},
		Files:        engine.Files{Ledger: filepath.Join(dir, "ledger.jsonl")},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer run.Close()
	used := 0.0
	err = run.Train(context.Background(), func(p *engine.Progress) error {
		used = p.BudgetUsed
		return nil
	})
	epsilon, _ := run.PlannedEpsilon()
	fmt.Println(errors.Is(err, engine.ErrBudget), used > 0.9, epsilon)
	// Output: true true 1
}
