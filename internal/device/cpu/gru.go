package cpu

import (
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/simd"
)

// lowerGRUTrace computes a trace: r, z, q and n of a step, one after the other.
func lowerGRUTrace(l *lowering, s op.GRUTrace, k call) func() {
	steps, h := k.shape[1], k.shape[2]/4
	order := stepOrder{steps, s.Reverse}
	out, x, weight, bias := k.out, k.in[0], k.in[1], k.in[2]
	l.pool.reserve(k.shape[0]*h, 0)
	return l.pool.forExamples(k.shape[0], steps*h*h, func(from, to int, w *worker) {
		product := simd.Gemm{
			M: to - from, N: 3 * h, K: h, LDA: h, LDB: 3 * h, LDC: steps * 4 * h, Accumulate: true,
		}
		hidden := w.floats((to - from) * h)
		clear(hidden)
		for i := range steps {
			t := order.at(i)
			for b := from; b < to; b++ {
				y := out[(b*steps+t)*4*h:][:3*h]
				copy(y, x[(b*steps+t)*3*h:][:2*h])
				copy(y[2*h:], bias)
			}
			if i > 0 {
				product.Run(out[(from*steps+t)*4*h:], hidden, weight, w.gemm, 0, 1)
			}
			for b := from; b < to; b++ {
				y := out[(b*steps+t)*4*h:][:4*h]
				simd.Sigmoid(y[:2*h], y[:2*h])
				n := y[3*h:]
				simd.Mul(n, y[:h], y[2*h:3*h])
				simd.Add(n, n, x[(b*steps+t)*3*h+2*h:][:h])
				simd.Tanh(n, n)
				interpolate(hidden[(b-from)*h:][:h], y[h:2*h], n, hidden[(b-from)*h:][:h])
			}
		}
	})
}

// interpolate sets dst = (1−z)·n + z·previous.
func interpolate(dst, z, n, previous []float32) {
	z, n, previous = z[:len(dst)], n[:len(dst)], previous[:len(dst)]
	for j := range dst {
		dst[j] = (1-z[j])*n[j] + z[j]*previous[j]
	}
}

// lowerGRU computes the hidden states from the trace.
func lowerGRU(l *lowering, s op.GRU, k call) func() {
	steps, h := k.shape[1], k.shape[2]
	order := stepOrder{steps, s.Reverse}
	out, trace := k.out, k.in[3]
	l.pool.reserve(h, 0)
	return l.pool.forRanges(k.shape[0], 4*steps*h, func(from, to int, w *worker) {
		for b := from; b < to; b++ {
			previous := w.floats(h)
			clear(previous)
			for i := range steps {
				r := b*steps + order.at(i)
				v := out[r*h:][:h]
				interpolate(v, trace[r*4*h+h:][:h], trace[r*4*h+3*h:][:h], previous)
				previous = v
			}
		}
	})
}

// lowerGRUGrad computes the signals at the gates, step by step from the last one.
func lowerGRUGrad(l *lowering, s op.GRUGrad, k call) func() {
	steps, h := k.shape[1], k.shape[2]/3
	order := stepOrder{steps, s.Reverse}
	out, trace, hidden, grad := k.out, k.in[1], k.in[2], k.in[3]
	transpose, transposed := lowerTranspose(l, k.in[0], h, 3*h)
	l.pool.reserve((4*k.shape[0]+1)*h, 0)
	return sequence(transpose, l.pool.forExamples(k.shape[0], steps*h*h, func(from, to int, w *worker) {
		product := simd.Gemm{M: to - from, N: h, K: 3 * h, LDA: 3 * h, LDB: h, LDC: h, Accumulate: true}
		n := (to - from) * h
		memory := w.floats(4*n + h)
		carry, signals, zero := memory[:n], memory[n:4*n], memory[4*n:]
		clear(carry)
		clear(zero)
		for i := steps - 1; i >= 0; i-- {
			t := order.at(i)
			for b := from; b < to; b++ {
				previous := zero
				if i > 0 {
					previous = hidden[(b*steps+order.at(i-1))*h:][:h]
				}
				r := b*steps + t
				gruSignals(out[r*3*h:][:3*h], signals[(b-from)*3*h:][:3*h], carry[(b-from)*h:][:h],
					trace[r*4*h:][:4*h], previous, grad[r*h:][:h])
			}
			if i > 0 {
				product.Run(carry, signals, transposed, w.gemm, 0, 1)
			}
		}
	}))
}

// gruSignals computes the gradient d of one step's gate inputs and the signals at h·W. carry
// is the gradient of the hidden state that comes from the following step; gruSignals
// replaces it by the part that goes through z to the previous step.
func gruSignals(d, signals, carry, y, previous, grad []float32) {
	h := len(grad)
	carry, previous = carry[:h], previous[:h]
	yr, yz, yq, yn := y[:h], y[h:][:h], y[2*h:][:h], y[3*h:][:h]
	dr, dz, dn := d[:h], d[h:][:h], d[2*h:][:h]
	sr, sz, sn := signals[:h], signals[h:][:h], signals[2*h:][:h]
	for j, v := range grad {
		r, z, n := yr[j], yz[j], yn[j]
		v += carry[j]
		slope := v * (1 - z) * (1 - n*n)
		dr[j] = slope * yq[j] * r * (1 - r)
		dz[j] = v * (previous[j] - n) * z * (1 - z)
		dn[j] = slope
		sr[j], sz[j], sn[j] = dr[j], dz[j], slope*r
		carry[j] = v * z
	}
}

// lowerGRUHidden multiplies the hidden part of the gates' signals by r, which the trace
// contains.
func lowerGRUHidden(l *lowering, k call) func() {
	out, trace, x, h := k.out, k.in[0], k.in[1], k.shape[2]/3
	return l.pool.forRanges(len(out)/(3*h), 3*h, func(from, to int, _ *worker) {
		for r := from; r < to; r++ {
			copy(out[r*3*h:][:2*h], x[r*3*h:][:2*h])
			simd.Mul(out[r*3*h+2*h:][:h], x[r*3*h+2*h:][:h], trace[r*4*h:][:h])
		}
	})
}
