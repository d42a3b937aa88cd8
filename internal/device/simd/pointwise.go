package simd

import "fmt"

// sameLength panics unless all lengths are n, and reports whether n is positive.
func sameLength(n int, lengths ...int) bool {
	for _, l := range lengths {
		if l != n {
			panic(fmt.Sprintf("simd: the lengths of slices must agree, but are %d and %d floats", n, l))
		}
	}
	return n > 0
}

// Add sets dst = x + y. In this and the following functions dst may be an input.
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

// ReLUGrad sets dst to dy where y, the input or the result of ReLU, is positive or NaN, and
// to 0 elsewhere.
func ReLUGrad(dst, dy, y []float32) {
	if sameLength(len(dst), len(dy), len(y)) {
		active.reluGrad(&dst[0], &dy[0], &y[0], len(dst))
	}
}

// Exp sets dst = exp(x), with an error of at most 2 units in the last place (ULP).
func Exp(dst, x []float32) {
	if sameLength(len(dst), len(x)) {
		active.exp(&dst[0], &x[0], len(dst), 0)
	}
}

// Tanh sets dst = tanh(x), with an error of at most 4 ULP.
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

// Sigmoid sets dst = 1/(1+exp(-x)), with an error of at most 4 ULP.
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

// GELU sets dst = x·Φ(x), where Φ is the normal distribution function, with an error of at
// most 6 ULP, except for subnormal results.
func GELU(dst, x []float32) {
	if sameLength(len(dst), len(x)) {
		active.gelu(&dst[0], &x[0], len(dst))
	}
}

// GELUGrad sets dst = dy·(Φ(x) + x·φ(x)), with an error of at most 6 ULP of the larger
// term.
func GELUGrad(dst, dy, x []float32) {
	if sameLength(len(dst), len(dy), len(x)) {
		active.geluGrad(&dst[0], &dy[0], &x[0], len(dst))
	}
}

// LSTMStep computes one step of an LSTM of n units for one example. It reads the inputs of
// the gates i, f, g, o, which are x + p, 4n floats each, and the previous cell. It writes the
// gates and the cell f·previousCell + i·g to trace, 5n floats, tanh of the cell to cellTanh,
// and o·tanh of the cell to hidden. It is as accurate as Sigmoid and Tanh.
func LSTMStep(trace, hidden, cellTanh, x, p, previousCell []float32) {
	n := len(hidden)
	if sameLength(5*n, len(trace)) && sameLength(4*n, len(x), len(p)) && sameLength(n, len(cellTanh), len(previousCell)) {
		active.lstmStep(&trace[0], &hidden[0], &cellTanh[0], &x[0], &p[0], &previousCell[0], n)
	}
}

// LSTMSignals is the backward pass of LSTMStep. The gradient of the hidden state is
// grad + recurrentGrad. It writes the gradient of the gates' inputs, 4n floats, to d. It
// replaces cell, the gradient of the cell that comes from the next step, by the gradient of
// the previous cell.
func LSTMSignals(d, cell, trace, cellTanh, previousCell, grad, recurrentGrad []float32) {
	n := len(cell)
	if sameLength(5*n, len(trace)) && sameLength(4*n, len(d)) &&
		sameLength(n, len(cellTanh), len(previousCell), len(grad), len(recurrentGrad)) {
		active.lstmSignals(&d[0], &cell[0], &trace[0], &cellTanh[0], &previousCell[0], &grad[0], &recurrentGrad[0], n)
	}
}
