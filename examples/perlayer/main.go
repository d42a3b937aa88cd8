// Perlayer clips each layer to a bound of its own, with a clipping rule of this program, and checks
// afterwards what the ledger states: the file is intact, each layer is a query with its sensitivity
// and noise, and its ε is the run's. It prints:
//
//	hidden: sensitivity 1.5, noise 3
//	last: sensitivity 0.5, noise 1
//	50 lots, complete: true
//	the ledger's ε is the run's: true
package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
)

// smooth shortens gradients slightly below the bound, too. The engine reduces a factor that exceeds
// what the bound allows, so a wrong rule cannot break the guarantee.
type smooth struct{}

func (smooth) Factor(norm, bound float64) float64 { return bound / math.Hypot(norm, bound) }

// network has two dense layers, whose parameters begin with the layers' names.
func network(batch int) (*perexample.Network, error) {
	n := layer.NewBuilder(batch, 1)
	h := layer.Dense(n, n.Input("point", 2), "hidden", 16, layer.Tanh)
	logits := layer.Dense(n, h, "last", 2, layer.Identity)
	n.SetLoss(layer.CrossEntropy(n, logits, n.Input("side")), logits)
	return n.Network()
}

func main() {
	points, sides := make([]float32, 4000), make([]float32, 2000)
	for i := range sides {
		points[2*i], points[2*i+1], sides[i] = float32(i%40)-19.5, float32(i%50)-24.5, float32(i%40/20)
	}
	dir := must(os.MkdirTemp("", "dptrain"))
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "ledger.jsonl")
	run := must(engine.New(engine.Config{
		Network: network,
		Train: must(data.NewTable([]data.Column{{Name: "point", Shape: []int{2}}, {Name: "side", Kind: data.Label, Classes: 2}},
			[][]float32{points, sides}, nil)),
		Sampling: engine.Sampling{Lot: 100}, Steps: 50, Budget: engine.Budget{Delta: 1e-5},
		Mechanism: engine.Mechanism{NoiseMultiplier: math.Sqrt2, Clipping: []clip.Group{
			{Name: "hidden", Parameters: []string{"hidden*"}, Bound: clip.Constant(1.5), Rule: smooth{}},
			{Name: "last", Parameters: []string{"last*"}, Bound: clip.Constant(0.5), Rule: smooth{}},
		}},
		Optimization: engine.Optimization{Schedule: optim.Schedule{Base: 0.5}},
		Files:        engine.Files{Ledger: path},
	}))
	check(run.Train(context.Background(), nil))
	check(run.Close())

	file, history := must(ledger.Verify(path)), must(ledger.Read(path))
	for _, q := range history.Lots[0].Lot.Queries {
		fmt.Printf("%s: sensitivity %.3g, noise %.3g\n", q.Group, q.Sensitivity, q.Noise)
	}
	fmt.Printf("%d lots, complete: %t\n", file.Lots, file.Complete)
	stated, spent := must(accountant.Epsilon(history, 1e-5, "pld")), must(run.Spent("pld"))
	fmt.Println("the ledger's ε is the run's:", stated.Epsilon == spent.Epsilon)
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
