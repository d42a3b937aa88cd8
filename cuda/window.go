//go:build gpu

package cuda

import (
	"math/bits"

	"github.com/dptrain/dptrain/internal/op"
)

// divider divides by a number through a product, as kernels/divide.h says.
type divider struct{ Multiplier, Shift, By uint32 }

func newDivider(by int) divider {
	shift := bits.Len32(uint32(by - 1))
	return divider{uint32(((uint64(1)<<shift-uint64(by))<<32)/uint64(by) + 1), uint32(shift), uint32(by)}
}

// windowGeometry is a window over planes, as kernels/window.h lays it out.
type windowGeometry struct {
	Height, Width         int32
	High, Wide            int32
	KernelH, KernelW      int32
	StrideH, StrideW      int32
	PadH, PadW            int32
	DilationH, DilationW  int32
	Row, Plane            divider
	Line, Picture         divider
	Down, Across, PerCell divider
}

func newWindowGeometry(w op.Window, height, width int) windowGeometry {
	oh, ow, _ := w.OutputSize(height, width)
	return windowGeometry{
		Height: int32(height), Width: int32(width), High: int32(oh), Wide: int32(ow),
		KernelH: int32(w.KernelH), KernelW: int32(w.KernelW), StrideH: int32(w.StrideH), StrideW: int32(w.StrideW),
		PadH: int32(w.PadH), PadW: int32(w.PadW), DilationH: int32(w.DilationH), DilationW: int32(w.DilationW),
		Row: newDivider(ow), Plane: newDivider(oh), Line: newDivider(width), Picture: newDivider(height),
		Down: newDivider(w.StrideH), Across: newDivider(w.StrideW), PerCell: newDivider(w.KernelW),
	}
}

// lowerIm2Col writes each window of a picture out as a row.
func (c *compiler) lowerIm2Col(s op.Im2Col, k call) {
	x, n := k.shapes[0], k.results()
	cells := s.KernelH * s.KernelW
	c.launch("windows", blocks(n), threads, k.out, k.in[0], int32(n),
		newDivider(x[1]*cells), newDivider(cells), int32(x[1]), newWindowGeometry(s.Window, x[2], x[3]))
}

// lowerCol2Im adds rows back to the pictures that they came from.
func (c *compiler) lowerCol2Im(s op.Col2Im, k call) {
	n := k.results()
	c.launch("fold_windows", blocks(n), threads, k.out, k.in[0], int32(n), newDivider(s.C), newWindowGeometry(s.Window, s.H, s.W))
}
