package engine_test

import (
	"context"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/optim"
)

// smooth is a custom clipping rule: it shortens gradients slightly below the bound, too. The
// engine reduces every factor that a rule returns to what the bound allows, so a wrong rule
// cannot break the guarantee.
type smooth struct{}

func (smooth) Factor(norm, bound float64) float64 { return bound / math.Sqrt(norm*norm+bound*bound) }

// A custom clipping strategy: a rule, a bound that decreases over time, and a separate group for
// the weights of the last layer.
func Example_clipping() {
	dir, err := os.MkdirTemp("", "dptrain")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	falling := clip.Schedule(func(lot int) float64 { return 2 / (1 + float64(lot)/50) })
	run, err := engine.New(engine.Config{
		Network:  ringNetwork,
		Train:    ring(2000, 1),
		Sampling: engine.Sampling{Lot: 100},
		Steps:    50,
		Mechanism: engine.Mechanism{NoiseMultiplier: 1, Clipping: []clip.Group{
			{Name: "hidden", Parameters: []string{"w1", "b1"}, Bound: falling, Rule: smooth{}},
			{Name: "last", Parameters: []string{"w2"}, Bound: clip.Constant(0.5), Rule: smooth{}},
		}, Allocation: engine.DimensionAdjusted},
		Optimization: engine.Optimization{Schedule: optim.Schedule{Base: 1}},
		Files:        engine.Files{Ledger: filepath.Join(dir, "ledger.jsonl")},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer run.Close()
	show := func() {
		for _, v := range run.Describe().Parameters {
			fmt.Printf("  %s: group %s, bound %.2f, noise %.2f\n", v.Name, v.Group, v.Clip, v.Sigma)
		}
	}
	fmt.Println("first lot")
	show()
	if err := run.Train(context.Background(), nil); err != nil {
		log.Fatal(err)
	}
	fmt.Println("last lot")
	show()
	// Output:
	// first lot
	//   w1: group hidden, bound 2.00, noise 2.31
	//   b1: group hidden, bound 2.00, noise 2.31
	//   w2: group last, bound 0.50, noise 1.00
	// last lot
	//   w1: group hidden, bound 1.01, noise 1.17
	//   b1: group hidden, bound 1.01, noise 1.17
	//   w2: group last, bound 0.50, noise 1.00
}
