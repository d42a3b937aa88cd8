package cpu

import (
	"math"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/simd"
	"github.com/dptrain/dptrain/internal/host/memory"
)

// blockLogits is the largest number of logits of a block of rows, 32 MiB. A block of fewer rows would take more time for the
// matrix, which is read and packed for each block.
var blockLogits = 8 << 20

// vocabularyRows are the logit of the label and the log-sum-exp of each row.
type vocabularyRows struct {
	own     []float32
	logSums []float64
}

// vocabularyKey identifies rows, their matrix and labels by the buffers.
type vocabularyKey struct{ rows, matrix, labels int }

// vocabularyBlocks cuts rows into blocks.
type vocabularyBlocks struct {
	rows, width, classes int
	block                int // rows of a block
	logits               []float32
}

func (l *lowering) vocabularyBlocks(s op.VocabularyLoss, k call) vocabularyBlocks {
	rows, classes, width, _ := s.Product().Sizes(k.shapes[0], k.shapes[1])
	parts := (rows + max(1, blockLogits/classes) - 1) / max(1, blockLogits/classes)
	v := vocabularyBlocks{rows: rows, width: width, classes: classes, block: (rows + parts - 1) / parts}
	v.logits = memory.Zeros[float32](v.block * classes)
	l.pool.shared += 4 * len(v.logits)
	return v
}

// forBlocks makes a step that computes the logits of each block, and then the steps that each returns.
func (l *lowering) forBlocks(v vocabularyBlocks, s op.VocabularyLoss, k call, each func(from, rows int) func()) func() {
	var steps []func()
	for from := 0; from < v.rows; from += v.block {
		rows := min(v.block, v.rows-from)
		g := simd.Gemm{TransB: s.Trans, M: rows, N: v.classes, K: v.width, LDA: v.width, LDB: v.classes, LDC: v.classes}
		if s.Trans {
			g.LDB = v.width
		}
		if s.Bias {
			g.ColBias = k.in[2]
		}
		steps = append(steps, lowerWeightGemm(l, g, v.logits[:rows*v.classes], k.in[0][from*v.width:], k), each(from, rows))
	}
	return sequence(steps...)
}

// lowerVocabularyLossGrad computes the logits of a block of rows, the gradient in them, in the same memory, and its product
// with the matrix. It saves what the losses need.
func lowerVocabularyLossGrad(l *lowering, s op.VocabularyLossGrad, k call) func() {
	v := l.vocabularyBlocks(op.VocabularyLoss(s), k)
	saved := vocabularyRows{make([]float32, v.rows), make([]float64, v.rows)}
	at := op.VocabularyLoss(s).Labels()
	l.saved.vocabulary[vocabularyKey{k.bases[0], k.bases[1], k.bases[at]}] = saved
	out, labels, slopes := k.out, k.in[at], k.in[at+1]
	return l.forBlocks(v, op.VocabularyLoss(s), k, func(from, rows int) func() {
		x, to := v.logits[:rows*v.classes], from+rows
		g := logitGradient{classes: v.classes, labels: labels[from:to], slopes: slopes[from:to], logSums: saved.logSums[from:to]}
		own := saved.own[from:to]
		gradient := l.pool.forRanges(rows, 4*v.classes, func(first, end int, _ *worker) {
			for r := first; r < end; r++ {
				if label, ignored, ok := parseLabel(g.labels[r], v.classes); ok && !ignored {
					own[r] = x[r*v.classes+label]
				}
			}
			g.compute(x, x, first, end)
		})
		back := simd.Gemm{TransB: !s.Trans, M: rows, N: v.width, K: v.classes, LDA: v.classes, LDB: v.width, LDC: v.width}
		if !s.Trans {
			back.LDB = v.classes
		}
		return sequence(gradient, lowerWeightGemm(l, back, out[from*v.width:], x, k))
	})
}

// lowerVocabularyLoss computes the losses from what the gradient has saved. A program without a gradient computes the
// logits.
func lowerVocabularyLoss(l *lowering, s op.VocabularyLoss, k call) func() {
	out, labels := k.out, k.in[s.Labels()]
	_, classes, _, _ := s.Product().Sizes(k.shapes[0], k.shapes[1])
	saved, known := l.saved.vocabulary[vocabularyKey{k.bases[0], k.bases[1], k.bases[s.Labels()]}]
	losses := l.pool.forRanges(len(out), 8, func(from, to int, _ *worker) {
		for r := from; r < to; r++ {
			switch _, ignored, ok := parseLabel(labels[r], classes); {
			case ignored:
				out[r] = 0
			case ok:
				out[r] = float32(saved.logSums[r] - float64(saved.own[r]))
			default:
				out[r] = float32(math.NaN())
			}
		}
	})
	if known {
		return losses
	}
	v := l.vocabularyBlocks(s, k)
	saved = vocabularyRows{make([]float32, v.rows), make([]float64, v.rows)}
	return sequence(l.forBlocks(v, s, k, func(from, rows int) func() {
		x := v.logits
		return l.pool.forRanges(rows, 4*classes, func(first, end int, _ *worker) {
			for r := first; r < end; r++ {
				row, label := x[r*classes:(r+1)*classes], 0
				if class, ignored, ok := parseLabel(labels[from+r], classes); ok && !ignored {
					label = class
				}
				saved.own[from+r] = row[label]
				sums := saved.logSums[from+r:][:1]
				simd.ExpRows(row, row, classes, sums)
				sums[0] += math.Log(sumExponentials(row))
			}
		})
	}), losses)
}
