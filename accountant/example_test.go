package accountant_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
)

// The noise that a budget allows, before a run.
func ExampleCalibrateNoise() {
	plan := accountant.Plan{
		Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: 0.01},
		Steps:    1000,
	}
	noise, err := accountant.CalibrateNoise(plan, 1, 1e-5, accountant.Default)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("noise %.2f\n", noise)
	// Output:
	// noise 1.41
}

// A ledger of one's own, of a mechanism that is not the engine's: each lot is on
// disk before it is released, and what all of them cost is read back.
func Example_ledger() {
	dir, err := os.MkdirTemp("", "dptrain")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "ledger.jsonl")

	writer, err := ledger.Create(path, ledger.Header{
		Unit: "example", Records: 50000, Adjacency: ledger.AddRemove, Secure: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	lot := ledger.Lot{
		Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: 0.01, Records: 50000},
		Queries:  []ledger.Query{{Group: "gradient", Mechanism: ledger.Gaussian, Sensitivity: 0.5, Noise: 0.6}},
	}
	for range 1000 {
		if err := writer.Spend(lot); err != nil {
			log.Fatal(err) // and release nothing
		}
		// Only now is the noised sum of the lot released.
	}
	if err := writer.Close(); err != nil {
		log.Fatal(err)
	}

	history, err := ledger.Read(path)
	if err != nil {
		log.Fatal(err)
	}
	spent, err := accountant.Epsilon(history, 1e-5, accountant.Default)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d lots cost ε = %.2f at δ = %g\n", history.LotCount(), spent.Epsilon, spent.Delta)
	// Output:
	// 1000 lots cost ε = 1.30 at δ = 1e-05
}
