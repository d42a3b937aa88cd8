// Network trains a network that is written in plain Gorgonia, and evaluates it on public test data.
// It shows the three things that a run needs: a function that builds the loss graph for any number
// of examples, a data set, and a configuration. It prints:
//
//	spent ε = 4.8 at δ = 1e-05
//	learned the ring: true
package main

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

// network has a hidden layer and the loss log(1 + exp(−y·f(x))) for targets y of ±1.
func network(batch int) (*perexample.Network, error) {
	g, random := G.NewGraph(), rand.New(rand.NewPCG(1, 0)) // public initial values
	parameter := func(name string, shape ...int) *G.Node {
		w := tensor.New(tensor.WithShape(shape...), tensor.Of(tensor.Float32))
		for i := range w.Size() {
			w.Float32s()[i] = float32(random.NormFloat64())
		}
		return G.NodeFromAny(g, w, G.WithName(name))
	}
	x := G.NewMatrix(g, tensor.Float32, G.WithShape(batch, 2), G.WithName("x"))
	y := G.NewVector(g, tensor.Float32, G.WithShape(batch), G.WithName("y"))
	w1, b1, w2 := parameter("w1", 2, 16), parameter("b1", 16), parameter("w2", 16, 1)
	h := G.Must(G.Tanh(G.Must(G.BroadcastAdd(G.Must(G.Mul(x, w1)), b1, nil, []byte{0}))))
	output := G.Must(G.Mul(h, w2))
	margin := G.Must(G.HadamardProd(y, G.Must(G.Reshape(output, tensor.Shape{batch}))))
	losses := G.Must(G.Log1p(G.Must(G.Exp(G.Must(G.Neg(margin))))))
	return &perexample.Network{Batch: batch, Inputs: G.Nodes{x, y}, Params: G.Nodes{w1, b1, w2},
		Loss: G.Must(G.Sum(losses)), Losses: losses, Output: output}, nil
}

// ring returns points of a square; those in a ring around zero have target 1, the others −1.
func ring(count int, seed uint64) *data.Table {
	random := rand.New(rand.NewPCG(seed, 0))
	x, y := make([]float32, 2*count), make([]float32, count)
	for i := range y {
		a, b := 2*random.Float32()-1, 2*random.Float32()-1
		if x[2*i], x[2*i+1], y[i] = a, b, -1; a*a+b*b < 0.4 {
			y[i] = 1
		}
	}
	return must(data.NewTable([]data.Column{{Name: "x", Shape: []int{2}}, {Name: "y", Kind: data.Target}}, [][]float32{x, y}, nil))
}

func main() {
	dir := must(os.MkdirTemp("", "dptrain"))
	defer os.RemoveAll(dir)
	run := must(engine.New(engine.Config{
		Network: network, Train: ring(2000, 1),
		Sampling: engine.Sampling{Lot: 100}, Steps: 200,
		Mechanism: engine.Mechanism{NoiseMultiplier: 1},
		Optimization: engine.Optimization{Optimizer: optim.Optimizer{Kind: optim.KindMomentum, Momentum: 0.9},
			Schedule: optim.Schedule{Base: 0.3}},
		Budget: engine.Budget{Delta: 1e-5},
		Files:  engine.Files{Ledger: filepath.Join(dir, "ledger.jsonl")},
	}))
	check(run.Train(context.Background(), nil))
	check(run.Close())
	spent := must(run.Spent("pld"))
	fmt.Printf("spent ε = %.1f at δ = %g\n", spent.Epsilon, spent.Delta)
	evaluator := must(engine.NewEvaluator(network, engine.DeviceOptions{}))
	defer evaluator.Close()
	score := must(evaluator.Score(engine.Values(must(run.Parameters())), ring(500, 2)))
	fmt.Println("learned the ring:", score.Loss < 0.4) // guessing has a loss of log 2
}

func must[T any](x T, err error) T {
	check(err)
	return x
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
