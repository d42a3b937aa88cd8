package op

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// tableIndex reads a number as the index of one of n entries.
func tableIndex(v float64, n int) (int, bool) {
	if !(v >= 0 && v < float64(n)) || v != float64(int(v)) {
		return 0, false
	}
	return int(v), true
}

// Embed looks up rows of a table [V, D]. Indices are whole numbers of shape [B] or [B,
// T]; the result is [B, D] or [B, T, D]. An index outside the table, such as −1 for
// padding, gives zeros.
type Embed struct{}

func (Embed) String() string { return "embed" }

func (Embed) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 2); err != nil {
		return nil, err
	}
	if in[0].Dims() != 2 || in[1].Dims() < 1 || in[1].Dims() > 2 {
		return nil, fmt.Errorf("table %v and indices %v: [vocabulary, dim] and [batch] or [batch, time] are needed", in[0], in[1])
	}
	return append(in[1].Clone(), in[0][1]), nil
}

func (Embed) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	clear(out)
	d := shapes[0][1]
	for t, index := range in[1] {
		if row, ok := tableIndex(index, shapes[0][0]); ok {
			copy(out[t*d:(t+1)*d], in[0][row*d:])
		}
	}
}

func (Embed) Rows(int) []bool { return []bool{false, true} }
func (Embed) Wrt(int) []bool  { return []bool{true, false} }

func (Embed) Diff(in G.Nodes, _, grad *G.Node) (G.Nodes, error) {
	s := in[0].Shape()
	d, err := Apply(EmbedGrad{Vocabulary: s[0], Dim: s[1], Bag: 1}, in[1], grad)
	return G.Nodes{d, nil}, err
}

func (e Embed) Use(_ int, in G.Nodes, _, grad *G.Node) (Use, error) {
	s := in[0].Shape()
	return Use{Form: Gather{Vocabulary: s[0], Dim: s[1], Bag: 1}, A: in[1], Delta: grad}, nil
}

// EmbedBag adds up rows of a table [V, D]. Indices [B, T] give Scale times the sum of T
// rows, [B, D]. An index outside the table adds nothing.
type EmbedBag struct{ Scale float64 }

func (e EmbedBag) String() string { return fmt.Sprintf("embedBag{%g}", e.Scale) }

func (e EmbedBag) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 2); err != nil {
		return nil, err
	}
	if in[0].Dims() != 2 || in[1].Dims() != 2 {
		return nil, fmt.Errorf("table %v and indices %v: [vocabulary, dim] and [batch, time] are needed", in[0], in[1])
	}
	return tensor.Shape{in[1][0], in[0][1]}, nil
}

func (e EmbedBag) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	clear(out)
	d := shapes[0][1]
	for t, index := range in[1] {
		row, ok := tableIndex(index, shapes[0][0])
		if !ok {
			continue
		}
		for j := range d {
			out[t/shapes[1][1]*d+j] += e.Scale * in[0][row*d+j]
		}
	}
}

func (EmbedBag) Rows(int) []bool { return []bool{false, true} }
func (EmbedBag) Wrt(int) []bool  { return []bool{true, false} }

// scaleGrad is the gradient of the sum of rows, from the gradient of the result.
func (e EmbedBag) scaleGrad(grad *G.Node) (*G.Node, error) {
	if grad.Dtype() == tensor.Float64 {
		return Apply(Binary{"*"}, grad, G.NewConstant(e.Scale))
	}
	return Apply(Binary{"*"}, grad, G.NewConstant(float32(e.Scale)))
}

func (e EmbedBag) Diff(in G.Nodes, _, grad *G.Node) (G.Nodes, error) {
	grad, err := e.scaleGrad(grad)
	if err != nil {
		return nil, err
	}
	table, indices := in[0].Shape(), in[1].Shape()
	d, err := Apply(EmbedGrad{Vocabulary: table[0], Dim: table[1], Bag: indices[1]}, in[1], grad)
	return G.Nodes{d, nil}, err
}

func (e EmbedBag) Use(_ int, in G.Nodes, _, grad *G.Node) (Use, error) {
	grad, err := e.scaleGrad(grad)
	table, indices := in[0].Shape(), in[1].Shape()
	return Use{Form: Gather{Vocabulary: table[0], Dim: table[1], Bag: indices[1]}, A: in[1], Delta: grad}, err
}

// EmbedGrad is the gradient in the table, from the indices and the gradient of the
// result. Bag consecutive indices share one gradient.
type EmbedGrad struct{ Vocabulary, Dim, Bag int }

func (e EmbedGrad) String() string {
	return fmt.Sprintf("embedGrad{%d,%d,%d}", e.Vocabulary, e.Dim, e.Bag)
}

func (e EmbedGrad) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 2); err != nil {
		return nil, err
	}
	table := tensor.Shape{e.Vocabulary, e.Dim}
	if in[0].TotalSize()*e.Dim != in[1].TotalSize()*e.Bag {
		return table, fmt.Errorf("indices %v and gradient %v do not fit bags of %d rows of %d", in[0], in[1], e.Bag, e.Dim)
	}
	return table, nil
}

func (e EmbedGrad) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	clear(out)
	Gather(e).AddGradient(out, in[0], in[1])
}
