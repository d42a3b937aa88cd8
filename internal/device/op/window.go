package op

import (
	"fmt"
	"slices"

	"gorgonia.org/tensor"
)

// Window is the geometry of a kernel that moves over the pictures of a [B, C, H, W]
// tensor.
type Window struct {
	KernelH, KernelW     int
	StrideH, StrideW     int
	PadH, PadW           int // rows and columns added on each side
	DilationH, DilationW int // distance of neighbouring cells of the kernel
}

func (w Window) String() string {
	return fmt.Sprintf("k%dx%d,s%dx%d,p%dx%d,d%dx%d", w.KernelH, w.KernelW,
		w.StrideH, w.StrideW, w.PadH, w.PadW, w.DilationH, w.DilationW)
}

// OutputSize is the size of the result for pictures of height by width.
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
		return 0, fmt.Errorf("a kernel of %d with dilation %d is larger than size %d with padding %d", kernel, dilation, size, pad)
	}
	return room/stride + 1, nil
}

// checkPicture checks a [B, C, H, W] shape and returns the size of the result.
func (w Window) checkPicture(s tensor.Shape) (oh, ow int, err error) {
	if s.Dims() != 4 {
		return 0, 0, fmt.Errorf("shape %v: [batch, channels, height, width] is needed", s)
	}
	return w.OutputSize(s[2], s[3])
}

// tap means that element Out of the result reads cell Picture of the picture through cell
// Kernel of the kernel. All three are row-major indices.
type tap struct{ Out, Kernel, Picture int }

// taps lists all pairs of an output position and a cell that is not padding, position by
// position, cell by cell.
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

// Im2Col writes the window of x [B, C, H, W] at each position as a row, with padding as
// zeros: [B, OH, OW, C·KernelH·KernelW]. It is the first half of Gorgonia's convolution;
// Conv2D needs no such copy.
type Im2Col struct{ Window }

func (m Im2Col) String() string { return fmt.Sprintf("im2col{%v}", m.Window) }

func (m Im2Col) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 1); err != nil {
		return nil, err
	}
	oh, ow, err := m.checkPicture(in[0])
	if err != nil {
		return nil, err
	}
	return tensor.Shape{in[0][0], oh, ow, in[0][1] * m.KernelH * m.KernelW}, nil
}

// forEachCell calls f with the indices in the rows and in x of every cell that is not
// padding, for x of the given shape.
func (m Im2Col) forEachCell(x tensor.Shape, f func(row, picture int)) {
	oh, ow, _ := m.OutputSize(x[2], x[3])
	taps := m.taps(x[2], x[3])
	k := m.KernelH * m.KernelW
	for b := range x[0] {
		for c := range x[1] {
			for _, t := range taps {
				f(((b*oh*ow+t.Out)*x[1]+c)*k+t.Kernel, (b*x[1]+c)*x[2]*x[3]+t.Picture)
			}
		}
	}
}

func (m Im2Col) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	clear(out)
	m.forEachCell(shapes[0], func(row, picture int) { out[row] = in[0][picture] })
}

func (m Im2Col) Rows(int) []bool { return allTrue(1) }

// Col2Im adds the cells of rows back to the pictures [C, H, W] that Im2Col took them
// from: the adjoint of Im2Col.
type Col2Im struct {
	Window
	C, H, W int
}

func (m Col2Im) String() string { return fmt.Sprintf("col2im{%v,%dx%dx%d}", m.Window, m.C, m.H, m.W) }

func (m Col2Im) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 1); err != nil {
		return nil, err
	}
	if in[0].Dims() != 4 {
		return nil, fmt.Errorf("rows of shape %v: [batch, height, width, cells] is needed", in[0])
	}
	x := tensor.Shape{in[0][0], m.C, m.H, m.W}
	rows, err := Im2Col{m.Window}.Shape([]tensor.Shape{x})
	if err == nil && !slices.Equal(rows, in[0]) {
		err = fmt.Errorf("rows of shape %v where %v is needed", in[0], rows)
	}
	return x, err
}

func (m Col2Im) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	clear(out)
	x := tensor.Shape{shapes[0][0], m.C, m.H, m.W}
	Im2Col{m.Window}.forEachCell(x, func(row, picture int) { out[picture] += in[0][row] })
}

func (m Col2Im) Rows(int) []bool { return allTrue(1) }
