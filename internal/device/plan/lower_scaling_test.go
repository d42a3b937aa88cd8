package plan_test

import (
	"fmt"
	"testing"

	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
)

// Lowering allocates in proportion to the number of layers, not to its square: a network
// of a thousand layers would take minutes.
func TestLowerTraining_DeepNetworks(t *testing.T) {
	allocations := func(layers int) float64 {
		network, err := perexample.Compile(func(batch int) (*perexample.Network, error) {
			n := layer.NewBuilder(batch, 1)
			h := n.Input("x", 2)
			for i := range layers {
				h = layer.Dense(n, h, fmt.Sprint("fc", i), 2, layer.Tanh)
			}
			n.SetLoss(layer.SquaredError(n, h, n.Input("y", 2)), h)
			return n.Network()
		}, 2, 1)
		if err != nil {
			t.Fatal(err)
		}
		return testing.AllocsPerRun(1, func() {
			if _, err := plan.LowerTraining(network, plan.TrainingOptions{Norms: true}); err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, many := allocations(50), allocations(200); many > 6*few {
		t.Errorf("%v allocations for 50 layers, %v for 200", few, many)
	}
}
