package op

import (
	"fmt"

	"gorgonia.org/tensor"
)

// MatVec is a matrix, transposed first or not, times a vector: Gorgonia's Mul of
// the two.
type MatVec struct{ Trans bool }

func (m MatVec) String() string { return fmt.Sprintf("matvec{%t}", m.Trans) }

// Product is the product of matrices that it is, and the shapes of these: a vector is a
// matrix of one column.
func (m MatVec) Product(in []tensor.Shape) (MatMul, []tensor.Shape) {
	return MatMul{TransA: m.Trans}, []tensor.Shape{in[0], {in[1][0], 1}}
}

func (m MatVec) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 2); err != nil {
		return nil, err
	}
	if in[0].Dims() != 2 || in[1].Dims() != 1 {
		return nil, fmt.Errorf("operands %v and %v: a matrix and a vector are needed", in[0], in[1])
	}
	product, in := m.Product(in)
	M, _, _, err := product.Sizes(in[0], in[1])
	return tensor.Shape{M}, err
}

func (m MatVec) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	product, shapes := m.Product(shapes)
	product.Do(out, in, shapes)
}

// Dot is the inner product of two vectors, a scalar.
type Dot struct{}

func (Dot) String() string { return "dot" }

func (Dot) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 2); err != nil {
		return nil, err
	}
	if in[0].Dims() != 1 || in[1].Dims() != 1 || in[0][0] != in[1][0] {
		return nil, fmt.Errorf("operands %v and %v: two vectors of one length are needed", in[0], in[1])
	}
	return tensor.ScalarShape(), nil
}

func (Dot) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	out[0] = 0
	for i, x := range in[0] {
		out[0] += x * in[1][i]
	}
}
