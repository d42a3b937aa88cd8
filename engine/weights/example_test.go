package weights_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/engine/weights"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
)

// network has a body whose input are points of a plane, and a head that scores classes.
func network(classes int) perexample.Build {
	return func(batch int) (*perexample.Network, error) {
		n := layer.NewBuilder(batch, 1)
		h := layer.Dense(n, n.Input("point", 2), "body", 16, layer.Tanh)
		logits := layer.Dense(n, h, "head", classes, layer.Identity)
		n.SetLoss(layer.CrossEntropy(n, logits, n.Input("label")), logits)
		return n.Network()
	}
}

// points returns points of a square, labelled by vertical stripe.
func points(classes int) data.Set {
	r := rand.New(rand.NewPCG(1, 0))
	var at, stripe []float32
	for range 1000 {
		x, y := r.Float32(), r.Float32()
		at, stripe = append(at, x, y), append(stripe, float32(int(x*float32(classes))))
	}
	set, err := data.NewTable([]data.Column{
		{Name: "point", Shape: []int{2}},
		{Name: "label", Kind: data.Label, Classes: classes},
	}, [][]float32{at, stripe}, nil)
	if err != nil {
		log.Fatal(err)
	}
	return set
}

// This example trains a body on public data, freezes it, and trains a new head privately.
func Example() {
	dir, err := os.MkdirTemp("", "dptrain")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	train := func(build perexample.Build, set data.Set, private bool) []engine.Parameter {
		run, err := engine.New(engine.Config{
			Network:      build,
			Train:        set,
			Sampling:     engine.Sampling{Lot: 100},
			Steps:        20,
			Mechanism:    engine.Mechanism{NoiseMultiplier: 1, NonPrivate: !private},
			Optimization: engine.Optimization{Schedule: optim.Schedule{Base: 0.5}},
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
		return trained
	}
	var file bytes.Buffer // or an *os.File
	if err := weights.Write(&file, train(network(2), points(2), false)); err != nil {
		log.Fatal(err)
	}

	body, found, err := weights.Load(network(3), bytes.NewReader(file.Bytes()), "head")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(found)
	head := train(weights.Freeze(body, "body"), points(3), true)
	for _, p := range head {
		fmt.Println("trained", p.Name, p.Shape)
	}
	whole, err := weights.WithFrozen(body, head)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(whole), "parameters to write")
	// Output:
	// its tensors match 2 of the network's 4 parameters, in dptrain's layout
	// trained head.weight [16 3]
	// trained head.bias [3]
	// 4 parameters to write
}

// One program trains and writes weights, and another one computes predictions with them.
func Example_predictions() {
	dir, err := os.MkdirTemp("", "dptrain")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	run, err := engine.New(engine.Config{
		Network:      network(2),
		Train:        points(2),
		Sampling:     engine.Sampling{Lot: 100},
		Steps:        200,
		Mechanism:    engine.Mechanism{NoiseMultiplier: 1},
		Optimization: engine.Optimization{Schedule: optim.Schedule{Base: 1}},
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

	// The other program loads the weights. The points have no labels.
	build, _, err := weights.Load(network(2), bytes.NewReader(file.Bytes()))
	if err != nil {
		log.Fatal(err)
	}
	unlabelled, err := data.NewTable([]data.Column{{Name: "point", Shape: []int{2}}}, [][]float32{{0.1, 0.5, 0.9, 0.5}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	evaluator, err := engine.NewEvaluator(build, engine.DeviceOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer evaluator.Close()
	logits, err := evaluator.Predictions(evaluator.Weights(), unlabelled)
	if err != nil {
		log.Fatal(err)
	}
	for _, scores := range logits {
		fmt.Println("in the second stripe:", scores[1] > scores[0])
	}
	// Output:
	// in the second stripe: false
	// in the second stripe: true
}
