package op

import (
	"fmt"

	"gorgonia.org/tensor"
)

// Window is how a kernel moves over the pictures of a [B, C, H, W] tensor.
type Window struct {
	KernelH, KernelW     int
	StrideH, StrideW     int
	PadH, PadW           int // rows and columns added on each side
	DilationH, DilationW int // steps between neighbouring cells of the kernel
}

func (w Window) String() string {
	return fmt.Sprintf("k%dx%d,s%dx%d,p%dx%d,d%dx%d", w.KernelH, w.KernelW,
		w.StrideH, w.StrideW, w.PadH, w.PadW, w.DilationH, w.DilationW)
}

// OutputSize gives the size of the result for pictures of height by width.
func (w Window) OutputSize(height, width int) (oh, ow int, err error) {
	if oh, err = countPositions(height, w.KernelH, w.StrideH, w.PadH, w.DilationH); err != nil {
		return 0, 0, fmt.Errorf("rows: %w", err)
	}
	if ow, err = countPositions(width, w.KernelW, w.StrideW, w.PadW, w.DilationW); err != nil {
		return 0, 0, fmt.Errorf("columns: %w", err)
	}
	return oh, ow, nil
}

// countPositions counts the positions of a kernel along one axis.
func countPositions(size, kernel, stride, pad, dilation int) (int, error) {
	if kernel < 1 || stride < 1 || pad < 0 || dilation < 1 {
		return 0, fmt.Errorf("kernel %d, stride %d, padding %d, dilation %d: padding may be 0, the others start at 1",
			kernel, stride, pad, dilation)
	}
	room := size + 2*pad - (kernel-1)*dilation - 1
	if room < 0 {
		return 0, fmt.Errorf("a kernel of %d, %d apart, is larger than %d with padding %d", kernel, dilation, size, pad)
	}
	return room/stride + 1, nil
}

// checkPicture reads a [B, C, H, W] shape and the size that the window makes of it.
func (w Window) checkPicture(s tensor.Shape) (oh, ow int, err error) {
	if s.Dims() != 4 {
		return 0, 0, fmt.Errorf("shape %v: [batch, channels, height, width] is needed", s)
	}
	return w.OutputSize(s[2], s[3])
}

// tap says that place Out of the result sees cell Picture of the picture through
// cell Kernel of the kernel; all three count row by row.
type tap struct{ Out, Kernel, Picture int }

// taps lists all pairs of a place and a cell that is no padding, place by place,
// cell by cell.
func (w Window) taps(height, width int) []tap {
	oh, ow, _ := w.OutputSize(height, width)
	var list []tap
	for y := range oh {
		for x := range ow {
			for ky := range w.KernelH {
				for kx := range w.KernelW {
					iy := y*w.StrideH - w.PadH + ky*w.DilationH
					ix := x*w.StrideW - w.PadW + kx*w.DilationW
					if iy >= 0 && iy < height && ix >= 0 && ix < width {
						list = append(list, tap{y*ow + x, ky*w.KernelW + kx, iy*width + ix})
					}
				}
			}
		}
	}
	return list
}
