// Privatemean estimates a mean without a network, as in federated analytics: 20,000 clients have two
// numbers each, and 50 rounds release the mean of a sample of them with noise. A client's vector is
// clipped to norm 2, and clients count with weights of at most 10. It prints:
//
//	mean (0.7, -0.3) with ε = 0.92 at δ = 1e-06
//	noise of a round: 0.0073
package main

import (
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine"
)

const rounds = 50

func main() {
	dir := must(os.MkdirTemp("", "dptrain"))
	defer os.RemoveAll(dir)
	sum := must(engine.NewVectorSum(engine.VectorSumConfig{
		Vectors:   []engine.Vector{{Name: "position", Size: 2}},
		Records:   20_000,
		Unit:      "client",
		Sampling:  engine.Sampling{Rate: 0.05}, // each round has each client with this probability
		Mechanism: engine.Mechanism{Clipping: clip.Flat(clip.Constant(2), nil), NoiseMultiplier: 2},
		Weights:   engine.RecordWeights{Cap: 10, Mean: 5.5},
		Lots:      rounds,
		Budget:    engine.Budget{Delta: 1e-6},
		Ledger:    filepath.Join(dir, "ledger.jsonl"),
	}))
	var x, y float64
	for range rounds {
		for _, client := range must(sum.StartLot()) { // the clients of this round
			vector, weight := contribution(client)
			check(sum.Add(client, weight, vector))
		}
		mean := must(sum.Release())[0] // the ledger on disk has the round
		x, y = x+mean[0]/rounds, y+mean[1]/rounds
	}
	check(sum.Close())
	spent := must(sum.Spent("pld"))
	fmt.Printf("mean (%.1f, %.1f) with ε = %.2f at δ = %g\n", x, y, spent.Epsilon, spent.Delta)
	fmt.Printf("noise of a round: %.4f\n", sum.Deviations()[0])
}

// contribution returns a client's vector, and its weight: a number of examples from 1 to 10.
func contribution(client int) (vector []float64, weight float64) {
	angle := float64(client)
	return []float64{0.7 + math.Cos(angle)/2, -0.3 + math.Sin(angle)/2}, float64(1 + client%10)
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
