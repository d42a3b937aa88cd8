package op

import (
	"fmt"
	"math"

	"gorgonia.org/tensor"
)

// VocabularyLoss is CrossEntropy of the logits x·W + b, or x·Wᵀ: rows x [N, D], a matrix with a column, or a row, for each
// class, b only with Bias, and labels [N] give losses [N]. A pass of package plan writes it where the logits are large, so that
// they need not exist together.
type VocabularyLoss struct{ Trans, Bias bool }

func (v VocabularyLoss) String() string { return fmt.Sprintf("vocabularyLoss{%t,%t}", v.Trans, v.Bias) }

// Product multiplies rows by the matrix.
func (v VocabularyLoss) Product() MatMul { return MatMul{TransB: v.Trans} }

// Labels is the place of the labels among the inputs.
func (v VocabularyLoss) Labels() int {
	if v.Bias {
		return 3
	}
	return 2
}

func (v VocabularyLoss) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, v.Labels()+1); err != nil {
		return nil, err
	}
	logits, err := v.logitShape(in)
	if err != nil {
		return nil, err
	}
	return CrossEntropy{}.Shape([]tensor.Shape{logits, in[v.Labels()]})
}

func (v VocabularyLoss) logitShape(in []tensor.Shape) (tensor.Shape, error) {
	if v.Bias && !v.Trans {
		return Linear{Act: Identity}.Shape(in[:3])
	}
	if v.Bias {
		return nil, fmt.Errorf("a transposed matrix has no bias")
	}
	return v.Product().Shape(in[:2])
}

func (v VocabularyLoss) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	labels, classes := in[v.Labels()], v.classes(shapes)
	for r, label := range labels {
		if label == ignoredLabel {
			out[r] = 0
		} else if at, ok := tableIndex(label, classes); ok {
			out[r] = v.logSumExp(in, shapes, r) - v.logit(in, shapes, r, at)
		} else {
			out[r] = math.NaN()
		}
	}
}

func (v VocabularyLoss) classes(shapes []tensor.Shape) int {
	_, n, _, _ := v.Product().Sizes(shapes[0], shapes[1])
	return n
}

// logit computes the logit of a row for a class.
func (v VocabularyLoss) logit(in [][]float64, shapes []tensor.Shape, row, class int) (sum float64) {
	width, classes := shapes[0][1], v.classes(shapes)
	for k, x := range in[0][row*width : (row+1)*width] {
		sum += x * in[1][v.place(k, class, width, classes)]
	}
	if v.Bias {
		sum += in[2][class]
	}
	return sum
}

// place is where the matrix has a column of the rows for a class.
func (v VocabularyLoss) place(column, class, width, classes int) int {
	if v.Trans {
		return class*width + column
	}
	return column*classes + class
}

// logSumExp is that of all logits of a row, which it computes twice.
func (v VocabularyLoss) logSumExp(in [][]float64, shapes []tensor.Shape, row int) float64 {
	top, sum := math.Inf(-1), 0.0
	for j := range v.classes(shapes) {
		top = math.Max(top, v.logit(in, shapes, row, j))
	}
	if math.IsInf(top, 0) {
		return top
	}
	for j := range v.classes(shapes) {
		sum += math.Exp(v.logit(in, shapes, row, j) - top)
	}
	return top + math.Log(sum)
}

func (v VocabularyLoss) Rows(n int) []bool {
	rows := make([]bool, n)
	rows[0] = true
	for i := v.Labels(); i < n; i++ {
		rows[i] = true
	}
	return rows
}

// VocabularyLossGrad is the gradient of VocabularyLoss in x, from its inputs and the gradient of each row's loss.
type VocabularyLossGrad VocabularyLoss

func (v VocabularyLossGrad) String() string {
	return fmt.Sprintf("vocabularyLossGrad{%t,%t}", v.Trans, v.Bias)
}

func (v VocabularyLossGrad) Shape(in []tensor.Shape) (tensor.Shape, error) {
	at := VocabularyLoss(v).Labels()
	if err := checkArity(in, at+2); err != nil {
		return nil, err
	}
	logits, err := VocabularyLoss(v).logitShape(in)
	if err != nil {
		return nil, err
	}
	if _, err := (CrossEntropyGrad{}).Shape([]tensor.Shape{logits, in[at], in[at+1]}); err != nil {
		return nil, err
	}
	return in[0].Clone(), nil
}

func (v VocabularyLossGrad) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	loss := VocabularyLoss(v)
	width, classes := shapes[0][1], loss.classes(shapes)
	for r, label := range in[loss.Labels()] {
		y, d := out[r*width:(r+1)*width], in[loss.Labels()+1][r]
		clear(y)
		at, ok := tableIndex(label, classes)
		if label == ignoredLabel {
			continue
		}
		if !ok {
			d = math.NaN()
		}
		norm := loss.logSumExp(in, shapes, r)
		for j := range classes {
			slope := math.Exp(loss.logit(in, shapes, r, j) - norm)
			if j == at {
				slope--
			}
			for k := range y {
				y[k] += d * slope * in[1][loss.place(k, j, width, classes)]
			}
		}
	}
}

func (v VocabularyLossGrad) Rows(n int) []bool { return VocabularyLoss(v).Rows(n) }
