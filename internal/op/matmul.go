package op

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// MatMul multiplies two matrices, either of them transposed first.
type MatMul struct{ TransA, TransB bool }

func (m MatMul) String() string { return fmt.Sprintf("matmul{%t,%t}", m.TransA, m.TransB) }

// Sizes reads the product's M, N and K from its operands.
func (m MatMul) Sizes(a, b tensor.Shape) (M, N, K int, err error) {
	if a.Dims() != 2 || b.Dims() != 2 {
		return 0, 0, 0, fmt.Errorf("operands %v and %v: two matrices are needed", a, b)
	}
	M, K, N = a[0], a[1], b[1]
	if m.TransA {
		M, K = K, M
	}
	kb := b[0]
	if m.TransB {
		kb, N = b[1], b[0]
	}
	if kb != K {
		return 0, 0, 0, fmt.Errorf("operands %v and %v do not fit", a, b)
	}
	return M, N, K, nil
}

func (m MatMul) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 2); err != nil {
		return nil, err
	}
	M, N, _, err := m.Sizes(in[0], in[1])
	return tensor.Shape{M, N}, err
}

func (m MatMul) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	M, N, K, _ := m.Sizes(shapes[0], shapes[1])
	a, b := in[0], in[1]
	ai, ak := K, 1
	if m.TransA {
		ai, ak = 1, M
	}
	bk, bj := N, 1
	if m.TransB {
		bk, bj = 1, K
	}
	for i := range M {
		for j := range N {
			var s float64
			for k := range K {
				s += a[i*ai+k*ak] * b[k*bk+j*bj]
			}
			out[i*N+j] = s
		}
	}
}

func (m MatMul) Wrt(int) []bool { return allTrue(2) }

func (m MatMul) Diff(in G.Nodes, _, grad *G.Node) (G.Nodes, error) {
	a, b := in[0], in[1]
	var da, db *G.Node
	var err error
	if m.TransA {
		da, err = Apply(MatMul{m.TransB, true}, b, grad)
	} else {
		da, err = Apply(MatMul{false, !m.TransB}, grad, b)
	}
	if err != nil {
		return nil, err
	}
	if m.TransB {
		db, err = Apply(MatMul{true, m.TransA}, grad, a)
	} else {
		db, err = Apply(MatMul{!m.TransA, false}, a, grad)
	}
	return G.Nodes{da, db}, err
}
