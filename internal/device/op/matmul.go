package op

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// MatMul multiplies two matrices, each of them transposed first if so set.
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

// MatVec multiplies a matrix, transposed first if so set, by a vector: Gorgonia's Mul of
// the two.
type MatVec struct{ Trans bool }

func (m MatVec) String() string { return fmt.Sprintf("matvec{%t}", m.Trans) }

// Product is the equivalent matrix product and the shapes of its operands: the vector is
// a matrix of one column.
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

// Linear is act(x·W + b) for rows x [n, in], W [in, out] and b [out]. Act's derivative
// must be a function of its output (Activation.FromOutput).
type Linear struct{ Act Activation }

func (l Linear) String() string { return fmt.Sprintf("linear{%v}", l.Act) }

func (l Linear) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 3); err != nil {
		return nil, err
	}
	M, N, _, err := MatMul{}.Sizes(in[0], in[1])
	if err != nil {
		return nil, err
	}
	if in[2].Dims() != 1 || in[2][0] != N {
		return nil, fmt.Errorf("bias of shape %v for %d columns", in[2], N)
	}
	if !l.Act.FromOutput() {
		return nil, fmt.Errorf("%v cannot be fused: its derivative needs the input", l.Act)
	}
	return tensor.Shape{M, N}, nil
}

func (l Linear) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	MatMul{}.Do(out, in[:2], shapes[:2])
	for i := range out {
		out[i] = l.Act.apply(out[i] + in[2][i%len(in[2])])
	}
}

func (l Linear) Rows(int) []bool { return []bool{true, false, false} }
func (l Linear) Wrt(int) []bool  { return allTrue(3) }

func (l Linear) Diff(in G.Nodes, out, grad *G.Node) (G.Nodes, error) {
	d, err := l.Act.preActivationGrad(out, grad)
	if err != nil {
		return nil, err
	}
	dx, err := Apply(MatMul{TransB: true}, d, in[1])
	if err != nil {
		return nil, err
	}
	dw, err := Apply(MatMul{TransA: true}, in[0], d)
	if err != nil {
		return nil, err
	}
	db, err := Apply(ChannelSum{Channels: in[2].Shape()[0], Inner: 1}, d)
	return G.Nodes{dx, dw, db}, err
}

func (l Linear) Use(i int, in G.Nodes, out, grad *G.Node) (Use, error) {
	d, err := l.Act.preActivationGrad(out, grad)
	if err != nil {
		return Use{}, err
	}
	w := in[1].Shape()
	if i == 1 {
		return Use{Form: Product{In: w[0], Out: w[1]}, A: in[0], Delta: d}, nil
	}
	return Use{Form: Shift{Channels: w[1], Inner: 1}, Delta: d}, nil
}
