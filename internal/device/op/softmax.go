package op

import (
	"fmt"
	"math"

	"gorgonia.org/tensor"
)

// Softmax is exp(x)/Σ exp(x) along an axis, or its logarithm.
type Softmax struct {
	Axis int
	Log  bool
}

func (s Softmax) String() string { return fmt.Sprintf("softmax{%d,%t}", s.Axis, s.Log) }

func (s Softmax) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 1); err != nil {
		return nil, err
	}
	if s.Axis < 0 || s.Axis >= in[0].Dims() {
		return nil, fmt.Errorf("no axis %d in shape %v", s.Axis, in[0])
	}
	return in[0].Clone(), nil
}

// forEachLine calls f for each line along the axis, with the index of its first element,
// the step to the next element, and their number.
func (s Softmax) forEachLine(x tensor.Shape, f func(at, step, n int)) {
	outer, inner := OuterInner(x, s.Axis)
	n := x[s.Axis]
	for o := range outer {
		for i := range inner {
			f(o*n*inner+i, inner, n)
		}
	}
}

func (s Softmax) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	x := in[0]
	s.forEachLine(shapes[0], func(at, step, n int) {
		line := make([]float64, n)
		for k := range line {
			line[k] = x[at+k*step]
		}
		norm := logSumExp(line)
		for k, v := range line {
			v -= norm
			if !s.Log {
				v = math.Exp(v)
			}
			out[at+k*step] = v
		}
	})
}

// SoftmaxGrad is the gradient in x, from the softmax y and its gradient: y·(dy − Σ y·dy),
// or dy − exp(y)·Σ dy for the logarithm.
type SoftmaxGrad Softmax

func (s SoftmaxGrad) String() string { return fmt.Sprintf("softmaxGrad{%d,%t}", s.Axis, s.Log) }

func (s SoftmaxGrad) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if _, err := commonShape(in, 2); err != nil {
		return nil, err
	}
	return Softmax(s).Shape(in[:1])
}

func (s SoftmaxGrad) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	y, dy := in[0], in[1]
	Softmax(s).forEachLine(shapes[0], func(at, step, n int) {
		var sum float64
		for k := range n {
			i := at + k*step
			if s.Log {
				sum += dy[i]
			} else {
				sum += y[i] * dy[i]
			}
		}
		for k := range n {
			i := at + k*step
			if s.Log {
				out[i] = dy[i] - math.Exp(y[i])*sum
			} else {
				out[i] = y[i] * (dy[i] - sum)
			}
		}
	})
}
