//go:build gpu

package cuda

import "github.com/dptrain/dptrain/internal/op"

// rotary turns pairs of columns by angles that are worked out once, in float64.
func (c *compiler) rotary(s op.Rotary, k call) {
	steps, width := k.shape[1], k.shape[2]
	cos, sin := s.Turns(steps)
	c.launch("rotary", blocks(k.results()), threads, k.out, k.in[0], c.constantFloats(singles(cos)), c.constantFloats(singles(sin)),
		int32(k.results()), int32(steps), int32(width), int32(s.Head), int32(s.Turned))
}

func singles(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}
