package simd

// LSTMStep computes the gates of one example at one step of an LSTM, n units, in
// one pass. The sums of the gates i, f, g, o are x + p, each 4n; the trace, 5n,
// gets the gates and the cell f·before + i·g; squashed gets tanh of the cell and
// hidden o·tanh of the cell. The functions are as accurate as Sigmoid and Tanh.
func LSTMStep(trace, hidden, squashed, x, p, before []float32) {
	n := len(hidden)
	if same(5*n, len(trace)) && same(4*n, len(x), len(p)) && same(n, len(squashed), len(before)) {
		active.lstmStep(&trace[0], &hidden[0], &squashed[0], &x[0], &p[0], &before[0], n)
	}
}

// LSTMSignals goes back through LSTMStep: from the gradient grad + back of the
// hidden state it writes the signals d at the gates, 4n, and turns the gradient
// of the cell that comes from the step after into that for the step before.
func LSTMSignals(d, cell, trace, squashed, before, grad, back []float32) {
	n := len(cell)
	if same(5*n, len(trace)) && same(4*n, len(d)) && same(n, len(squashed), len(before), len(grad), len(back)) {
		active.lstmSignals(&d[0], &cell[0], &trace[0], &squashed[0], &before[0], &grad[0], &back[0], n)
	}
}
