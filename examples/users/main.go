// Users protects all rows of a person together: the data set names the owner of each row, and a
// record of the privacy guarantee is a user with at most five rows. The set is a type of this
// program; its Read could read a file or a database. It prints:
//
//	400 records of at most 5 rows, 40 in a lot
//	the ledger's unit: user
package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
)

// visits are readings of a sensor, each of which belongs to a patient.
type visits struct{ patients []int32 }

func (v visits) Len() int { return len(v.patients) }

// Columns returns the inputs of the network, in order.
func (v visits) Columns() []data.Column {
	return []data.Column{{Name: "reading", Shape: []int{8}}, {Name: "ill", Kind: data.Label, Classes: 2}}
}

// Read copies rows to the network's inputs.
func (v visits) Read(dst [][]float32, rows []int) error {
	for i, row := range rows {
		dst[1][i] = float32(v.patients[row] % 2)
		for j := range 8 {
			dst[0][i*8+j] = float32(math.Sin(float64(8*row+j))) + dst[1][i]
		}
	}
	return nil
}

// Users makes visits a data.UserSet: it returns the owner of each row.
func (v visits) Users() []int32 { return v.patients }

func main() {
	dir := must(os.MkdirTemp("", "dptrain"))
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "ledger.jsonl")
	set := visits{}
	for row := range 3000 {
		set.patients = append(set.patients, int32(row%400))
	}
	run := must(engine.New(engine.Config{
		Network: func(batch int) (*perexample.Network, error) {
			n := layer.NewBuilder(batch, 1)
			logits := layer.Dense(n, n.Input("reading", 8), "fc", 2, layer.Identity)
			n.SetLoss(layer.CrossEntropy(n, logits, n.Input("ill")), logits)
			return n.Network()
		},
		Train: set, Records: engine.Records{Users: true, Examples: 5},
		Sampling: engine.Sampling{Rate: 0.1}, Steps: 100,
		Mechanism:    engine.Mechanism{NoiseMultiplier: 1.5},
		Optimization: engine.Optimization{Schedule: optim.Schedule{Base: 1}},
		Files:        engine.Files{Ledger: path},
	}))
	check(run.Train(context.Background(), nil))
	check(run.Close())
	d := run.Describe()
	fmt.Printf("%d records of at most %d rows, %g in a lot\n", d.Records, d.PerRecord, d.ExpectedLot)
	fmt.Println("the ledger's unit:", must(ledger.Read(path)).Header.Unit)
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
