package choice_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/choice"
	"github.com/dptrain/dptrain/noise"
)

// Choose the candidate for a clip bound that is nearest to the median of private norms. The score
// of a bound is minus the distance between the number of norms within it and one half of the
// public number of records: one record changes it by at most 1.
func Example() {
	dir, err := os.MkdirTemp("", "dptrain")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	norms := make([]float64, 2000) // private
	for i := range norms {
		norms[i] = float64(i%100) / 20
	}
	bounds := []float64{0.25, 0.5, 1, 2.5, 4, 8} // public
	scores := make([]int64, len(bounds))
	for k, bound := range bounds {
		within := int64(0)
		for _, norm := range norms {
			if norm <= bound {
				within++
			}
		}
		distance := within - int64(len(norms)/2)
		scores[k] = -max(distance, -distance)
	}

	path := filepath.Join(dir, "ledger.jsonl")
	w, err := ledger.Create(path, ledger.Header{Unit: "example", Records: len(norms), Adjacency: ledger.ZeroOut, Secure: true})
	if err != nil {
		log.Fatal(err)
	}
	source, err := noise.New()
	if err != nil {
		log.Fatal(err)
	}
	chooser, err := choice.New(w, source)
	if err != nil {
		log.Fatal(err)
	}
	best, err := chooser.Choose(choice.Query{Name: "clip bound", Scores: scores, Sensitivity: 1, Epsilon: 0.1})
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	h, err := ledger.Read(path)
	if err != nil {
		log.Fatal(err)
	}
	cost, err := accountant.Epsilon(h, 1e-9, "pld")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("clip bound %g, at a cost of ε = %.4f\n", bounds[best], cost.Epsilon)
	// Output: clip bound 2.5, at a cost of ε = 0.1000
}
