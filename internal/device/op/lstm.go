package op

import (
	"fmt"
	"math"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// LSTM is the recurrent part of a long short-term memory (Hochreiter & Schmidhuber 1997,
// with the forget gate of Gers et al. 2000) over a whole sequence. Its inputs are the
// input's part of the gates x [B, T, 4H] with bias, the weight W [H, 4H], and the
// LSTMTrace of both. The result is the hidden states [B, T, H]. With gates in PyTorch's
// order,
//
//	i, f, g, o = σ, σ, tanh, σ of x_t + h_{t−1}·W
//	c_t = f⊙c_{t−1} + i⊙g,  h_t = o⊙tanh(c_t)
//
// and h, c are zero before the first step. With Reverse set, the first step is the last
// one of the sequence. The derivative needs the trace as well. A device computes the
// result from the trace instead of running the recurrence again.
type LSTM struct{ Reverse bool }

func (l LSTM) String() string { return fmt.Sprintf("lstm{%t}", l.Reverse) }

func (l LSTM) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 3); err != nil {
		return nil, err
	}
	h, err := checkRecurrent(in[0], in[1], 4)
	if err != nil {
		return nil, err
	}
	return tensor.Shape{in[0][0], in[0][1], h}, checkStates("trace", in[2], in[0], 5*h)
}

func (l LSTM) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	h := shapes[1][0]
	trace := make([]float64, len(out)*5)
	LSTMTrace(l).Do(trace, in[:2], shapes[:2])
	for i := range out {
		at := trace[i/h*5*h+i%h:]
		out[i] = at[3*h] * math.Tanh(at[4*h])
	}
}

func (l LSTM) Rows(int) []bool { return []bool{true, false, true} }
func (l LSTM) Wrt(int) []bool  { return []bool{true, true, false} }

func (l LSTM) Diff(in G.Nodes, out, grad *G.Node) (G.Nodes, error) {
	dx, err := Apply(LSTMGrad(l), in[1], in[2], grad)
	if err != nil {
		return nil, err
	}
	before, err := Apply(Delay(l), out)
	if err != nil {
		return nil, err
	}
	dw, err := weightGradient(before, dx)
	return G.Nodes{dx, dw, nil}, err
}

func (l LSTM) Use(_ int, in G.Nodes, out, grad *G.Node) (Use, error) {
	delta, err := Apply(LSTMGrad(l), in[1], in[2], grad)
	if err != nil {
		return Use{}, err
	}
	before, err := Apply(Delay(l), out)
	w := in[1].Shape()
	return Use{Form: Product{In: w[0], Out: w[1]}, A: before, Delta: delta}, err
}

// LSTMTrace is the gates i, f, g, o and the cell c of every step, [B, T, 5H], from the
// first two inputs of LSTM. It is not differentiated.
type LSTMTrace struct{ Reverse bool }

func (l LSTMTrace) String() string { return fmt.Sprintf("lstmTrace{%t}", l.Reverse) }

func (l LSTMTrace) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 2); err != nil {
		return nil, err
	}
	h, err := checkRecurrent(in[0], in[1], 4)
	if err != nil {
		return nil, err
	}
	return tensor.Shape{in[0][0], in[0][1], 5 * h}, nil
}

func (l LSTMTrace) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	T, h := shapes[0][1], shapes[1][0]
	hidden := make([]float64, h)
	for b := range shapes[0][0] {
		clear(hidden)
		forEachStep(T, l.Reverse, func(t, prev int) {
			y := out[(b*T+t)*5*h:][:5*h]
			copy(y, in[0][(b*T+t)*4*h:][:4*h])
			for k, v := range hidden {
				for j := range 4 * h {
					y[j] += v * in[1][k*4*h+j]
				}
			}
			for j := range h {
				i, f := Sigmoid.apply(y[j]), Sigmoid.apply(y[h+j])
				g, o := math.Tanh(y[2*h+j]), Sigmoid.apply(y[3*h+j])
				c := i * g
				if prev >= 0 {
					c += f * out[(b*T+prev)*5*h+4*h+j]
				}
				y[j], y[h+j], y[2*h+j], y[3*h+j], y[4*h+j] = i, f, g, o, c
				hidden[j] = o * math.Tanh(c)
			}
		})
	}
}

func (l LSTMTrace) Rows(int) []bool { return []bool{true, false} }

// LSTMGrad is the gradient in x [B, T, 4H], which is the gradient at the gates, from the
// weight, the trace and the gradient of the hidden states.
type LSTMGrad struct{ Reverse bool }

func (l LSTMGrad) String() string { return fmt.Sprintf("lstmGrad{%t}", l.Reverse) }

func (l LSTMGrad) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 3); err != nil {
		return nil, err
	}
	x, h, err := checkGateGrad(in[2], in[0], 4)
	if err != nil {
		return nil, err
	}
	return x, checkStates("trace", in[1], x, 5*h)
}

func (l LSTMGrad) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	w, trace, grad := in[0], in[1], in[2]
	T, h := shapes[2][1], shapes[2][2]
	cell := make([]float64, h) // gradient of c for the previous step
	for b := range shapes[2][0] {
		clear(cell)
		forEachStepBackwards(T, l.Reverse, func(t, prev, next int) {
			y, d := trace[(b*T+t)*5*h:][:5*h], out[(b*T+t)*4*h:][:4*h]
			for j := range h {
				dh := grad[(b*T+t)*h+j]
				if next >= 0 {
					for k, v := range out[(b*T+next)*4*h:][:4*h] {
						dh += v * w[j*4*h+k]
					}
				}
				i, f, g, o, tc := y[j], y[h+j], y[2*h+j], y[3*h+j], math.Tanh(y[4*h+j])
				before := 0.0
				if prev >= 0 {
					before = trace[(b*T+prev)*5*h+4*h+j]
				}
				dc := cell[j] + dh*o*(1-tc*tc)
				d[j] = dc * g * i * (1 - i)
				d[h+j] = dc * before * f * (1 - f)
				d[2*h+j] = dc * i * (1 - g*g)
				d[3*h+j] = dh * tc * o * (1 - o)
				cell[j] = dc * f
			}
		})
	}
}
