package op

import (
	"fmt"
	"math"
	"slices"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// CrossEntropy is −log softmax(logits)[label] of each row: logits [N, K] and labels [N],
// class indices stored as numbers, give losses [N]. With smoothing s, the label has
// weight 1−s and every class s/K (Szegedy et al. 2016). A row with label −1 is ignored:
// its loss and gradient are 0. Any other invalid label makes them NaN, so that the record
// is left out of the sum and counted.
type CrossEntropy struct{ Smoothing float64 }

func (c CrossEntropy) String() string { return fmt.Sprintf("crossEntropy{%g}", c.Smoothing) }

// checkShapes checks a matrix of logits and its labels.
func (c CrossEntropy) checkShapes(x, labels tensor.Shape) error {
	if !(c.Smoothing >= 0 && c.Smoothing < 1) {
		return fmt.Errorf("smoothing %g: at least 0 and less than 1 is needed", c.Smoothing)
	}
	if x.Dims() != 2 || labels.Dims() != 1 || labels[0] != x[0] {
		return fmt.Errorf("logits %v and labels %v: [n, classes] and [n] are needed", x, labels)
	}
	return nil
}

func (c CrossEntropy) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 2); err != nil {
		return nil, err
	}
	return in[1].Clone(), c.checkShapes(in[0], in[1])
}

const ignoredLabel = -1

// logSumExp is log Σ exp(x), computed without overflow.
func logSumExp(x []float64) float64 {
	top := math.Inf(-1)
	for _, v := range x {
		top = math.Max(top, v)
	}
	if math.IsInf(top, 0) {
		return top
	}
	var sum float64
	for _, v := range x {
		sum += math.Exp(v - top)
	}
	return top + math.Log(sum)
}

func (c CrossEntropy) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	k := shapes[0][1]
	for r, label := range in[1] {
		x := in[0][r*k : (r+1)*k]
		if label == ignoredLabel {
			out[r] = 0
		} else if at, ok := tableIndex(label, k); ok {
			out[r] = logSumExp(x) - x[at]
			for _, v := range x {
				out[r] += c.Smoothing * (x[at] - v) / float64(k)
			}
		} else {
			out[r] = math.NaN()
		}
	}
}

func (CrossEntropy) Rows(int) []bool { return allTrue(2) }
func (CrossEntropy) Wrt(int) []bool  { return []bool{true, false} }

func (c CrossEntropy) Diff(in G.Nodes, _, grad *G.Node) (G.Nodes, error) {
	d, err := Apply(CrossEntropyGrad(c), in[0], in[1], grad)
	return G.Nodes{d, nil}, err
}

// CrossEntropyGrad is the gradient in the logits, from logits, labels and the gradient of
// each row's loss: (softmax − (1−s)·onehot − s/K)·dloss.
type CrossEntropyGrad CrossEntropy

func (c CrossEntropyGrad) String() string { return fmt.Sprintf("crossEntropyGrad{%g}", c.Smoothing) }

func (c CrossEntropyGrad) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 3); err != nil {
		return nil, err
	}
	if !slices.Equal(in[2], in[1]) {
		return nil, fmt.Errorf("labels %v and gradient %v differ in shape", in[1], in[2])
	}
	return in[0].Clone(), CrossEntropy(c).checkShapes(in[0], in[1])
}

func (c CrossEntropyGrad) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	k := shapes[0][1]
	for r, label := range in[1] {
		x, y := in[0][r*k:(r+1)*k], out[r*k:(r+1)*k]
		at, ok := tableIndex(label, k)
		switch {
		case label == ignoredLabel:
			clear(y)
			continue
		case !ok:
			for j := range y {
				y[j] = math.NaN()
			}
			continue
		}
		norm := logSumExp(x)
		for j, v := range x {
			p := math.Exp(v - norm)
			if j == at {
				p = p - 1 + c.Smoothing
			}
			y[j] = in[2][r] * (p - c.Smoothing/float64(k))
		}
	}
}
