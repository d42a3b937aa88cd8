package op

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// forEachStep visits the n steps of a sequence in the order in which a recurrent layer
// reads them. Prev is the previous step, −1 at the first.
func forEachStep(n int, reverse bool, f func(t, prev int)) {
	prev := -1
	for k := range n {
		t := k
		if reverse {
			t = n - 1 - k
		}
		f(t, prev)
		prev = t
	}
}

// forEachStepBackwards visits the steps in the opposite order. Next is the following
// step, −1 at the last.
func forEachStepBackwards(n int, reverse bool, f func(t, prev, next int)) {
	var order []int
	forEachStep(n, reverse, func(t, _ int) { order = append(order, t) })
	at := func(k int) int {
		if k < 0 || k >= n {
			return -1
		}
		return order[k]
	}
	for k := n - 1; k >= 0; k-- {
		f(order[k], at(k-1), at(k+1))
	}
}

// checkRecurrent checks a recurrent layer's operands: the input's part of the gates x [B,
// T, gates·H] and the weight [H, gates·H]. It returns H.
func checkRecurrent(x, w tensor.Shape, gates int) (int, error) {
	if w.Dims() != 2 || w[1] != gates*w[0] {
		return 0, fmt.Errorf("weight of shape %v: [hidden, %d·hidden] is needed", w, gates)
	}
	if x.Dims() != 3 || x[2] != w[1] {
		return 0, fmt.Errorf("input of shape %v: [batch, time, %d] is needed", x, w[1])
	}
	return w[0], nil
}

// checkGateGrad returns the shape of a recurrent layer's input, and H, from the gradient
// of its hidden states [B, T, H] and its weight.
func checkGateGrad(grad, w tensor.Shape, gates int) (x tensor.Shape, h int, err error) {
	if grad.Dims() != 3 {
		return nil, 0, fmt.Errorf("gradient of shape %v: [batch, time, hidden] is needed", grad)
	}
	x = tensor.Shape{grad[0], grad[1], gates * grad[2]}
	h, err = checkRecurrent(x, w, gates)
	return x, h, err
}

// checkStates checks that a tensor has width numbers per step for the sequences of like.
func checkStates(what string, s, like tensor.Shape, width int) error {
	if s.Dims() != 3 || like.Dims() != 3 || s[0] != like[0] || s[1] != like[1] || s[2] != width {
		return fmt.Errorf("%s of shape %v does not fit %v: %d numbers per step are needed", what, s, like, width)
	}
	return nil
}

// Delay shifts x [B, T, D] by one step and begins with zeros: these are the hidden states
// that a recurrent layer multiplies by its weight.
type Delay struct{ Reverse bool }

func (d Delay) String() string { return fmt.Sprintf("delay{%t}", d.Reverse) }

func (d Delay) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 1); err != nil {
		return nil, err
	}
	if in[0].Dims() != 3 {
		return nil, fmt.Errorf("shape %v: [batch, time, features] is needed", in[0])
	}
	return in[0].Clone(), nil
}

func (d Delay) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	clear(out)
	s := shapes[0]
	for b := range s[0] {
		forEachStep(s[1], d.Reverse, func(t, prev int) {
			if prev >= 0 {
				copy(out[(b*s[1]+t)*s[2]:][:s[2]], in[0][(b*s[1]+prev)*s[2]:])
			}
		})
	}
}

// Join concatenates tensors with the same leading axes along the last axis.
type Join struct{}

func (Join) String() string { return "join" }

func (Join) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if len(in) == 0 || in[0].Dims() < 2 {
		return nil, fmt.Errorf("shapes %v: tensors [batch, …, features] are needed", in)
	}
	return Concat{Axis: in[0].Dims() - 1}.Shape(in)
}

func (Join) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	Concat{Axis: shapes[0].Dims() - 1}.Do(out, in, shapes)
}

func (Join) Rows(n int) []bool { return allTrue(n) }
func (Join) Wrt(n int) []bool  { return allTrue(n) }

func (Join) Diff(in G.Nodes, _, grad *G.Node) (G.Nodes, error) {
	var out G.Nodes
	from := 0
	for _, x := range in {
		s := x.Shape()
		width := s[len(s)-1]
		d, err := Apply(Slice{Axis: len(s) - 1, From: from, Count: width, Step: 1}, grad)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
		from += width
	}
	return out, nil
}

// weightGradient is the ordinary gradient of a recurrent weight, from rows h and
// gradients delta, both [B, T, …].
func weightGradient(h, delta *G.Node) (*G.Node, error) {
	rows := func(x *G.Node) (*G.Node, error) {
		s := x.Shape()
		return Apply(Reshape{To: AxesOf(s[0]*s[1], s[2])}, x)
	}
	a, err := rows(h)
	if err != nil {
		return nil, err
	}
	d, err := rows(delta)
	if err != nil {
		return nil, err
	}
	return Apply(MatMul{TransA: true}, a, d)
}
