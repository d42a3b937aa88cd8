// Own-network trains a network that this program builds from layers, and draws what it learned.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"os"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
)

// network has a hidden layer of 32 units, and a class for the points inside a ring and one for the others.
func network(batch int) (*perexample.Network, error) {
	n := layer.NewBuilder(batch, 1)
	logits := layer.Dense(n, layer.Dense(n, n.Input("point", 2), "hidden", 32, layer.Tanh), "out", 2, layer.Identity)
	n.SetLoss(layer.CrossEntropy(n, logits, n.Input("inside")), logits)
	return n.Network()
}

// draw returns points, with class 1 inside a ring around zero, their coordinates and their classes.
func draw(n int) (set *data.Table, points, classes []float32) {
	for range n {
		x, y := 2*rand.Float32()-1, 2*rand.Float32()-1
		points, classes = append(points, x, y), append(classes, map[bool]float32{true: 1}[x*x+y*y > 0.15 && x*x+y*y < 0.6])
	}
	columns := []data.Column{{Name: "point", Shape: []int{2}}, {Name: "inside", Kind: data.Label, Classes: 2}}
	return must(data.NewTable(columns, [][]float32{points, classes}, nil)), points, classes
}

func main() {
	test, points, _ := draw(1000) // public
	c := engine.Config{Network: network, Sampling: engine.Sampling{Lot: 1000}, Steps: 600, Budget: engine.Budget{Delta: 1e-5}}
	c.Optimization.Optimizer, c.Optimization.Schedule.Base = optim.Optimizer{Kind: optim.KindMomentum, Momentum: 0.9}, 1
	c.Train, _, _ = draw(4000)
	c.Mechanism.NoiseMultiplier, c.Files.Ledger = must(c.CalibrateNoise(2)), "ledger.jsonl"
	run, evaluator := must(engine.New(c)), must(engine.NewEvaluator(network, engine.DeviceOptions{}))
	must(run, errors.Join(run.Train(context.Background(), nil), run.Close()))
	weights := engine.Values(must(run.Parameters()))
	fmt.Printf("ε = %.3f, accuracy %.3f\n", must(run.Spent("")).Epsilon, must(evaluator.Score(weights, test)).Accuracy)
	picture := `<svg xmlns="http://www.w3.org/2000/svg" viewBox="-1 -1 2 2" width="400">`
	for i, logits := range must(evaluator.Predictions(weights, test)) {
		picture += fmt.Sprintf("\n"+`<circle cx="%.3f" cy="%.3f" r="0.02" fill="%s"/>`, points[2*i], points[2*i+1],
			map[bool]string{true: "#0b57b8", false: "#e0a070"}[logits[1] > logits[0]])
	}
	must(picture, os.WriteFile("result.svg", []byte(picture+"\n</svg>\n"), 0o644))
}

func must[T any](x T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return x
}
