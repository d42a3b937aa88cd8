package simd

import "fmt"

// sameLength panics unless every slice has n elements, and tells whether there are
// any.
func sameLength(n int, lengths ...int) bool {
	for _, l := range lengths {
		if l != n {
			panic(fmt.Sprintf("simd: slices of %d and %d floats where the lengths must agree", n, l))
		}
	}
	return n > 0
}

// Add sets dst = x + y. Here and below dst may be x or y.
func Add(dst, x, y []float32) {
	if sameLength(len(dst), len(x), len(y)) {
		active.add(&dst[0], &x[0], &y[0], len(dst))
	}
}

// Mul sets dst = x·y, element by element.
func Mul(dst, x, y []float32) {
	if sameLength(len(dst), len(x), len(y)) {
		active.mul(&dst[0], &x[0], &y[0], len(dst))
	}
}

// Scale sets dst = alpha·x.
func Scale(dst, x []float32, alpha float32) {
	if sameLength(len(dst), len(x)) {
		active.scale(&dst[0], &x[0], len(dst), alpha)
	}
}

// Axpy adds alpha·x to dst. The product is rounded before it is added.
func Axpy(dst, x []float32, alpha float32) {
	if sameLength(len(dst), len(x)) {
		active.axpy(&dst[0], &x[0], len(dst), alpha)
	}
}

// ReLU sets dst = max(0, x); NaN stays NaN.
func ReLU(dst, x []float32) {
	if sameLength(len(dst), len(x)) {
		active.relu(&dst[0], &x[0], len(dst))
	}
}

// ReLUGrad sets dst to dy where y, ReLU's input or result, is not ≤ 0, and to 0
// elsewhere. Where y is NaN dy passes.
func ReLUGrad(dst, dy, y []float32) {
	if sameLength(len(dst), len(dy), len(y)) {
		active.reluGrad(&dst[0], &dy[0], &y[0], len(dst))
	}
}

// Exp sets dst = exp(x), to 2 units of the last place.
func Exp(dst, x []float32) {
	if sameLength(len(dst), len(x)) {
		active.exp(&dst[0], &x[0], len(dst), 0)
	}
}

// Tanh sets dst = tanh(x), to 4 units of the last place.
func Tanh(dst, x []float32) {
	if sameLength(len(dst), len(x)) {
		active.tanh(&dst[0], &x[0], len(dst))
	}
}

// TanhGrad sets dst = dy·(1-y²), y = tanh(x).
func TanhGrad(dst, dy, y []float32) {
	if sameLength(len(dst), len(dy), len(y)) {
		active.tanhGrad(&dst[0], &dy[0], &y[0], len(dst))
	}
}

// Sigmoid sets dst = 1/(1+exp(-x)), to 4 units of the last place.
func Sigmoid(dst, x []float32) {
	if sameLength(len(dst), len(x)) {
		active.sigmoid(&dst[0], &x[0], len(dst))
	}
}

// SigmoidGrad sets dst = dy·y·(1-y), y = sigmoid(x).
func SigmoidGrad(dst, dy, y []float32) {
	if sameLength(len(dst), len(dy), len(y)) {
		active.sigmoidGrad(&dst[0], &dy[0], &y[0], len(dst))
	}
}

// GELU sets dst = x·Φ(x), Φ the normal distribution function, to 6 units of
// the last place (subnormal results excepted).
func GELU(dst, x []float32) {
	if sameLength(len(dst), len(x)) {
		active.gelu(&dst[0], &x[0], len(dst))
	}
}

// GELUGrad sets dst = dy·(Φ(x) + x·φ(x)), to 6 units of the last place of the
// larger term.
func GELUGrad(dst, dy, x []float32) {
	if sameLength(len(dst), len(dy), len(x)) {
		active.geluGrad(&dst[0], &dy[0], &x[0], len(dst))
	}
}

// LSTMStep computes the gates of one example at one step of an LSTM, n units, in
// one pass. The sums of the gates i, f, g, o are x + p, each 4n; the trace, 5n,
// gets the gates and the cell f·before + i·g; squashed gets tanh of the cell and
// hidden o·tanh of the cell. The functions are as accurate as Sigmoid and Tanh.
func LSTMStep(trace, hidden, squashed, x, p, before []float32) {
	n := len(hidden)
	if sameLength(5*n, len(trace)) && sameLength(4*n, len(x), len(p)) && sameLength(n, len(squashed), len(before)) {
		active.lstmStep(&trace[0], &hidden[0], &squashed[0], &x[0], &p[0], &before[0], n)
	}
}

// LSTMSignals goes back through LSTMStep: from the gradient grad + back of the
// hidden state it writes the signals d at the gates, 4n, and turns the gradient
// of the cell that comes from the step after into that for the step before.
func LSTMSignals(d, cell, trace, squashed, before, grad, back []float32) {
	n := len(cell)
	if sameLength(5*n, len(trace)) && sameLength(4*n, len(d)) && sameLength(n, len(squashed), len(before), len(grad), len(back)) {
		active.lstmSignals(&d[0], &cell[0], &trace[0], &squashed[0], &before[0], &grad[0], &back[0], n)
	}
}
