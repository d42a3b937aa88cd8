package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// ringNetwork has a hidden layer, and the logistic loss log(1 + exp(−y·f(x))) of an output f(x) for a
// target y of ±1. The folder examples has complete programs.
func ringNetwork(batch int) (*perexample.Network, error) {
	g := G.NewGraph()
	x := G.NewMatrix(g, tensor.Float32, G.WithShape(batch, 2), G.WithName("x"))
	y := G.NewVector(g, tensor.Float32, G.WithShape(batch), G.WithName("y"))
	w1 := G.NewMatrix(g, tensor.Float32, G.WithShape(2, 16), G.WithName("w1"), initialValues(2*16))
	b1 := G.NewVector(g, tensor.Float32, G.WithShape(16), G.WithName("b1"), initialValues(16))
	w2 := G.NewMatrix(g, tensor.Float32, G.WithShape(16, 1), G.WithName("w2"), initialValues(16))

	h := G.Must(G.Tanh(G.Must(G.BroadcastAdd(G.Must(G.Mul(x, w1)), b1, nil, []byte{0}))))
	answer := G.Must(G.Mul(h, w2))
	margin := G.Must(G.HadamardProd(y, G.Must(G.Reshape(answer, tensor.Shape{batch}))))
	losses := G.Must(G.Log1p(G.Must(G.Exp(G.Must(G.Neg(margin))))))
	return &perexample.Network{
		Batch: batch, Inputs: G.Nodes{x, y}, Params: G.Nodes{w1, b1, w2},
		Loss: G.Must(G.Sum(losses)), Losses: losses, Output: answer,
	}, nil
}

// initialValues returns n public initial values of a parameter.
func initialValues(n int) G.NodeConsOpt {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(r.NormFloat64())
	}
	return func(p *G.Node) {
		G.WithValue(tensor.New(tensor.WithShape(p.Shape()...), tensor.WithBacking(values)))(p)
	}
}

// ring returns points, of which those in a ring around zero have target 1 and the others −1.
func ring(count int, seed uint64) data.Set {
	r := rand.New(rand.NewPCG(seed, 0))
	var x, y []float32
	for range count {
		a, b := 2*r.Float32()-1, 2*r.Float32()-1
		x, y = append(x, a, b), append(y, -1)
		if a*a+b*b < 0.4 {
			y[len(y)-1] = 1
		}
	}
	set, err := data.NewTable([]data.Column{
		{Name: "x", Shape: []int{2}},
		{Name: "y", Kind: data.Target},
	}, [][]float32{x, y}, nil)
	if err != nil {
		log.Fatal(err)
	}
	return set
}

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
