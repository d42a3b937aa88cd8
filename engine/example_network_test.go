package engine_test

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
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// ringNetwork is written in plain Gorgonia: a hidden layer, and the logistic loss log(1 +
// exp(−y·f(x))) of an output f(x) for a target y of ±1.
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

// A network written in plain Gorgonia, trained privately.
func Example_network() {
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
		Budget:       engine.Budget{Delta: 1e-5},
		Files:        engine.Files{Ledger: filepath.Join(dir, "ledger.jsonl")},
	})
	if err != nil {
		log.Fatal(err)
	}
	err = run.Train(context.Background(), nil)
	if err := run.Close(); err != nil {
		log.Fatal(err)
	}
	if err != nil {
		log.Fatal(err)
	}
	trained, err := run.Parameters()
	if err != nil {
		log.Fatal(err)
	}
	spent, err := run.Spent("pld")
	if err != nil {
		log.Fatal(err)
	}

	evaluator, err := engine.NewEvaluator(ringNetwork, engine.DeviceOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer evaluator.Close()
	score, err := evaluator.Score(engine.Values(trained), ring(500, 2))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("spent ε = %.1f at δ = %g\n", spent.Epsilon, spent.Delta)
	fmt.Println("learned the ring:", score.Loss < 0.4) // guessing has a loss of log 2
	// Output:
	// spent ε = 4.8 at δ = 1e-05
	// learned the ring: true
}
