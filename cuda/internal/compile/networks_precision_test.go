//go:build gpu

package compile

import (
	"fmt"
	"math"
	"testing"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/cpu"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/models"
)

// TestNetworks_InPrecision trains networks with products rounded to TF32 and to bfloat16.
// The weights differ from the CPU's by at most 20 units of rounding, relative to their
// change, and by more than float32's do, which shows that the operands are rounded. A GPU
// without such tensor cores trains in float32.
func TestNetworks_InPrecision(t *testing.T) {
	device(t)
	list, err := driver.Devices()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []network{
		{"mlp:64", models.DataSpec{Shape: []int{100}, Classes: 10}, 20, 4},
		{"digits-cnn", models.DataSpec{Shape: []int{1, 28, 28}, Classes: 10}, 4, 2},
		{"lstm", models.DataSpec{Shape: []int{7}, Vocabulary: 50, Classes: 2}, 5, 2},
		{"transformer", models.DataSpec{Shape: []int{9}, Vocabulary: 50, Classes: 50, LabelShape: []int{9}}, 3, 2},
	} {
		still := n
		still.steps = 0
		on := func(precision Precision) func(*plan.Program, plan.Optimizer) (plan.Executable, error) {
			return func(p *plan.Program, o plan.Optimizer) (plan.Executable, error) {
				return New(p, o, false, Options{Precision: precision})
			}
		}
		start := still.train(t, on(FP32))
		want := n.train(t, func(p *plan.Program, o plan.Optimizer) (plan.Executable, error) { return cpu.New(p, o, false, 0) })
		exact := relativeDistance(n.train(t, on(FP32)), want, start)
		for _, precision := range []Precision{TF32, BF16} {
			t.Run(fmt.Sprint(n.model, " ", precision), func(t *testing.T) {
				got := relativeDistance(n.train(t, on(precision)), want, start)
				rounds := got > 5*exact
				if !(got <= allowed[precision].training) || rounds != (list[0].Arch >= 80) {
					t.Errorf("%.2g of the way from the CPU's weights, float32's are %.2g", got, exact)
				}
			})
		}
	}
}

// relativeDistance is the distance of weights from others, relative to the change of these
// in training.
func relativeDistance(got, want, start [][]float32) float64 {
	var off, way float64
	for v := range want {
		for i, w := range want[v] {
			off += math.Pow(float64(got[v][i]-w), 2)
			way += math.Pow(float64(w-start[v][i]), 2)
		}
	}
	return math.Sqrt(off / way)
}
