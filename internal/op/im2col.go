package op

import (
	"fmt"
	"slices"

	"gorgonia.org/tensor"
)

// Im2Col lays out the window of x [B, C, H, W] at each place as a row, padding as
// zeros: [B, OH, OW, C·KernelH·KernelW]. It is the first half of Gorgonia's
// convolution; Conv2D needs no such copy.
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

// forEachCell calls f with the places in the rows and in x of every cell that is no
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

// Col2Im adds the cells of rows back to the pictures [C, H, W] that Im2Col took
// them from: its adjoint.
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
