package op

import (
	"math/rand/v2"
	"testing"
)

// The loss and its gradient are those of the product and of cross-entropy, one after the other.
func TestVocabularyLoss(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 3))
		n, width, classes := between(r, 1, 5), between(r, 1, 5), between(r, 1, 9)
		x, table, d := normal(r, n, width), normal(r, classes, width), normal(r, n)
		labels := whole(r, -1, classes, n)
		logits := trial{MatMul{TransB: true}, []operand{x, table}}.do(t)
		same(t, "losses", trial{VocabularyLoss{Trans: true}, []operand{x, table, labels}}.do(t).values,
			trial{CrossEntropy{}, []operand{logits, labels}}.do(t).values, 1e-13)
		slopes := trial{CrossEntropyGrad{}, []operand{logits, labels, d}}.do(t)
		same(t, "gradient", trial{VocabularyLossGrad{Trans: true}, []operand{x, table, labels, d}}.do(t).values,
			trial{MatMul{}, []operand{slopes, table}}.do(t).values, 1e-13)
		matrix, bias := normal(r, width, classes), normal(r, classes)
		logits = trial{Linear{Act: Identity}, []operand{x, matrix, bias}}.do(t)
		same(t, "losses with a bias", trial{VocabularyLoss{Bias: true}, []operand{x, matrix, bias, labels}}.do(t).values,
			trial{CrossEntropy{}, []operand{logits, labels}}.do(t).values, 1e-13)
		slopes = trial{CrossEntropyGrad{}, []operand{logits, labels, d}}.do(t)
		same(t, "gradient with a bias", trial{VocabularyLossGrad{Bias: true}, []operand{x, matrix, bias, labels, d}}.do(t).values,
			trial{MatMul{TransB: true}, []operand{slopes, matrix}}.do(t).values, 1e-13)
	}
}
