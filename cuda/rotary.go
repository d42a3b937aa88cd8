//go:build gpu

package cuda

import "github.com/dptrain/dptrain/internal/op"

// lowerRotary turns pairs of columns by angles that are worked out once, in float64.
func (c *compiler) lowerRotary(s op.Rotary, k call) {
	steps, width := k.shape[1], k.shape[2]
	cos, sin := op.RotaryAngles[float32](s, steps)
	c.launch("rotary", blocks(k.results()), threads, k.out, k.in[0], c.constantBytes(bytesOf(cos)), c.constantBytes(bytesOf(sin)),
		int32(k.results()), int32(steps), int32(width), int32(s.HeadDim), int32(s.RotaryDims))
}
