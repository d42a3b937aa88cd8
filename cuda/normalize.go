//go:build gpu

package cuda

import (
	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/internal/op"
)

// launchPerRow launches a kernel that assigns each row of n elements to a warp if rows are
// short, and to a block if they are long. The choice depends only on n, so a record's bits
// do not depend on the number of rows.
func launchPerRow(c *compiler, kernel string, rows, n int, args ...any) {
	switch {
	case n <= 1024:
		c.launch(kernel+"_warp", dim{uint32(ceil(rows, 4)), 1, 1}, dim{128, 1, 1}, args...)
	case n <= 16384:
		c.launch(kernel+"_block", dim{uint32(rows), 1, 1}, dim{256, 1, 1}, args...)
	default:
		c.launch(kernel+"_block", dim{uint32(rows), 1, 1}, dim{1024, 1, 1}, args...)
	}
}

// normalizeChunks is struct Chunks of kernels/normalize.cu.
type normalizeChunks struct {
	Count, Size, Center, _ int32
	Epsilon                float64
}

func newNormalizeChunks(s op.Normalize, elements int) normalizeChunks {
	return normalizeChunks{Count: int32(elements / s.Chunk), Size: int32(s.Chunk), Center: boolArg(s.Center), Epsilon: s.Eps}
}

func lowerNormalize(c *compiler, s op.Normalize, k call) {
	n := newNormalizeChunks(s, k.results())
	launchPerRow(c, "normalize", int(n.Count), s.Chunk, k.out, k.in[0], n)
}

func lowerNormalizeGrad(c *compiler, s op.NormalizeGrad, k call) {
	n := newNormalizeChunks(op.Normalize(s), k.results())
	launchPerRow(c, "normalize_gradient", int(n.Count), s.Chunk, k.out, k.in[0], k.in[1], n)
}

// softmaxLines is struct Lines of kernels/softmax.cu.
type softmaxLines struct{ Count, Size, Step, Log int32 }

// launchSoftmax launches a kernel that processes lines along an axis.
func launchSoftmax(c *compiler, kernel string, s op.Softmax, k call, operands ...driver.Pointer) {
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
		launchPerRow(c, kernel, int(l.Count), n, args...)
	case n <= 16:
		c.launch(kernel+"_thread", dim{uint32(l.Count+127) / 128, 1, 1}, dim{128, 1, 1}, args...)
	default:
		c.launch(kernel+"_column", dim{uint32(l.Count+31) / 32, 1, 1}, threads, args...)
	}
}
