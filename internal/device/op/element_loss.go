package op

import (
	"fmt"
	"math"
	"slices"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// perRowLossShape checks that predictions and targets have one shape. It returns the
// shape of one loss per row of axis 0.
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

// SigmoidCrossEntropy is Σ log(1+eˣ) − x·target over all axes but axis 0. Logits and
// targets have one shape [B, …], targets are from 0 to 1, and losses are [B].
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

// SigmoidCrossEntropyGrad is the gradient in the logits, from logits, targets and the
// gradient of each row's loss: (sigmoid(x) − target)·dloss.
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

// SquaredError is Σ (prediction − target)² over all axes but axis 0. Predictions and
// targets have one shape [B, …], and losses are [B].
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

// SquaredErrorGrad is the gradient in the first operand, from both and the gradient of
// each row's loss: 2(x − target)·dloss.
type SquaredErrorGrad struct{}

func (SquaredErrorGrad) String() string { return "squaredErrorGrad" }

func (SquaredErrorGrad) Shape(in []tensor.Shape) (tensor.Shape, error) { return perRowGradShape(in) }

func (SquaredErrorGrad) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	n := len(out) / len(in[2])
	for i, x := range in[0] {
		out[i] = 2 * (x - in[1][i]) * in[2][i/n]
	}
}

// ElementLoss is a loss of one prediction x against its target t.
type ElementLoss uint8

const (
	AbsoluteError ElementLoss = iota // |x−t|
	HuberError                       // (x−t)²/2 up to a width w, w·(|x−t| − w/2) beyond (Huber 1964)
	PoissonLoss                      // eˣ − t·x: x is the logarithm of the rate, t a count
	HingeLoss                        // max(0, 1 − t·x), t is −1 or 1
)

func (e ElementLoss) String() string {
	return [...]string{"absolute", "huber", "poisson", "hinge"}[e]
}

// At returns the loss and its slope in x. A NaN makes both NaN, so that the record is
// left out of the sum.
func (e ElementLoss) At(x, t, width float64) (loss, slope float64) {
	switch e {
	case AbsoluteError, HuberError:
		d := x - t
		if e == HuberError && math.Abs(d) <= width {
			return d * d / 2, d
		}
		sign := math.Copysign(1, d)
		if d == 0 || math.IsNaN(d) {
			sign = d
		}
		if e == AbsoluteError {
			return math.Abs(d), sign
		}
		return width * (math.Abs(d) - width/2), width * sign
	case PoissonLoss:
		rate := math.Exp(x)
		return rate - t*x, rate - t
	case HingeLoss:
		if rest := 1 - t*x; rest > 0 {
			return rest, -t
		} else if math.IsNaN(rest) {
			return rest, rest
		}
	}
	return 0, 0
}

// ElementLosses sums a loss over all axes but axis 0. Predictions and targets have one
// shape [B, …], and losses are [B]. Only HuberError uses Width. Targets are data and have
// no gradient.
type ElementLosses struct {
	Kind  ElementLoss
	Width float64
}

func (e ElementLosses) String() string { return fmt.Sprintf("elementLosses{%v,%g}", e.Kind, e.Width) }

func (e ElementLosses) checkWidth() error {
	if e.Kind == HuberError && !(e.Width > 0 && !math.IsInf(e.Width, 1)) {
		return fmt.Errorf("width %g: a finite number above 0 is needed", e.Width)
	}
	return nil
}

func (e ElementLosses) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := e.checkWidth(); err != nil {
		return nil, err
	}
	return perRowLossShape(in)
}

func (e ElementLosses) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	clear(out)
	n := len(in[0]) / len(out)
	for i, x := range in[0] {
		loss, _ := e.Kind.At(x, in[1][i], e.Width)
		out[i/n] += loss
	}
}

func (e ElementLosses) Rows(int) []bool { return allTrue(2) }
func (e ElementLosses) Wrt(int) []bool  { return []bool{true, false} }

func (e ElementLosses) Diff(in G.Nodes, _, grad *G.Node) (G.Nodes, error) {
	d, err := Apply(ElementLossesGrad(e), in[0], in[1], grad)
	return G.Nodes{d, nil}, err
}

// ElementLossesGrad is the gradient in the predictions, from predictions, targets and the
// gradient of each row's loss.
type ElementLossesGrad ElementLosses

func (e ElementLossesGrad) String() string {
	return fmt.Sprintf("elementLossesGrad{%v,%g}", e.Kind, e.Width)
}

func (e ElementLossesGrad) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := ElementLosses(e).checkWidth(); err != nil {
		return nil, err
	}
	return perRowGradShape(in)
}

func (e ElementLossesGrad) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	n := len(out) / len(in[2])
	for i, x := range in[0] {
		_, slope := e.Kind.At(x, in[1][i], e.Width)
		out[i] = slope * in[2][i/n]
	}
}

// Replace replaces Old by New. It turns a label to ignore into −1.
type Replace struct{ Old, New float64 }

func (r Replace) String() string { return fmt.Sprintf("replace{%g,%g}", r.Old, r.New) }

func (r Replace) Shape(in []tensor.Shape) (tensor.Shape, error) { return commonShape(in, 1) }

func (r Replace) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	for i, x := range in[0] {
		if out[i] = x; x == r.Old {
			out[i] = r.New
		}
	}
}

func (r Replace) Rows(int) []bool { return allTrue(1) }
