package engine_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/optim"
)

// A private statistic other than the gradient: the numbers of records with target 1 and −1,
// released and paid for with every lot.
func Example_statistic() {
	dir, err := os.MkdirTemp("", "dptrain")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	shares := engine.Statistic{
		Name: "targets", Size: 2,
		Sensitivity: 1, // the norm to which a record's vector is clipped
		Noise:       4,
		Of: func(dst []float64, record []engine.Example) {
			if record[0].Columns[1][0] > 0 {
				dst[0] = 1
			} else {
				dst[1] = 1
			}
		},
	}
	c := engine.Config{
		Network:      ringNetwork,
		Train:        ring(4000, 1),
		Sampling:     engine.Sampling{Lot: 400},
		Steps:        100,
		Mechanism:    engine.Mechanism{NoiseMultiplier: 2},
		Statistics:   []engine.Statistic{shares},
		Optimization: engine.Optimization{Schedule: optim.Schedule{Base: 1}},
		Files:        engine.Files{Ledger: filepath.Join(dir, "ledger.jsonl")},
	}
	run, err := engine.New(c)
	if err != nil {
		log.Fatal(err)
	}
	var inside, outside float64
	err = run.Train(context.Background(), func(p *engine.Progress) error {
		inside += p.Released[0].Mean[0] / float64(p.Lots)
		outside += p.Released[0].Mean[1] / float64(p.Lots)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := run.Close(); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("inside %.1f, outside %.1f\n", inside, outside)

	history, err := ledger.Read(c.Files.Ledger)
	if err != nil {
		log.Fatal(err)
	}
	for _, q := range history.Lots[0].Lot.Queries {
		fmt.Printf("%s: sensitivity %g, noise %g\n", q.Group, q.Sensitivity, q.Noise)
	}
	// Output:
	// inside 0.3, outside 0.7
	// gradient: sensitivity 1, noise 2
	// targets: sensitivity 1, noise 4
}
