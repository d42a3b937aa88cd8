package onnx

import (
	"fmt"

	"github.com/dptrain/dptrain/internal/device/op"
	G "gorgonia.org/gorgonia"
)

// lstm reorders the gates from i, f, c, o (dptrain) to i, o, f, c (ONNX).
func (s operation) lstm(o op.LSTM) (string, error) {
	return s.recurrent("LSTM", []int{0, 3, 1, 2}, o.Reverse, nil)
}

// gru reorders the gates from r, z, h (dptrain) to z, r, h (ONNX).
func (s operation) gru(o op.GRU) (string, error) {
	bias, ok := constantValues(s.operands[2])
	if !ok {
		return "", fmt.Errorf("%v with a computed bias has no ONNX translation", o)
	}
	return s.recurrent("GRU", []int{1, 0, 2}, o.Reverse, bias, attribute{"linear_before_reset", 1})
}

// recurrent writes a recurrent layer together with the dense layer that computes the input part of
// its gates, because one ONNX operator contains both.
func (s operation) recurrent(kind string, order []int, reverse bool, candidate []float32, attributes ...attribute) (string, error) {
	dense, x, other, ok := s.inputGates()
	weight, constant := constantValues(s.operands[1])
	if !ok || !constant {
		return "", fmt.Errorf("%v has no ONNX translation: its gates are not computed by one dense layer", op.Canonical(s.n))
	}
	in, err := s.writeNode(x, other)
	if err != nil {
		return "", err
	}
	operands := op.CanonicalOperands(dense)
	w, _ := constantValues(operands[1])
	b, _ := constantValues(operands[2])
	features, hidden := operands[1].Shape()[0], s.shape(1)[0]
	gates := len(order) * hidden

	biases := make([]float32, 2*gates)
	for to, from := range order {
		copy(biases[to*hidden:][:hidden], b[from*hidden:])
	}
	if candidate != nil {
		copy(biases[2*gates-hidden:], candidate)
	}
	direction := "forward"
	if reverse {
		direction = "reverse"
	}
	attributes = append(attributes, attribute{"hidden_size", hidden}, attribute{"direction", direction})
	steps := s.emit("Transpose", []string{in}, attribute{"perm", []int{1, 0, 2}})
	y := s.emit(kind, []string{
		steps,
		s.floats(operands[1].Name(), []int{1, gates, features}, gateRows(w, features, hidden, order)),
		s.floats(s.operands[1].Name(), []int{1, gates, hidden}, gateRows(weight, hidden, hidden, order)),
		s.floats(operands[2].Name(), []int{1, 2 * gates}, biases),
	}, attributes...)
	y = s.emit("Squeeze", []string{y, s.integers(1)})
	return s.emit("Transpose", []string{y}, attribute{"perm", []int{1, 0, 2}}), nil
}

// inputGates returns the dense layer that computes the first operand, and the input of that layer as
// [batch, time, features] in both networks.
func (s operation) inputGates() (dense, x, other *G.Node, ok bool) {
	find := func(n *G.Node) (dense, x *G.Node) {
		if dense = reshapeOperand(n); dense == nil || op.Canonical(dense) != (op.Linear{}) {
			return nil, nil
		}
		return dense, reshapeOperand(op.CanonicalOperands(dense)[0])
	}
	dense, x = find(s.operands[0])
	_, other = find(op.CanonicalOperands(s.other)[0])
	if x == nil || other == nil || x.Dims() != 3 || x.Shape()[1] != s.shape(0)[1] {
		return nil, nil, nil, false
	}
	for _, p := range op.CanonicalOperands(dense)[1:] {
		if _, constant := constantValues(p); !constant {
			return nil, nil, nil, false
		}
	}
	return dense, x, other, true
}

// reshapeOperand returns the operand of a reshape, or nil if n is no reshape.
func reshapeOperand(n *G.Node) *G.Node {
	if _, ok := op.Canonical(n).(op.Reshape); !ok {
		return nil
	}
	return op.CanonicalOperands(n)[0]
}

// gateRows converts a weight from [in, gates·hidden] to ONNX's [gates·hidden, in], with the gates in
// the given order.
func gateRows(w []float32, in, hidden int, order []int) []float32 {
	rows := make([]float32, 0, len(w))
	for _, gate := range order {
		for j := range hidden {
			for i := range in {
				rows = append(rows, w[i*len(order)*hidden+gate*hidden+j])
			}
		}
	}
	return rows
}
