//go:build gpu

package cuda

import (
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
	v.high, v.wide, _ = f.Over(f.H, f.W)
	v.area = v.high * v.wide
	v.width = v.cg * v.cells
	return v
}

// planes and places are pictures and their patches as kernels/patch.h lays them out.
type planes struct {
	Data                         driver.Pointer
	Height, Width                int32
	Picture, Group, Down, Across int32
}

type places struct{ Area, Row divider }

// pictures are the planes that the convolution reads.
func (v convolution) pictures(x driver.Pointer) planes {
	return planes{x, int32(v.H), int32(v.W), int32(v.C * v.H * v.W), int32(v.cg * v.H * v.W), int32(v.StrideH), int32(v.StrideW)}
}

// signals are the gradient of the result, read in patches of their own.
func (v convolution) signals(delta driver.Pointer) planes {
	return planes{delta, int32(v.high), int32(v.wide), int32(v.O * v.area), int32(v.og * v.area), 1, 1}
}

func (v convolution) places() places { return places{newDivider(v.area), newDivider(v.wide)} }

// reach is how far a cell of the kernel lies from the corner along one axis.
func reach(cell, pad, dilation int) int { return cell*dilation - pad }

// taps are the elements of a patch: how far each lies from the corner's cell, in
// elements, rows and columns.
func (v convolution) taps() []int32 {
	var list []int32
	for ch := range v.cg {
		for ky := range v.KernelH {
			for kx := range v.KernelW {
				y, x := reach(ky, v.PadH, v.DilationH), reach(kx, v.PadW, v.DilationW)
				list = append(list, int32(ch*v.H*v.W+y*v.W+x), int32(y), int32(x), 0)
			}
		}
	}
	return list
}
