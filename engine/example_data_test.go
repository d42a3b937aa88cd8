package engine_test

import (
	"context"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
)

// visits are readings of sensors, each of which belongs to a patient. A set need not be in
// memory: Read could read a file.
type visits struct{ patients []int32 }

func (v visits) Len() int { return len(v.patients) }

// Columns returns the inputs of the network, in order.
func (v visits) Columns() []data.Column {
	return []data.Column{
		{Name: "reading", Shape: []int{8}},
		{Name: "ill", Kind: data.Label, Classes: 2},
	}
}

// Read copies rows to the network's inputs.
func (v visits) Read(dst [][]float32, rows []int) error {
	for i, row := range rows {
		ill := v.patients[row] % 2
		for j := range 8 {
			dst[0][i*8+j] = float32(math.Sin(float64(8*row+j))) + float32(ill)
		}
		dst[1][i] = float32(ill)
	}
	return nil
}

// Users implements data.UserSet: it returns the owner of each row.
func (v visits) Users() []int32 { return v.patients }

// A custom data set in which all rows of a patient are protected together.
func Example_dataSet() {
	dir, err := os.MkdirTemp("", "dptrain")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	set := visits{}
	for row := range 3000 {
		set.patients = append(set.patients, int32(row%400))
	}
	run, err := engine.New(engine.Config{
		Network: func(batch int) (*perexample.Network, error) {
			n := layer.NewBuilder(batch, 1)
			x, ill := n.Input("reading", 8), n.Input("ill")
			logits := layer.Dense(n, x, "fc", 2, layer.Identity)
			n.SetLoss(layer.CrossEntropy(n, logits, ill), logits)
			return n.Network()
		},
		Train:        set,
		Records:      engine.Records{Users: true, Examples: 5}, // at most five rows of a patient
		Sampling:     engine.Sampling{Rate: 0.1},
		Steps:        100,
		Mechanism:    engine.Mechanism{NoiseMultiplier: 1.5},
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
	d := run.Describe()
	fmt.Printf("%d records of at most %d rows, %g in a lot\n", d.Records, d.PerRecord, d.ExpectedLot)
	// Output:
	// 400 records of at most 5 rows, 40 in a lot
}
