//go:build gpu

package cuda

import (
	"math"

	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/internal/op"
)

// convolution is a convolution's geometry.
type convolution struct {
	op.ConvWeight
	high, wide, area int // places of the result
	cg, og           int // of a group: channels, outputs
	cells, width     int // under the kernel, of one channel and of a group's
}

func newConvolution(f op.ConvWeight) convolution {
	v := convolution{ConvWeight: f, cg: f.C / f.Groups, og: f.O / f.Groups, cells: f.KernelH * f.KernelW}
	v.high, v.wide, _ = f.OutputSize(f.H, f.W)
	v.area = v.high * v.wide
	v.width = v.cg * v.cells
	return v
}

// patched tells whether there are kernels for the geometry: each row and column of a
// window has a bit, one is left that stands for none, and the bytes of a picture and
// of a weight are counted in 31 bits.
func (v convolution) patched() bool {
	return v.KernelH+v.KernelW < 32 && max(v.C*v.H*v.W, v.O*v.area, v.Size()) < 1<<29
}

// planes are pictures as kernels/patch.h lays them out.
type planes struct {
	Data           driver.Pointer
	Picture, Group int32
}

// pictures are the planes that the convolution reads.
func (v convolution) pictures(x driver.Pointer) planes {
	return planes{x, int32(v.C * v.H * v.W), int32(v.cg * v.H * v.W)}
}

// signals are the gradient of the result, read in patches of their own.
func (v convolution) signals(delta driver.Pointer) planes {
	return planes{delta, int32(v.O * v.area), int32(v.og * v.area)}
}

// reaches is a table of struct Reach of kernels/patch.h: bytes and sides in turn.
type reaches []int32

func (r *reaches) add(cell int, sides uint32) { *r = append(*r, int32(4*cell), int32(sides)) }

// pad adds entries that see zeros up to a multiple of n: taps of a bit that no corner
// has, corners without any.
func (r *reaches) pad(n int, sides uint32) {
	for len(*r)%(2*n) != 0 {
		r.add(0, sides)
	}
}

const noSide = 1 << 31

// axis is how far the cells of a window lie from its corner along one axis.
type axis []int

func axisOf(cells, pad, dilation int) axis {
	a := make(axis, cells)
	for k := range a {
		a[k] = k*dilation - pad
	}
	return a
}

// inside has a bit for every cell of the window that lies inside a picture of the
// given size when the corner is at a cell.
func (a axis) inside(corner, size int) (bits uint32) {
	for k, far := range a {
		if at := corner + far; at >= 0 && at < size {
			bits |= 1 << k
		}
	}
	return bits
}

// corners is the table for places row by row, a step of cells apart, of planes of
// height by width.
func (r *reaches) corners(rows, columns axis, high, wide, down, across, height, width int) {
	for y := 0; y < high*down; y += down {
		for x := 0; x < wide*across; x += across {
			r.add(y*width+x, rows.inside(y, height)|columns.inside(x, width)<<len(rows))
		}
	}
}

// axes are those of the convolution's window.
func (v convolution) axes() (rows, columns axis) {
	return axisOf(v.KernelH, v.PadH, v.DilationH), axisOf(v.KernelW, v.PadW, v.DilationW)
}

// corners is the table of the places of a picture, up to a multiple of four.
func (v convolution) corners() (table reaches) {
	rows, columns := v.axes()
	table.corners(rows, columns, v.high, v.wide, v.StrideH, v.StrideW, v.H, v.W)
	table.pad(4, 0)
	return table
}

// taps is the table of the elements of a patch, up to a multiple of four.
func (v convolution) taps() (table reaches) {
	rows, columns := v.axes()
	for ch := range v.cg {
		for ky, y := range rows {
			for kx, x := range columns {
				table.add(ch*v.H*v.W+y*v.W+x, 1<<ky|1<<(v.KernelH+kx))
			}
		}
	}
	table.pad(4, noSide)
	return table
}

// deepest is how many blocks a grid may be high or deep.
var deepest = math.MaxUint16

func fits(blocks int) bool { return blocks <= deepest }
