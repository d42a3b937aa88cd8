package cpu

import (
	"math"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/simd"
)

// lowerLines makes a step that runs f on every line of n elements along an axis. at is the
// first element of the line; its elements are step apart.
func lowerLines(l *lowering, axis, cost int, k call, f func(at, step, n int, w *worker)) func() {
	n := k.shapes[0][axis]
	_, step := op.OuterInner(k.shapes[0], axis)
	return l.pool.forRanges(len(k.out)/n, cost*n, func(from, to int, w *worker) {
		for i := from; i < to; i++ {
			f(i/step*n*step+i%step, step, n, w)
		}
	})
}

func lowerSoftmax(l *lowering, s op.Softmax, k call) func() {
	out, x := k.out, k.in[0]
	l.pool.reserve(2*k.shapes[0][s.Axis], 0)
	return lowerLines(l, s.Axis, 4, k, func(at, step, n int, w *worker) {
		if step == 1 && !s.Log {
			simd.Softmax(out[at:at+n], x[at:at+n])
			return
		}
		line, result := w.floats(2 * n)[:n], w.floats(2 * n)[n:]
		for i := range line {
			line[i] = x[at+i*step]
		}
		norm := simd.Softmax(result, line)
		for i, v := range result {
			if s.Log {
				v = float32(float64(line[i]) - norm)
			}
			out[at+i*step] = v
		}
	})
}

func lowerSoftmaxGrad(l *lowering, s op.SoftmaxGrad, k call) func() {
	out, y, d := k.out, k.in[0], k.in[1]
	return lowerLines(l, s.Axis, 8, k, func(at, step, n int, _ *worker) {
		var sum float64
		for i := at; i < at+n*step; i += step {
			if s.Log {
				sum += float64(d[i])
			} else {
				sum += float64(y[i]) * float64(d[i])
			}
		}
		for i := at; i < at+n*step; i += step {
			if s.Log {
				out[i] = float32(float64(d[i]) - math.Exp(float64(y[i]))*sum)
			} else {
				out[i] = float32(float64(y[i]) * (float64(d[i]) - sum))
			}
		}
	})
}
