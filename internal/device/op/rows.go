package op

import (
	"fmt"
	"math"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// RowSquares is the sum of squares of each row of a matrix of gradients.
type RowSquares struct{}

func (RowSquares) String() string { return "rowSquares" }

func (RowSquares) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 1); err != nil {
		return nil, err
	}
	return tensor.Shape{in[0][0]}, nil
}

func (RowSquares) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	n := len(in[0]) / len(out)
	for r := range out {
		out[r] = sumOfSquares(in[0][r*n : (r+1)*n])
	}
}

// WeightedRows is Σ_r c_r·row_r of a matrix of gradients. Rows with factor zero are not
// read.
type WeightedRows struct{}

func (WeightedRows) String() string { return "weightedRows" }

func (WeightedRows) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 2); err != nil {
		return nil, err
	}
	if in[1].TotalSize() != in[0][0] {
		return nil, fmt.Errorf("%v clip factors for %d rows", in[1], in[0][0])
	}
	return tensor.Shape{in[0].TotalSize() / in[0][0]}, nil
}

func (WeightedRows) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	clear(out)
	for r, c := range in[1] {
		if c == 0 {
			continue
		}
		for i := range out {
			out[i] += c * in[0][r*len(out)+i]
		}
	}
}

// ScaleRows multiplies each of len(weights) equal blocks of x by its weight. A block with
// weight zero becomes zero, even if it contains NaN or infinities.
type ScaleRows struct{}

func (ScaleRows) String() string { return "scaleRows" }

func (ScaleRows) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 2); err != nil {
		return nil, err
	}
	if n := in[1].TotalSize(); in[0].TotalSize()%n != 0 {
		return nil, fmt.Errorf("shape %v cannot be cut into %d rows", in[0], n)
	}
	return in[0].Clone(), nil
}

func (ScaleRows) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	n := len(out) / len(in[1])
	for i, x := range in[0] {
		if w := in[1][i/n]; w == 0 {
			out[i] = 0
		} else {
			out[i] = w * x
		}
	}
}

func (ScaleRows) Rows(int) []bool { return allTrue(2) }

func (ScaleRows) Wrt(int) []bool { return []bool{true, false} }

func (s ScaleRows) Diff(in G.Nodes, _, grad *G.Node) (G.Nodes, error) {
	d, err := Apply(s, grad, in[1])
	return G.Nodes{d, nil}, err
}

// StackRows joins the rows of several uses of one parameter to one use with more rows.
// Each input has a block of rows for each of Blocks examples. The result has the blocks
// of all inputs, example by example. The use's Form determines the width of a row.
type StackRows struct{ Blocks int }

func (s StackRows) String() string { return fmt.Sprintf("stackRows{%d}", s.Blocks) }

func (s StackRows) Shape(in []tensor.Shape) (tensor.Shape, error) {
	n := 0
	for _, x := range in {
		if x.TotalSize()%s.Blocks != 0 {
			return nil, fmt.Errorf("shape %v cannot be cut into %d blocks", x, s.Blocks)
		}
		n += x.TotalSize()
	}
	if n == 0 || n > math.MaxInt32 {
		return nil, fmt.Errorf("%d elements: at least 1 and at most 2^31−1 are needed", n)
	}
	return tensor.Shape{s.Blocks, n / s.Blocks}, nil
}

func (s StackRows) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	at := 0
	for b := range s.Blocks {
		for _, x := range in {
			n := len(x) / s.Blocks
			at += copy(out[at:], x[b*n:(b+1)*n])
		}
	}
}
