//go:build gpu

package compile

import (
	"math/bits"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/op"
)

// divider divides by a constant with a multiplication and a shift: struct Divider of
// kernels/divide.h.
type divider struct{ Multiplier, Shift, By uint32 }

func newDivider(by int) divider {
	shift := bits.Len32(uint32(by - 1))
	return divider{uint32(((uint64(1)<<shift-uint64(by))<<32)/uint64(by) + 1), uint32(shift), uint32(by)}
}

// windowGeometry is struct Window of kernels/window.h.
type windowGeometry struct {
	Height, Width                   int32
	OutHeight, OutWidth             int32
	KernelH, KernelW                int32
	StrideH, StrideW                int32
	PadH, PadW                      int32
	DilationH, DilationW            int32
	ByOutWidth, ByOutHeight         divider
	ByWidth, ByHeight               divider
	ByStrideH, ByStrideW, ByKernelW divider
}

func newWindowGeometry(w op.Window, height, width int) windowGeometry {
	oh, ow, _ := w.OutputSize(height, width)
	return windowGeometry{
		Height: int32(height), Width: int32(width), OutHeight: int32(oh), OutWidth: int32(ow),
		KernelH: int32(w.KernelH), KernelW: int32(w.KernelW), StrideH: int32(w.StrideH), StrideW: int32(w.StrideW),
		PadH: int32(w.PadH), PadW: int32(w.PadW), DilationH: int32(w.DilationH), DilationW: int32(w.DilationW),
		ByOutWidth: newDivider(ow), ByOutHeight: newDivider(oh), ByWidth: newDivider(width), ByHeight: newDivider(height),
		ByStrideH: newDivider(w.StrideH), ByStrideW: newDivider(w.StrideW), ByKernelW: newDivider(w.KernelW),
	}
}

// lowerIm2Col writes each window of an image as a row.
func lowerIm2Col(c *compiler, s op.Im2Col, k call) {
	x, n := k.shapes[0], k.results()
	cells := s.KernelH * s.KernelW
	c.launch("im2col", blocks(n), threads, k.out, k.in[0], int32(n),
		newDivider(x[1]*cells), newDivider(cells), int32(x[1]), newWindowGeometry(s.Window, x[2], x[3]))
}

// lowerCol2Im adds rows to the images from which Im2Col read them.
func lowerCol2Im(c *compiler, s op.Col2Im, k call) {
	n := k.results()
	c.launch("col2im", blocks(n), threads, k.out, k.in[0], int32(n), newDivider(s.C), newWindowGeometry(s.Window, s.H, s.W))
}

// maxPoolKey identifies the memory that stores which cells the maxima of a buffer came
// from; the gradient reads it.
type maxPoolKey struct {
	buffer        int
	window        op.Window
	height, width int
}

func lowerMaxPool(c *compiler, s op.MaxPool2D, k call) {
	h, w := k.shapes[0][2], k.shapes[0][3]
	at, _ := c.sharedMemory(maxPoolKey{k.bases[0], s.Window, h, w}, 4*k.results())
	c.launch("max_pool", blocks(k.results()), threads, k.out, at, k.in[0], int32(k.results()), newWindowGeometry(s.Window, h, w))
}

func lowerMaxPoolGrad(c *compiler, s op.MaxPoolGrad, k call) {
	h, w := k.shapes[0][2], k.shapes[0][3]
	over := newWindowGeometry(s.Window, h, w)
	at, known := c.sharedMemory(maxPoolKey{k.bases[0], s.Window, h, w}, 4*k.size(1))
	if !known {
		c.launch("max_pool", blocks(k.size(1)), threads, driver.Pointer(0), at, k.in[0], int32(k.size(1)), over)
	}
	c.launch("max_pool_gradient", blocks(k.results()), threads, k.out, k.in[1], at, int32(k.results()), over)
}

func lowerAvgPool(c *compiler, s op.AvgPool2D, k call) {
	n := k.results()
	kernel, grid := "average_pool", blocks(n)
	if s.KernelH*s.KernelW >= 32 {
		kernel, grid = "average_pool_wide", blocks(32*n)
	}
	c.launch(kernel, grid, threads, k.out, k.in[0], int32(n), newWindowGeometry(s.Window, k.shapes[0][2], k.shapes[0][3]))
}

func lowerAvgPoolGrad(c *compiler, s op.AvgPoolGrad, k call) {
	n := k.results()
	c.launch("average_pool_gradient", blocks(n), threads, k.out, k.in[0], int32(n), newWindowGeometry(s.Window, s.H, s.W))
}
