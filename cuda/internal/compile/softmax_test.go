//go:build gpu

package compile

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"gorgonia.org/tensor"
)

// Along an axis that is not the last: lines of one thread and of eight, in numbers that do
// not fill a block, and the same bits for a record alone.
func TestSoftmax_AlongAnotherAxis(t *testing.T) {
	device(t)
	r := rand.New(rand.NewPCG(12, 6))
	for _, shape := range []tensor.Shape{{3, 5, 37}, {3, 16, 2}, {3, 17, 2}, {3, 45, 33}, {2, 1000, 3, 2}} {
		for _, log := range []bool{false, true} {
			s := op.Softmax{Axis: 1, Log: log}
			for _, o := range []operation{given(r, s, shape), given(r, op.SoftmaxGrad(s), shape, shape)} {
				t.Run(fmt.Sprint(o.spec, shape), func(t *testing.T) {
					got := o.run(t, Options{})
					want, _ := o.reference()
					largest := 1.0
					for _, w := range want {
						largest = math.Max(largest, math.Abs(w))
					}
					for i, w := range want {
						if !(math.Abs(float64(got[i])-w) <= allowed[FP32].functions*largest) {
							t.Fatalf("element %d is %v, want %v", i, got[i], w)
						}
					}
					same(t, "a record alone", o.few(1).run(t, Options{}), got[:len(got)/shape[0]])
				})
			}
		}
	}
}
