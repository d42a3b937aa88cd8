package op

import (
	"fmt"
	"math"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Total is Scale times the sum of all elements, a scalar: the loss of a network. Scale is
// a public constant, such as one over the steps of a sequence. It must not depend on the
// number of examples.
type Total struct{ Scale float64 }

func (t Total) String() string { return fmt.Sprintf("total{%g}", t.Scale) }

func (t Total) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 1); err != nil {
		return nil, err
	}
	if in[0].Dims() > MaxDims {
		return nil, fmt.Errorf("shape %v: at most %d axes are supported", in[0], MaxDims)
	}
	return tensor.ScalarShape(), checkScale(t.Scale)
}

// checkScale refuses a scale that makes every gradient zero or not finite.
func checkScale(scale float64) error {
	if scale == 0 || math.IsNaN(scale) || math.IsInf(scale, 0) {
		return fmt.Errorf("scale %g: a finite number other than 0 is needed", scale)
	}
	return nil
}

func (t Total) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	var sum float64
	for _, v := range in[0] {
		sum += v
	}
	out[0] = t.Scale * sum
}

func (t Total) Wrt(int) []bool { return allTrue(1) }

func (t Total) Diff(in G.Nodes, _, grad *G.Node) (G.Nodes, error) {
	d, err := Apply(Spread{To: AxesOf(in[0].Shape()...), Scale: t.Scale}, grad)
	return G.Nodes{d}, err
}

// Spread fills a tensor of shape To with Scale times a scalar.
type Spread struct {
	To    Axes
	Scale float64
}

func (s Spread) String() string { return fmt.Sprintf("spread{%v,%g}", s.To, s.Scale) }

func (s Spread) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 1); err != nil {
		return nil, err
	}
	if in[0].TotalSize() != 1 {
		return nil, fmt.Errorf("shape %v is not a scalar", in[0])
	}
	return tensor.Shape(s.To.List()).Clone(), checkScale(s.Scale)
}

func (s Spread) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	for i := range out {
		out[i] = s.Scale * in[0][0]
	}
}
