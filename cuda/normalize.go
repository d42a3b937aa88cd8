//go:build gpu

package cuda

import "github.com/dptrain/dptrain/internal/op"

// teams launches a kernel that gives every row, n elements long, to a team: a warp
// where rows are short, a block where they are long. Rows alone decide, so that
// a record's bits do not depend on how many there are.
func (c *compiler) teams(kernel string, rows, n int, args ...any) {
	switch {
	case n <= 1024:
		c.launch(kernel+"_warp", dim{uint32(ceil(rows, 4)), 1, 1}, dim{128, 1, 1}, args...)
	case n <= 16384:
		c.launch(kernel+"_block", dim{uint32(rows), 1, 1}, dim{256, 1, 1}, args...)
	default:
		c.launch(kernel+"_block", dim{uint32(rows), 1, 1}, dim{1024, 1, 1}, args...)
	}
}

// chunks are laid out as in kernels/normalize.cu.
type chunks struct {
	Count, Size, Center, _ int32
	Epsilon                float64
}

func newChunks(s op.Normalize, elements int) chunks {
	return chunks{Count: int32(elements / s.Chunk), Size: int32(s.Chunk), Center: flag(s.Center), Epsilon: s.Eps}
}

func (c *compiler) normalize(s op.Normalize, k call) {
	n := newChunks(s, k.results())
	c.teams("normalize", int(n.Count), s.Chunk, k.out, k.in[0], n)
}

func (c *compiler) normalizeGrad(s op.NormalizeGrad, k call) {
	n := newChunks(op.Normalize(s), k.results())
	c.teams("normalize_gradient", int(n.Count), s.Chunk, k.out, k.in[0], k.in[1], n)
}
