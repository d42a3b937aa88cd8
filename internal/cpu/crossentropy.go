package cpu

import (
	"math"

	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/simd"
)

// class reads a label: a class, or none because the row is ignored, or neither.
func class(label float32, classes int) (c int, ignored, ok bool) {
	if label == -1 {
		return 0, true, true
	}
	c = int(label)
	return c, false, label >= 0 && c < classes && float32(c) == label
}

// rowsAtOnce is how many rows of logits go through the steps of a softmax
// together: as many as stay in the first cache.
func rowsAtOnce(classes int) int { return max(1, 1024/classes) }

// sum adds up a row of exponentials.
func sum(x []float32) (total float64) {
	if len(x) > 32 {
		return simd.Sum(x)
	}
	for _, v := range x {
		total += float64(v)
	}
	return total
}

func (c compiler) crossEntropy(s op.CrossEntropy, k call) func() {
	out, x, labels := k.out, k.in[0], k.in[1]
	n := k.shapes[0][1]
	norms, known := recalled(c.norms, rowsIn{k.bases[0], n}, len(labels))
	block, cost := rowsAtOnce(n), 8
	if !known {
		cost = 4 * n
		c.reserve(block*n, 0)
	}
	return c.over(len(out), cost, func(from, to int, w *worker) {
		for r := from; r < to && !known; r += block {
			end := min(r+block, to)
			e := w.floats(block * n)[:(end-r)*n]
			simd.ExpRows(e, x[r*n:end*n], n, norms[r:end])
			for i := range norms[r:end] {
				norms[r+i] += math.Log(sum(e[i*n : (i+1)*n]))
			}
		}
		for r := from; r < to; r++ {
			switch label, ignored, ok := class(labels[r], n); {
			case ignored:
				out[r] = 0
			case ok:
				row := x[r*n : (r+1)*n]
				at := float64(row[label])
				loss := norms[r] - at
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

// crossEntropyGrad: what the label's class lacks to 1 is the sum of the others,
// which keeps its digits where the label is nearly certain.
func (c compiler) crossEntropyGrad(s op.CrossEntropyGrad, k call) func() {
	out, x, labels, d := k.out, k.in[0], k.in[1], k.in[2]
	n := k.shapes[0][1]
	spread := s.Smoothing / float64(n) // what every class is given
	norms, _ := recalled(c.norms, rowsIn{k.bases[0], n}, len(labels))
	block := rowsAtOnce(n)
	return c.over(len(labels), 4*n, func(from, to int, _ *worker) {
		for first := from; first < to; first += block {
			end := min(first+block, to)
			simd.ExpRows(out[first*n:end*n], x[first*n:end*n], n, norms[first:end])
			for r := first; r < end; r++ {
				y := out[r*n : (r+1)*n]
				total := sum(y)
				norms[r] += math.Log(total)
				label, ignored, ok := class(labels[r], n)
				switch {
				case ignored:
					clear(y)
					continue
				case !ok:
					total = math.NaN()
					label = 0
				}
				g := float64(d[r])
				own := g * (s.Smoothing - spread - (total-float64(y[label]))/total)
				scale, less := float32(g/total), float32(g*spread)
				if n <= 32 {
					for j, e := range y {
						y[j] = e*scale - less
					}
				} else {
					simd.Scale(y, y, scale)
					if less != 0 {
						for j := range y {
							y[j] -= less
						}
					}
				}
				y[label] = float32(own)
			}
		}
	})
}
