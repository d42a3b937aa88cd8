package cpu

import (
	"math"

	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/simd"
)

// deviation gives the mean of a chunk (0 where it is not centred) and the
// reciprocal of its deviation, both in float64.
func deviation(n op.Normalize, x []float32) (mean, scale float64) {
	size := float64(len(x))
	if n.Center {
		mean = simd.Sum(x) / size
	}
	return mean, 1 / math.Sqrt(simd.Deviations(x, mean)/size+n.Eps)
}

func (c compiler) normalize(s op.Normalize, k call) func() {
	out, in, n := k.out, k.in[0], s.Chunk
	return c.over(len(out)/n, n+32, func(from, to int, _ *worker) {
		for r := from; r < to; r++ {
			x, y := in[r*n:(r+1)*n], out[r*n:(r+1)*n]
			mean, scale := deviation(s, x)
			// x·scale − μ·scale would cancel.
			simd.Normalize(y, x, mean, scale)
		}
	})
}

// normalizeGrad is (dx̂ − mean(dx̂) − x̂·mean(dx̂·x̂))/√(σ²+Eps).
func (c compiler) normalizeGrad(s op.NormalizeGrad, k call) func() {
	out, in, delta, n := k.out, k.in[0], k.in[1], s.Chunk
	return c.over(len(out)/n, 2*n+32, func(from, to int, _ *worker) {
		for r := from; r < to; r++ {
			x, d, y := in[r*n:(r+1)*n], delta[r*n:(r+1)*n], out[r*n:(r+1)*n]
			mean, scale := deviation(op.Normalize(s), x)
			var total float64
			if s.Center {
				total = simd.Sum(d)
			}
			along := (simd.Dot(x, d) - mean*simd.Sum(d)) * scale
			shift, slope := float32(total/float64(n)), float32(along*scale/float64(n))
			simd.NormalizeGrad(y, x, d, float32(mean), slope, shift, float32(scale))
		}
	})
}
