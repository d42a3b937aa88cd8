//go:build gpu

package cuda

import (
	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/internal/op"
)

// softmaxLines are laid out as in kernels/softmax.cu.
type softmaxLines struct{ Count, Size, Step, Log int32 }

// launchSoftmax queues a kernel that goes over lines along an axis.
func (c *compiler) launchSoftmax(kernel string, s op.Softmax, k call, operands ...driver.Pointer) {
	n := k.shapes[0][s.Axis]
	_, step := op.OuterInner(k.shapes[0], s.Axis)
	l := softmaxLines{int32(k.results() / n), int32(n), int32(step), boolArg(s.Log)}
	args := []any{k.out}
	for _, x := range operands {
		args = append(args, x)
	}
	args = append(args, l)
	switch {
	case step == 1:
		c.launchPerRow(kernel, int(l.Count), n, args...)
	case n <= 16:
		c.launch(kernel+"_alone", dim{uint32(l.Count+127) / 128, 1, 1}, dim{128, 1, 1}, args...)
	default:
		c.launch(kernel+"_column", dim{uint32(l.Count+31) / 32, 1, 1}, threads, args...)
	}
}
