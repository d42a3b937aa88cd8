//go:build gpu

package compile

import (
	"math"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/op"
)

// convGeometry is a convolution's geometry.
type convGeometry struct {
	op.ConvWeight
	outH, outW, outArea         int // positions of the result
	groupChannels, groupOutputs int // of a group: channels, outputs
	kernelCells, patchWidth     int // under the kernel, of one channel and of a group's
}

func newConvGeometry(f op.ConvWeight) convGeometry {
	v := convGeometry{ConvWeight: f, groupChannels: f.C / f.Groups, groupOutputs: f.O / f.Groups, kernelCells: f.KernelH * f.KernelW}
	v.outH, v.outW, _ = f.OutputSize(f.H, f.W)
	v.outArea = v.outH * v.outW
	v.patchWidth = v.groupChannels * v.kernelCells
	return v
}

// supported reports whether there are kernels for the geometry: each row and column of a
// window has a bit, one bit is left for "never inside", and the bytes of an image and of a
// weight fit in 31 bits.
func (v convGeometry) supported() bool {
	return v.KernelH+v.KernelW < 32 && max(v.C*v.H*v.W, v.O*v.outArea, v.Size()) < 1<<29
}

// patchImages is struct Images of kernels/patch.h.
type patchImages struct {
	Data                 driver.Pointer
	ImageSize, GroupSize int32
}

// inputImages are the images that the convolution reads.
func (v convGeometry) inputImages(x driver.Pointer) patchImages {
	return patchImages{x, int32(v.C * v.H * v.W), int32(v.groupChannels * v.H * v.W)}
}

// deltaImages are the images of the gradient of the result, which the backward pass reads
// in patches.
func (v convGeometry) deltaImages(delta driver.Pointer) patchImages {
	return patchImages{delta, int32(v.O * v.outArea), int32(v.groupOutputs * v.outArea)}
}

// patchOffsets is a table of struct PatchOffset of kernels/patch.h: byte offsets and masks in
// turn.
type patchOffsets []int32

func (r *patchOffsets) add(cell int, mask uint32) { *r = append(*r, int32(4*cell), int32(mask)) }

// pad adds entries that read zeros up to a multiple of n: taps with a bit that no corner
// has, corners without any bit.
func (r *patchOffsets) pad(n int, mask uint32) {
	for len(*r)%(2*n) != 0 {
		r.add(0, mask)
	}
}

const unmatchedBit = 1 << 31

// axisOffsets are the offsets of a window's cells from its corner along one axis.
type axisOffsets []int

func newAxisOffsets(cells, pad, dilation int) axisOffsets {
	a := make(axisOffsets, cells)
	for k := range a {
		a[k] = k*dilation - pad
	}
	return a
}

// inside returns one bit for each cell of the window that lies inside an image of this
// size when the window is at this corner.
func (a axisOffsets) inside(corner, size int) (bits uint32) {
	for k, offset := range a {
		if at := corner + offset; at >= 0 && at < size {
			bits |= 1 << k
		}
	}
	return bits
}

// windowGrid is a grid of high by wide windows, at steps of down and across cells.
type windowGrid struct{ high, wide, down, across int }

// corners adds the corners of all windows row by row, for planes of height by width.
func (r *patchOffsets) corners(rows, columns axisOffsets, w windowGrid, height, width int) {
	for y := 0; y < w.high*w.down; y += w.down {
		for x := 0; x < w.wide*w.across; x += w.across {
			r.add(y*width+x, rows.inside(y, height)|columns.inside(x, width)<<len(rows))
		}
	}
}

// axes are the offsets of the convolution's window.
func (v convGeometry) axes() (rows, columns axisOffsets) {
	return newAxisOffsets(v.KernelH, v.PadH, v.DilationH), newAxisOffsets(v.KernelW, v.PadW, v.DilationW)
}

// corners is the table of the output positions of an image, padded to a multiple of four.
func (v convGeometry) corners() (table patchOffsets) {
	rows, columns := v.axes()
	table.corners(rows, columns, windowGrid{v.outH, v.outW, v.StrideH, v.StrideW}, v.H, v.W)
	table.pad(4, 0)
	return table
}

// taps is the table of the elements of a patch, padded to a multiple of four.
func (v convGeometry) taps() (table patchOffsets) {
	rows, columns := v.axes()
	for ch := range v.groupChannels {
		for ky, y := range rows {
			for kx, x := range columns {
				table.add(ch*v.H*v.W+y*v.W+x, 1<<ky|1<<(v.KernelH+kx))
			}
		}
	}
	table.pad(4, unmatchedBit)
	return table
}

// maxGridDepth is the largest number of blocks of a grid in y and z.
var maxGridDepth = math.MaxUint16

func fitsGridDepth(blocks int) bool { return blocks <= maxGridDepth }
