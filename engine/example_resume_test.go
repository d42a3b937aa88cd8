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

// A run that is observed, stopped once its public test accuracy suffices, and resumed later, as
// another process would do. The end of the context would stop it in the same way.
func Example_resume() {
	dir, err := os.MkdirTemp("", "dptrain")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	c := engine.Config{
		Network:      ringNetwork,
		Train:        ring(2000, 1),
		Sampling:     engine.Sampling{Lot: 100},
		Steps:        200,
		Mechanism:    engine.Mechanism{NoiseMultiplier: 1},
		Budget:       engine.Budget{Delta: 1e-5, StopAtEpsilon: 4}, // the run ends before the lot that would cost more
		Optimization: engine.Optimization{Optimizer: optim.Optimizer{Kind: optim.KindMomentum, Momentum: 0.9}, Schedule: optim.Schedule{Base: 0.3}},
		Files:        engine.Files{Ledger: filepath.Join(dir, "ledger.jsonl"), CheckpointFolder: filepath.Join(dir, "checkpoint")},
	}
	run, err := engine.New(c)
	if err != nil {
		log.Fatal(err)
	}
	evaluator, err := engine.NewEvaluator(ringNetwork, engine.DeviceOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer evaluator.Close()
	test := ring(500, 2)
	goodEnough := errors.New("good enough")
	err = run.Train(context.Background(), func(p *engine.Progress) error {
		if p.Lot%20 != 0 {
			return nil
		}
		parameters, err := run.BorrowParameters()
		if err != nil {
			return err
		}
		score, err := evaluator.Score(engine.Values(parameters), test)
		if err == nil && score.Loss < 0.6 {
			err = goodEnough
		}
		return err
	})
	fmt.Println("stopped:", err)
	// The stop depends on released values, and its time is itself a released value: a run that
	// ended here would have the cost of its whole plan.
	planned, err := run.PlannedEpsilon()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the plan is within the budget:", planned <= 4)
	if err := run.Close(); err != nil {
		log.Fatal(err)
	}

	if run, err = engine.Resume(c); err != nil {
		log.Fatal(err)
	}
	defer run.Close()
	fmt.Println("no lot is lost:", run.StepsDone()%20 == 0 && run.StepsDone() > 0)
	if err := run.Train(context.Background(), nil); err != nil {
		log.Fatal(err)
	}
	spent, err := run.Spent("")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("within the budget:", spent.Epsilon <= 4, run.StepsDone() < c.Steps)
	// Output:
	// stopped: good enough
	// the plan is within the budget: true
	// no lot is lost: true
	// within the budget: true true
}
