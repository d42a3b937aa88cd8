package onnx

import (
	"fmt"

	"github.com/dptrain/dptrain/internal/op"
	G "gorgonia.org/gorgonia"
)

// lstm orders gates as ONNX does, i, o, f, c, where this program has i, f, c, o.
func (s step) lstm(o op.LSTM) (string, error) {
	return s.recurrent("LSTM", []int{0, 3, 1, 2}, o.Reverse, nil)
}

// gru orders gates as ONNX does, z, r, h, where this program has r, z, h.
func (s step) gru(o op.GRU) (string, error) {
	bias, ok := values(s.reads[2])
	if !ok {
		return "", fmt.Errorf("%v with a bias that is computed has no translation", o)
	}
	return s.recurrent("GRU", []int{1, 0, 2}, o.Reverse, bias, attribute{"linear_before_reset", 1})
}

// recurrent writes a recurrent layer together with the dense layer that is the
// input's share of its gates, for ONNX has the two in one.
func (s step) recurrent(kind string, order []int, reverse bool, candidate []float32, attributes ...attribute) (string, error) {
	dense, x, twin, ok := s.share()
	weight, constant := values(s.reads[1])
	if !ok || !constant {
		return "", fmt.Errorf("%v over gates that are not one dense layer of weights has no translation", op.Canonical(s.n))
	}
	in, err := s.node(x, twin)
	if err != nil {
		return "", err
	}
	operands := op.CanonicalOperands(dense)
	w, _ := values(operands[1])
	b, _ := values(operands[2])
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
		s.floats(s.reads[1].Name(), []int{1, gates, hidden}, gateRows(weight, hidden, hidden, order)),
		s.floats(operands[2].Name(), []int{1, 2 * gates}, biases),
	}, attributes...)
	y = s.emit("Squeeze", []string{y, s.list(1)})
	return s.emit("Transpose", []string{y}, attribute{"perm", []int{1, 0, 2}}), nil
}

// share finds the dense layer behind the first operand, and what it reads, as
// [batch, time, features], in both networks.
func (s step) share() (dense, x, twin *G.Node, ok bool) {
	find := func(n *G.Node) (dense, x *G.Node) {
		if dense = unshaped(n); dense == nil || op.Canonical(dense) != (op.Linear{}) {
			return nil, nil
		}
		return dense, unshaped(op.CanonicalOperands(dense)[0])
	}
	dense, x = find(s.reads[0])
	_, twin = find(op.CanonicalOperands(s.twin)[0])
	if x == nil || twin == nil || x.Dims() != 3 || x.Shape()[1] != s.shape(0)[1] {
		return nil, nil, nil, false
	}
	for _, p := range op.CanonicalOperands(dense)[1:] {
		if _, constant := values(p); !constant {
			return nil, nil, nil, false
		}
	}
	return dense, x, twin, true
}

// unshaped is what a reshape reads; nil where n is none.
func unshaped(n *G.Node) *G.Node {
	if _, ok := op.Canonical(n).(op.Reshape); !ok {
		return nil
	}
	return op.CanonicalOperands(n)[0]
}

// gateRows lays a weight [in, gates·hidden] out as ONNX has it, [gates·hidden,
// in], with the gates in the given order.
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
