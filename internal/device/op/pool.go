package op

import (
	"fmt"
	"math"
	"slices"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// pooledShape checks that the window covers a cell of the picture at every position. It
// returns the result's shape.
func (w Window) pooledShape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 1); err != nil {
		return nil, err
	}
	x := in[0]
	oh, ow, err := w.checkPicture(x)
	if err != nil {
		return nil, err
	}
	if !coversPicture(x[2], oh, w.KernelH, w.StrideH, w.PadH, w.DilationH) ||
		!coversPicture(x[3], ow, w.KernelW, w.StrideW, w.PadW, w.DilationW) {
		return nil, fmt.Errorf("%v over %v: at some position the window covers only padding", w, x)
	}
	return tensor.Shape{x[0], x[1], oh, ow}, nil
}

// coversPicture reports whether a kernel covers a cell other than padding at every
// position along one axis.
func coversPicture(size, places, kernel, stride, pad, dilation int) bool {
	for at := range places {
		k := 0
		for first := at*stride - pad; k < kernel && (first+k*dilation < 0 || first+k*dilation >= size); {
			k++
		}
		if k == kernel {
			return false
		}
	}
	return true
}

// MaxPool2D is the maximum of each window of x [B, C, H, W]. Padding is never the
// maximum; a NaN always is.
type MaxPool2D struct{ Window }

func (p MaxPool2D) String() string { return fmt.Sprintf("maxPool2d{%v}", p.Window) }

func (p MaxPool2D) Shape(in []tensor.Shape) (tensor.Shape, error) { return p.pooledShape(in) }

// forEachMax calls f with each index of the result and the index of its maximum in x: the
// first of the largest.
func (w Window) forEachMax(x []float64, s tensor.Shape, f func(out, in int)) {
	oh, ow, _ := w.checkPicture(s)
	taps := w.taps(s[2], s[3])
	best := make([]int, oh*ow)
	for c := range s[0] * s[1] {
		picture := x[c*s[2]*s[3]:]
		for i := range best {
			best[i] = -1
		}
		for _, t := range taps {
			b := &best[t.Out]
			v := picture[t.Picture]
			if *b < 0 || v > picture[*b] || math.IsNaN(v) && !math.IsNaN(picture[*b]) {
				*b = t.Picture
			}
		}
		for i, b := range best {
			f(c*oh*ow+i, c*s[2]*s[3]+b)
		}
	}
}

func (p MaxPool2D) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	p.forEachMax(in[0], shapes[0], func(o, i int) { out[o] = in[0][i] })
}

func (p MaxPool2D) Rows(int) []bool { return allTrue(1) }
func (p MaxPool2D) Wrt(int) []bool  { return allTrue(1) }

func (p MaxPool2D) Diff(in G.Nodes, _, grad *G.Node) (G.Nodes, error) {
	d, err := Apply(MaxPoolGrad(p), in[0], grad)
	return G.Nodes{d}, err
}

// MaxPoolGrad is the gradient in x, from x and the gradient of the result. It searches
// the maxima again.
type MaxPoolGrad struct{ Window }

func (p MaxPoolGrad) String() string { return fmt.Sprintf("maxPoolGrad{%v}", p.Window) }

func (p MaxPoolGrad) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 2); err != nil {
		return nil, err
	}
	y, err := p.pooledShape(in[:1])
	if err != nil {
		return nil, err
	}
	if !slices.Equal(in[1], y) {
		return nil, fmt.Errorf("gradient of shape %v where %v is needed", in[1], y)
	}
	return in[0].Clone(), nil
}

func (p MaxPoolGrad) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	clear(out)
	p.forEachMax(in[0], shapes[0], func(o, i int) { out[i] += in[1][o] })
}

// AvgPool2D is the mean of each window of x [B, C, H, W]. Padding counts as zeros, the
// default of PyTorch. A window of the size of the picture makes it global average
// pooling.
type AvgPool2D struct{ Window }

func (p AvgPool2D) String() string { return fmt.Sprintf("avgPool2d{%v}", p.Window) }

func (p AvgPool2D) Shape(in []tensor.Shape) (tensor.Shape, error) { return p.pooledShape(in) }

func (p AvgPool2D) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	clear(out)
	s := shapes[0]
	taps := p.taps(s[2], s[3])
	n := len(out) / (s[0] * s[1])
	for c := range s[0] * s[1] {
		for _, t := range taps {
			out[c*n+t.Out] += in[0][c*s[2]*s[3]+t.Picture] / float64(p.KernelH*p.KernelW)
		}
	}
}

func (p AvgPool2D) Rows(int) []bool { return allTrue(1) }
func (p AvgPool2D) Wrt(int) []bool  { return allTrue(1) }

func (p AvgPool2D) Diff(in G.Nodes, _, grad *G.Node) (G.Nodes, error) {
	s := in[0].Shape()
	d, err := Apply(AvgPoolGrad{p.Window, s[2], s[3]}, grad)
	return G.Nodes{d}, err
}

// AvgPoolGrad is the gradient in pictures of H by W, from the gradient of the result.
type AvgPoolGrad struct {
	Window
	H, W int
}

func (p AvgPoolGrad) String() string { return fmt.Sprintf("avgPoolGrad{%v,%dx%d}", p.Window, p.H, p.W) }

func (p AvgPoolGrad) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 1); err != nil {
		return nil, err
	}
	if in[0].Dims() != 4 {
		return nil, fmt.Errorf("gradient of shape %v: [batch, channels, height, width] is needed", in[0])
	}
	x := tensor.Shape{in[0][0], in[0][1], p.H, p.W}
	y, err := p.pooledShape([]tensor.Shape{x})
	if err != nil {
		return nil, err
	}
	if !slices.Equal(in[0], y) {
		return nil, fmt.Errorf("gradient of shape %v where %v is needed", in[0], y)
	}
	return x, nil
}

func (p AvgPoolGrad) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	clear(out)
	s := shapes[0]
	taps := p.taps(p.H, p.W)
	for c := range s[0] * s[1] {
		for _, t := range taps {
			out[c*p.H*p.W+t.Picture] += in[0][c*s[2]*s[3]+t.Out] / float64(p.KernelH*p.KernelW)
		}
	}
}
