package engine_test

import (
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine"
)

// A federated mean: 20,000 clients have two numbers each, and 50 rounds estimate their weighted
// mean. Each client's vector is clipped to norm 2, and clients count with weights of at most 10.
func ExampleVectorSum() {
	dir, err := os.MkdirTemp("", "dptrain")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	sum, err := engine.NewVectorSum(engine.VectorSumConfig{
		Vectors:  []engine.Vector{{Name: "position", Size: 2}},
		Records:  20_000,
		Unit:     "client",
		Sampling: engine.Sampling{Rate: 0.05}, // each round has each client with this probability
		Mechanism: engine.Mechanism{
			Clipping:        clip.Flat(clip.Constant(2), nil),
			NoiseMultiplier: 2,
		},
		Weights: engine.Weights{Cap: 10, Mean: 5.5},
		Lots:    50,
		Budget:  engine.Budget{Delta: 1e-6},
		Ledger:  filepath.Join(dir, "ledger.jsonl"),
	})
	if err != nil {
		log.Fatal(err)
	}
	var x, y float64
	for range 50 {
		clients, err := sum.StartLot()
		if err != nil {
			log.Fatal(err)
		}
		for _, client := range clients {
			vector, weight := clientVector(client)
			if err := sum.Add(client, weight, vector); err != nil {
				log.Fatal(err)
			}
		}
		means, err := sum.Release() // the ledger on disk has the round
		if err != nil {
			log.Fatal(err)
		}
		x, y = x+means[0][0]/50, y+means[0][1]/50
	}
	if err := sum.Close(); err != nil {
		log.Fatal(err)
	}
	spent, err := sum.Spent("pld")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("mean (%.1f, %.1f) with ε = %.2f at δ = %g\n", x, y, spent.Epsilon, spent.Delta)
	fmt.Printf("noise of a round: %.4f\n", sum.Deviations()[0])
	// Output:
	// mean (0.7, -0.3) with ε = 0.92 at δ = 1e-06
	// noise of a round: 0.0073
}

// clientVector returns the vector of a client and its weight, a number of examples.
func clientVector(client int) (vector []float64, weight float64) {
	angle := float64(client)
	return []float64{0.7 + math.Cos(angle)/2, -0.3 + math.Sin(angle)/2}, float64(1 + client%10)
}
