//go:build gpu

package cuda

import (
	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/internal/op"
)

// maxPoolKey remembers which cells the maxima of a buffer came from, for the
// gradient that asks for them again.
type maxPoolKey struct {
	buffer        int
	window        op.Window
	height, width int
}

func (c *compiler) lowerMaxPool(s op.MaxPool2D, k call) {
	h, w := k.shapes[0][2], k.shapes[0][3]
	at, _ := c.sharedMemory(maxPoolKey{k.bases[0], s.Window, h, w}, 4*k.results())
	c.launch("max_pool", blocks(k.results()), threads, k.out, at, k.in[0], int32(k.results()), newWindowGeometry(s.Window, h, w))
}

func (c *compiler) lowerMaxPoolGrad(s op.MaxPoolGrad, k call) {
	h, w := k.shapes[0][2], k.shapes[0][3]
	over := newWindowGeometry(s.Window, h, w)
	at, known := c.sharedMemory(maxPoolKey{k.bases[0], s.Window, h, w}, 4*k.size(1))
	if !known {
		c.launch("max_pool", blocks(k.size(1)), threads, driver.Pointer(0), at, k.in[0], int32(k.size(1)), over)
	}
	c.launch("max_pool_gradient", blocks(k.results()), threads, k.out, k.in[1], at, int32(k.results()), over)
}

func (c *compiler) lowerAvgPool(s op.AvgPool2D, k call) {
	n := k.results()
	kernel, grid := "average_pool", blocks(n)
	if s.KernelH*s.KernelW >= 32 {
		kernel, grid = "average_pool_wide", blocks(32*n)
	}
	c.launch(kernel, grid, threads, k.out, k.in[0], int32(n), newWindowGeometry(s.Window, k.shapes[0][2], k.shapes[0][3]))
}

func (c *compiler) lowerAvgPoolGrad(s op.AvgPoolGrad, k call) {
	n := k.results()
	c.launch("average_pool_gradient", blocks(n), threads, k.out, k.in[0], int32(n), newWindowGeometry(s.Window, s.H, s.W))
}
