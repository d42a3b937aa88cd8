package cpu

import (
	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/simd"
)

// window is a window over pictures of c planes of h by w.
func window(w op.Window, c, height, width int) simd.Window {
	return simd.Window{
		C: c, H: height, W: width, KH: w.KernelH, KW: w.KernelW, StrideH: w.StrideH, StrideW: w.StrideW,
		PadH: w.PadH, PadW: w.PadW, DilH: w.DilationH, DilW: w.DilationW,
	}
}

// convolution is a convolution's geometry: with the windows of a picture written
// out as columns, [taps, area] for each group, the result is W·columns, the
// weight's gradient Δ·columnsᵀ, and the picture's Wᵀ·Δ folded back.
type convolution struct {
	op.ConvWeight
	window       simd.Window // over the channels of one group
	area         int         // places of the result
	cg, og, taps int         // of a group: channels, outputs, elements under the kernel

	unfolding *simd.Unfolding
}

func newConvolution(f op.ConvWeight) *convolution {
	v := &convolution{ConvWeight: f, cg: f.C / f.Groups, og: f.O / f.Groups}
	v.window = window(f.Window, v.cg, f.H, f.W)
	oh, ow := v.window.Out()
	v.area = oh * ow
	v.taps = v.cg * f.KernelH * f.KernelW
	v.unfolding = v.window.Unfolding()
	return v
}

// direct tells whether a picture is its own columns.
func (v *convolution) direct() bool {
	return v.KernelH == 1 && v.KernelW == 1 && v.StrideH == 1 && v.StrideW == 1 && v.PadH == 0 && v.PadW == 0
}

// patches is how many floats the columns of one group hold.
func (v *convolution) patches() int { return v.taps * v.area }

// scratch is how many floats it takes to write them out.
func (v *convolution) scratch() int {
	columns, phases := v.unfolding.Floats()
	return columns + phases
}

// picture is one picture of several.
func (v *convolution) picture(x []float32, n int) []float32 {
	size := v.C * v.H * v.W
	return x[n*size : (n+1)*size]
}

// result is what belongs to one picture.
func (v *convolution) result(y []float32, n int) []float32 {
	size := v.O * v.area
	return y[n*size : (n+1)*size]
}

// channels are those of one group of a picture.
func (v *convolution) channels(picture []float32, g int) []float32 {
	size := v.cg * v.H * v.W
	return picture[g*size : (g+1)*size]
}

// columns are those of group g of a picture, in the worker's scratch memory
// where they are not the picture itself.
func (v *convolution) columns(picture []float32, g int, w *worker) []float32 {
	if v.direct() {
		return v.channels(picture, g)
	}
	return v.unfold(v.channels(picture, g), w.floats(v.scratch()))
}

// unfold writes the columns of some channels out.
func (v *convolution) unfold(channels, memory []float32) []float32 {
	columns, _ := v.unfolding.Floats()
	v.unfolding.Columns(memory[:columns], channels, memory[columns:])
	return memory[:v.patches()]
}
