package op

import (
	"fmt"
	"slices"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// perRowLossShape checks that predictions and targets have one shape and gives that of
// a loss for each row of axis 0.
func perRowLossShape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 2); err != nil {
		return nil, err
	}
	if in[0].Dims() == 0 || !slices.Equal(in[0], in[1]) {
		return nil, fmt.Errorf("predictions %v and targets %v: two tensors of one shape, batch first, are needed", in[0], in[1])
	}
	return tensor.Shape{in[0][0]}, nil
}

// perRowGradShape checks the operands of the gradient of such a loss.
func perRowGradShape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 3); err != nil {
		return nil, err
	}
	y, err := perRowLossShape(in[:2])
	if err == nil && !slices.Equal(in[2], y) {
		err = fmt.Errorf("gradient of shape %v where %v is needed", in[2], y)
	}
	return in[0].Clone(), err
}

// SigmoidCrossEntropy is Σ log(1+eˣ) − x·target over all but axis 0: logits and
// targets of one shape [B, …], targets from 0 to 1, give losses [B].
type SigmoidCrossEntropy struct{}

func (SigmoidCrossEntropy) String() string { return "sigmoidCrossEntropy" }

func (SigmoidCrossEntropy) Shape(in []tensor.Shape) (tensor.Shape, error) { return perRowLossShape(in) }

func (SigmoidCrossEntropy) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	clear(out)
	n := len(in[0]) / len(out)
	for i, x := range in[0] {
		out[i/n] += Softplus.apply(x) - x*in[1][i]
	}
}

func (SigmoidCrossEntropy) Rows(int) []bool { return allTrue(2) }
func (SigmoidCrossEntropy) Wrt(int) []bool  { return allTrue(2) }

func (SigmoidCrossEntropy) Diff(in G.Nodes, _, grad *G.Node) (G.Nodes, error) {
	dx, err := Apply(SigmoidCrossEntropyGrad{}, in[0], in[1], grad)
	if err != nil {
		return nil, err
	}
	dt, err := Apply(ScaleRows{}, in[0], grad)
	if err != nil {
		return nil, err
	}
	dt, err = Apply(Unary{"neg"}, dt)
	return G.Nodes{dx, dt}, err
}

// SigmoidCrossEntropyGrad gives the gradient in the logits from logits, targets
// and the gradient of each row's loss: (sigmoid(x) − target)·dloss.
type SigmoidCrossEntropyGrad struct{}

func (SigmoidCrossEntropyGrad) String() string { return "sigmoidCrossEntropyGrad" }

func (SigmoidCrossEntropyGrad) Shape(in []tensor.Shape) (tensor.Shape, error) {
	return perRowGradShape(in)
}

func (SigmoidCrossEntropyGrad) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	n := len(out) / len(in[2])
	for i, x := range in[0] {
		out[i] = (Sigmoid.apply(x) - in[1][i]) * in[2][i/n]
	}
}

// SquaredError is Σ (prediction − target)² over all but axis 0: two tensors of
// one shape [B, …] give losses [B].
type SquaredError struct{}

func (SquaredError) String() string { return "squaredError" }

func (SquaredError) Shape(in []tensor.Shape) (tensor.Shape, error) { return perRowLossShape(in) }

func (SquaredError) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	clear(out)
	n := len(in[0]) / len(out)
	for i, x := range in[0] {
		out[i/n] += (x - in[1][i]) * (x - in[1][i])
	}
}

func (SquaredError) Rows(int) []bool { return allTrue(2) }
func (SquaredError) Wrt(int) []bool  { return allTrue(2) }

func (SquaredError) Diff(in G.Nodes, _, grad *G.Node) (G.Nodes, error) {
	dx, err := Apply(SquaredErrorGrad{}, in[0], in[1], grad)
	if err != nil {
		return nil, err
	}
	dt, err := Apply(SquaredErrorGrad{}, in[1], in[0], grad)
	return G.Nodes{dx, dt}, err
}

// SquaredErrorGrad gives the gradient in the first operand from both and the
// gradient of each row's loss: 2(x − target)·dloss.
type SquaredErrorGrad struct{}

func (SquaredErrorGrad) String() string { return "squaredErrorGrad" }

func (SquaredErrorGrad) Shape(in []tensor.Shape) (tensor.Shape, error) { return perRowGradShape(in) }

func (SquaredErrorGrad) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	n := len(out) / len(in[2])
	for i, x := range in[0] {
		out[i] = 2 * (x - in[1][i]) * in[2][i/n]
	}
}
