//go:build gpu

package compile

import (
	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/op"
)

// launchPerRow launches a kernel that assigns each row of n elements to a warp if rows are
// short, and to a block if they are long. The choice depends only on n, so a record's bits
// do not depend on the number of rows.
func launchPerRow(c *compiler, kernel string, rows, n int, args ...any) {
	suffix, grid, block := teamOfRow(rows, n)
	c.launch(kernel+suffix, grid, block, args...)
}

// teamOfRow returns the end of a kernel's name, and the grid and block for rows of n elements.
func teamOfRow(rows, n int) (suffix string, grid, block dim) {
	switch {
	case n <= 1024:
		return "_warp", dim{uint32(ceil(rows, 4)), 1, 1}, dim{128, 1, 1}
	case n <= 16384:
		return "_block", dim{uint32(rows), 1, 1}, dim{256, 1, 1}
	}
	return "_block", dim{uint32(rows), 1, 1}, dim{1024, 1, 1}
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
	launchNormalize(c, "normalize", n, k, k.out, k.in[0], n)
}

func lowerNormalizeGrad(c *compiler, s op.NormalizeGrad, k call) {
	n := newNormalizeChunks(op.Normalize(s), k.results())
	launchNormalize(c, "normalize_gradient", n, k, k.out, k.in[0], k.in[1], n)
}

func launchNormalize(c *compiler, kernel string, n normalizeChunks, k call, args ...any) {
	suffix, grid, block := teamOfRow(int(n.Count), int(n.Size))
	c.launchChain(kernel+suffix, grid, block, &chainLaunch{n: k.results(), rows: args})
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
