package cpu

import "github.com/dptrain/dptrain/internal/op"

// rotary turns pairs of columns by angles that are worked out once.
func (c compiler) rotary(s op.Rotary, k call) func() {
	steps, width, half := k.shape[1], k.shape[2], s.HeadDim/2
	cos, sin := op.RotaryAngles[float32](s, steps)
	out, in := k.out, k.in[0]
	return c.over(k.shape[0]*steps, 2*width, func(from, to int, _ *worker) {
		for r := from; r < to; r++ {
			x, y := in[r*width:][:width], out[r*width:][:width]
			cs, sn := cos[r%steps*half:][:half], sin[r%steps*half:][:half]
			for head := 0; head < s.RotaryDims; head += s.HeadDim {
				x1, x2 := x[head:][:half], x[head+half:][:half]
				y1, y2 := y[head:][:half], y[head+half:][:half]
				for j, a := range x1 {
					b := x2[j]
					y1[j], y2[j] = a*cs[j]-b*sn[j], a*sn[j]+b*cs[j]
				}
			}
			copy(y[s.RotaryDims:], x[s.RotaryDims:])
		}
	})
}
