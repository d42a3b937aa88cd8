package cpu

import (
	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/simd"
)

// scaleRows multiplies equal blocks by their weights; a block of weight 0
// becomes 0 whatever it held.
func (c compiler) scaleRows(k call) func() {
	out, x, weights := k.out, k.in[0], k.in[1]
	n := len(out) / len(weights)
	return c.over(len(weights), n, func(from, to int, _ *worker) {
		for r := from; r < to; r++ {
			y := out[r*n : (r+1)*n]
			if weights[r] == 0 {
				clear(y)
			} else {
				simd.Scale(y, x[r*n:(r+1)*n], weights[r])
			}
		}
	})
}

// scattered lays a view out as the parameter.
func (c compiler) scattered(s op.Scatter, k call) func() {
	first, from := s.Sources()
	out, x := k.out, k.in[0]
	return c.over(s.Size, 3, func(lo, hi int, _ *worker) {
		for i := lo; i < hi; i++ {
			var v float32
			for _, j := range from[first[i]:first[i+1]] {
				v += x[j]
			}
			out[i] = v
		}
	})
}
