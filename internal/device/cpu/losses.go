package cpu

import (
	"math"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/simd"
)

// lowerRowSums sums f(x, y) over the elements of each row of axis 0.
func lowerRowSums(l *lowering, k call, cost int, f func(x, y float64) float64) func() {
	out, x, y := k.out, k.in[0], k.in[1]
	n := len(x) / len(out)
	return l.pool.forRanges(len(out), cost*n, func(from, to int, _ *worker) {
		for r := from; r < to; r++ {
			var s float64
			for i := r * n; i < (r+1)*n; i++ {
				s += f(float64(x[i]), float64(y[i]))
			}
			out[r] = float32(s)
		}
	})
}

// lowerRowSumsGrad computes f(x, y) of each element, times the row's number in the third
// input.
func lowerRowSumsGrad(l *lowering, k call, cost int, f func(x, y float64) float64) func() {
	out, x, y, d := k.out, k.in[0], k.in[1], k.in[2]
	n := len(out) / len(d)
	return l.pool.forRanges(len(d), cost*n, func(from, to int, _ *worker) {
		for r := from; r < to; r++ {
			g := float64(d[r])
			for i := r * n; i < (r+1)*n; i++ {
				out[i] = float32(g * f(float64(x[i]), float64(y[i])))
			}
		}
	})
}

// lowerLossOp makes the step of a loss or of its gradient. It returns nil for other
// operations.
func lowerLossOp(l *lowering, spec op.Operation, k call) func() {
	switch s := spec.(type) {
	case op.CrossEntropy:
		return lowerCrossEntropy(l, s, k)
	case op.CrossEntropyGrad:
		return lowerCrossEntropyGrad(l, s, k)
	case op.ElementLosses:
		return lowerRowSums(l, k, 16, func(x, target float64) float64 {
			loss, _ := s.Kind.At(x, target, s.Width)
			return loss
		})
	case op.ElementLossesGrad:
		return lowerRowSumsGrad(l, k, 16, func(x, target float64) float64 {
			_, slope := s.Kind.At(x, target, s.Width)
			return slope
		})
	case op.VocabularyLoss:
		return lowerVocabularyLoss(l, s, k)
	case op.VocabularyLossGrad:
		return lowerVocabularyLossGrad(l, s, k)
	case op.Replace:
		return lowerReplace(l, s, k)
	case op.SigmoidCrossEntropy:
		return lowerRowSums(l, k, 32, func(x, target float64) float64 {
			return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) - x*target
		})
	case op.SigmoidCrossEntropyGrad:
		return lowerRowSumsGrad(l, k, 16, func(x, target float64) float64 { return 1/(1+math.Exp(-x)) - target })
	case op.SquaredError:
		return lowerRowSums(l, k, 2, func(x, target float64) float64 { return (x - target) * (x - target) })
	case op.SquaredErrorGrad:
		return lowerRowSumsGrad(l, k, 2, func(x, target float64) float64 { return 2 * (x - target) })
	}
	return nil
}

func lowerReplace(l *lowering, s op.Replace, k call) func() {
	out, x, from, to := k.out, k.in[0], float32(s.Old), float32(s.New)
	return l.pool.forRanges(len(out), 2, func(lo, hi int, _ *worker) {
		for i, v := range x[lo:hi] {
			if v == from {
				v = to
			}
			out[lo+i] = v
		}
	})
}

// parseLabel reads a label: a class, −1 for an ignored row, or an invalid number.
func parseLabel(label float32, classes int) (c int, ignored, ok bool) {
	if label == -1 {
		return 0, true, true
	}
	c = int(label)
	return c, false, label >= 0 && c < classes && float32(c) == label
}

// softmaxRows returns how many rows of logits go through the passes of a softmax
// together, so that they stay in the first-level cache.
func softmaxRows(classes int) int { return max(1, 1024/classes) }

// sumExponentials sums a row of exponentials.
func sumExponentials(x []float32) (total float64) {
	if len(x) > 32 {
		return simd.Sum(x)
	}
	for _, v := range x {
		total += float64(v)
	}
	return total
}

func lowerCrossEntropy(l *lowering, s op.CrossEntropy, k call) func() {
	out, x, labels := k.out, k.in[0], k.in[1]
	n := k.shapes[0][1]
	logSums, known := saveFor(l.saved.logSumExp, rowsKey{k.bases[0], n}, len(labels))
	block, cost := softmaxRows(n), 8
	if !known {
		cost = 4 * n
		l.pool.reserve(block*n, 0)
	}
	return l.pool.forRanges(len(out), cost, func(from, to int, w *worker) {
		for r := from; r < to && !known; r += block {
			end := min(r+block, to)
			e := w.floats(block * n)[:(end-r)*n]
			simd.ExpRows(e, x[r*n:end*n], n, logSums[r:end])
			for i := range logSums[r:end] {
				logSums[r+i] += math.Log(sumExponentials(e[i*n : (i+1)*n]))
			}
		}
		for r := from; r < to; r++ {
			switch label, ignored, ok := parseLabel(labels[r], n); {
			case ignored:
				out[r] = 0
			case ok:
				row := x[r*n : (r+1)*n]
				at := float64(row[label])
				loss := logSums[r] - at
				if s.Smoothing > 0 {
					loss += s.Smoothing * (at - simd.Sum(row)/float64(n))
				}
				out[r] = float32(loss)
			default:
				out[r] = float32(math.NaN())
			}
		}
	})
}

func lowerCrossEntropyGrad(l *lowering, s op.CrossEntropyGrad, k call) func() {
	n := k.shapes[0][1]
	logSums, _ := saveFor(l.saved.logSumExp, rowsKey{k.bases[0], n}, len(k.in[1]))
	g := logitGradient{classes: n, smoothing: s.Smoothing, labels: k.in[1], slopes: k.in[2], logSums: logSums}
	out, x := k.out, k.in[0]
	return l.pool.forRanges(len(g.labels), 4*n, func(from, to int, _ *worker) { g.compute(out, x, from, to) })
}

// logitGradient computes the gradient of cross-entropy in rows of logits, and their log-sum-exp.
type logitGradient struct {
	classes        int
	smoothing      float64
	labels, slopes []float32
	logSums        []float64
}

// compute computes the gradient of some rows. It computes 1 − p of the label's class as the sum of the other
// classes' probabilities, which stays accurate where p is close to 1. Out may be x.
func (g *logitGradient) compute(out, x []float32, from, to int) {
	n, block := g.classes, softmaxRows(g.classes)
	share := g.smoothing / float64(n) // of the target probability, for every class
	for first := from; first < to; first += block {
		end := min(first+block, to)
		simd.ExpRows(out[first*n:end*n], x[first*n:end*n], n, g.logSums[first:end])
		for r := first; r < end; r++ {
			y := out[r*n : (r+1)*n]
			total := sumExponentials(y)
			g.logSums[r] += math.Log(total)
			label, ignored, ok := parseLabel(g.labels[r], n)
			switch {
			case ignored:
				clear(y)
				continue
			case !ok:
				total = math.NaN()
				label = 0
			}
			d := float64(g.slopes[r])
			own := d * (g.smoothing - share - (total-float64(y[label]))/total)
			scale, shift := float32(d/total), float32(d*share)
			if n <= 32 {
				for j, e := range y {
					y[j] = e*scale - shift
				}
			} else {
				simd.Scale(y, y, scale)
				if shift != 0 {
					for j := range y {
						y[j] -= shift
					}
				}
			}
			y[label] = float32(own)
		}
	}
}
