package cpu_test

import (
	"fmt"
	"log"
	"math"

	"github.com/dptrain/dptrain/internal/device/cpu"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
)

// From a loss to a clipped sum: w·x predicts y with the loss (w·x − y)², and w is [1, 1]. The
// gradient of a record is 2(w·x − y)·x: [12, 16] for the first, [0.04, 0.08] for the second.
func Example() {
	net, err := perexample.Compile(func(batch int) (*perexample.Network, error) {
		n := layer.NewBuilder(batch, 1)
		n.UseBias(false)
		prediction := layer.Dense(n, n.Input("x", 2), "fc", 1, layer.Identity)
		n.SetLoss(layer.SquaredError(n, prediction, n.Input("y", 1)), prediction)
		return n.Network()
	}, 2, 1)
	if err != nil {
		log.Fatal(err)
	}
	program, err := plan.LowerTraining(net, plan.TrainingOptions{Norms: true})
	if err != nil {
		log.Fatal(err)
	}
	e, err := cpu.New(program, plan.Optimizer{Kind: plan.SGD}, false, 1)
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	copy(e.State().Weights[0], []float32{1, 1})

	copy(e.Input(0), []float32{3, 4, 0.1, 0.2}) // x of two records
	copy(e.Input(1), []float32{5, 0.1})         // y
	if err := e.Forward(); err != nil {
		log.Fatal(err)
	}
	for r, square := range e.SquaredNorms(0) {
		norm := math.Sqrt(float64(square))
		c := min(1, 1/norm)
		e.ClipFactors(0)[r] = float32(c)
		fmt.Printf("record %d: norm %.3f, factor %.3f\n", r, norm, c)
	}
	if err := e.AddClippedSums(); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("clipped sum: %.3f\n", e.Sum(0))
	// Output:
	// record 0: norm 20.000, factor 0.050
	// record 1: norm 0.089, factor 1.000
	// clipped sum: [0.640 0.880]
}
