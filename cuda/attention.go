//go:build gpu

package cuda

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/internal/op"
	"gorgonia.org/tensor"
)

// attentionShape is struct Heads of kernels/attention.cu.
type attentionShape struct {
	Steps, Heads, Size, Causal int32
	Scale                      float32
}

// attentionGrid divides attention among blocks: a block computes 64 steps of one head of
// one example, and up to 128 of the head's columns. A kernel's name gives the number of
// 32-column chunks and the precision of products.
func attentionGrid(c *compiler, kernel string, a op.Attention, x tensor.Shape) (name string, h attentionShape, grid dim) {
	size := x[2] / 3 / a.Heads
	h = attentionShape{int32(x[1]), int32(a.Heads), int32(size), boolArg(a.Causal), float32(1 / math.Sqrt(float64(size)))}
	chunks := 1
	for chunks < 4 && 32*chunks < size {
		chunks *= 2
	}
	parts := ceil(size, 32*chunks)
	name = fmt.Sprintf("%s_%d%s", kernel, chunks, map[Precision]string{TF32: "_tf32", BF16: "_bf16"}[c.options.Precision])
	return name, h, dim{uint32(x[0] * a.Heads), uint32(ceil(x[1], 64)), uint32(parts)}
}

// paddingMask is the optional input that marks padding; 0 if the operation has none.
func paddingMask(in []driver.Pointer) driver.Pointer {
	if len(in) == 0 {
		return 0
	}
	return in[0]
}

func lowerAttention(c *compiler, s op.Attention, k call) {
	kernel, h, grid := attentionGrid(c, "attention", s, k.shapes[0])
	c.launch(kernel, grid, threads, k.out, k.in[0], paddingMask(k.in[1:]), h)
}

// lowerAttentionGrad computes the gradient of the queries and statistics of each row of
// attention weights, then the gradients of keys and values.
func lowerAttentionGrad(c *compiler, s op.AttentionGrad, k call) {
	x := k.shapes[0]
	rows := c.allocScratch(4 * 3 * x[0] * s.Heads * x[1])
	for _, kernel := range []string{"attention_queries", "attention_keys"} {
		kernel, h, grid := attentionGrid(c, kernel, op.Attention(s), x)
		c.launch(kernel, grid, threads, k.out, rows, k.in[0], k.in[1], paddingMask(k.in[2:]), h)
	}
}

// lowerRotary rotates pairs of columns by angles that the host computes once, in float64.
func lowerRotary(c *compiler, s op.Rotary, k call) {
	steps, width := k.shape[1], k.shape[2]
	cos, sin := op.RotaryAngles[float32](s, steps)
	c.launch("rotary", blocks(k.results()), threads, k.out, k.in[0], c.constantBytes(bytesOf(cos)), c.constantBytes(bytesOf(sin)),
		int32(k.results()), int32(steps), int32(width), int32(s.HeadDim), int32(s.RotaryDims))
}
