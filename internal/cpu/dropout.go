package cpu

import (
	"math"

	"github.com/dptrain/dptrain/internal/op"
)

// dropout takes four elements with each turn of the generator; words choose by
// arithmetic, for a branch on them could not be foretold.
func (c compiler) dropout(s op.Dropout, k call) func() {
	out, in, tickets := k.out, k.in[0], k.in[1]
	examples := k.shape[0]
	n := len(out) / examples
	k0, k1 := s.Key()
	least, scale := int64(s.Threshold()), float32(s.Scale())
	keep := func(word uint32, x float32) float32 {
		stays := ^uint32((int64(word) - least) >> 63)
		return math.Float32frombits(math.Float32bits(x*scale) & stays)
	}
	const cost = 12
	blocks := (n + 3) / 4
	return c.over(examples*blocks, 4*cost, func(from, to int, _ *worker) {
		for from < to {
			e, first := from/blocks, from%blocks
			last := min(blocks, first+to-from)
			from += last - first
			x, y := in[e*n:(e+1)*n], out[e*n:(e+1)*n]
			c1, c2, c3, ok := op.MaskCounter(tickets[e*op.MaskSeedWidth:][:op.MaskSeedWidth])
			if !ok {
				for i := 4 * first; i < min(4*last, n); i++ {
					y[i] = float32(math.NaN())
				}
				continue
			}
			for b := first; b < last; b++ {
				w0, w1, w2, w3 := op.Philox(uint32(b), c1, c2, c3, k0, k1)
				if i := 4 * b; i+4 <= n {
					u, v := x[i:i+4:i+4], y[i:i+4:i+4]
					v[0], v[1], v[2], v[3] = keep(w0, u[0]), keep(w1, u[1]), keep(w2, u[2]), keep(w3, u[3])
					continue
				}
				words := [4]uint32{w0, w1, w2, w3}
				for i := 4 * b; i < n; i++ {
					y[i] = keep(words[i%4], x[i])
				}
			}
		}
	})
}
