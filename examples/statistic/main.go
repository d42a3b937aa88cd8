// Statistic releases a private statistic with each lot in addition to the gradient: the numbers of records
// with target 1 and −1. The statistic is a function of one record whose vector is clipped to the
// given sensitivity; the ledger states its noise, so its cost is part of the run's ε. It prints:
//
//	positive 0.3, negative 0.7
//	gradient: sensitivity 1, noise 2
//	targets: sensitivity 1, noise 4
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
)

const records, lot, steps = 4000, 400, 100

// linear predicts the target from one feature.
func linear(batch int) (*perexample.Network, error) {
	n := layer.NewBuilder(batch, 1)
	prediction := layer.Dense(n, n.Input("feature", 1), "fc", 1, layer.Identity)
	n.SetLoss(layer.SquaredError(n, prediction, n.Input("target", 1)), prediction)
	return n.Network()
}

func main() {
	feature, target := make([]float32, records), make([]float32, records)
	for i := range target { // three of ten records have target 1
		if target[i] = -1; i%10 < 3 {
			target[i] = 1
		}
		feature[i] = target[i] * float32(i) / records
	}
	train := must(data.NewTable([]data.Column{{Name: "feature", Shape: []int{1}}, {Name: "target", Kind: data.Target, Shape: []int{1}}},
		[][]float32{feature, target}, nil))
	counts := engine.Statistic{Name: "targets", Size: 2, Sensitivity: 1, Noise: 4,
		Of: func(dst []float64, record []engine.Example) {
			if record[0].Columns[1][0] > 0 {
				dst[0] = 1
			} else {
				dst[1] = 1
			}
		}}

	dir := must(os.MkdirTemp("", "dptrain"))
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "ledger.jsonl")
	run := must(engine.New(engine.Config{
		Network: linear, Train: train,
		Sampling: engine.Sampling{Lot: lot}, Steps: steps,
		Mechanism:    engine.Mechanism{NoiseMultiplier: 2},
		Statistics:   []engine.Statistic{counts},
		Optimization: engine.Optimization{Schedule: optim.Schedule{Base: 0.1}},
		Files:        engine.Files{Ledger: path},
	}))
	var positive, negative float64
	check(run.Train(context.Background(), func(p *engine.Progress) error { // after each lot
		positive += p.Released[0].Mean[0] / steps
		negative += p.Released[0].Mean[1] / steps
		return nil
	}))
	check(run.Close())
	fmt.Printf("positive %.1f, negative %.1f\n", positive, negative)
	for _, q := range must(ledger.Read(path)).Lots[0].Lot.Queries {
		fmt.Printf("%s: sensitivity %g, noise %g\n", q.Group, q.Sensitivity, q.Noise)
	}
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
