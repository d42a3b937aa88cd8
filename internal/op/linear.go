package op

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Linear is act(x·W + b) for rows x [n, in], W [in, out] and b [out].
// Act must be recoverable from its own output (Activation.FromOutput).
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
