package op

import (
	"fmt"
	"math"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// GRU is the recurrent part of a gated recurrent unit (Cho et al. 2014; in PyTorch's
// form, where the reset gate acts after the product) over a whole sequence. Its inputs
// are the input's part of the gates x [B, T, 3H] with bias, the weight W [H, 3H], the
// candidate's own bias b [H], and the GRUTrace of these three. The result is the hidden
// states [B, T, H]. With gates in PyTorch's order r, z, n,
//
//	r, z = σ of x_t + h_{t−1}·W
//	q = h_{t−1}·W_n + b,  n = tanh(x_n + r⊙q)
//	h_t = (1−z)⊙n + z⊙h_{t−1}
//
// and h is zero before the first step. With Reverse set, the first step is the last one
// of the sequence. The trace is used as in LSTM.
type GRU struct{ Reverse bool }

func (g GRU) String() string { return fmt.Sprintf("gru{%t}", g.Reverse) }

func (g GRU) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 4); err != nil {
		return nil, err
	}
	trace, err := GRUTrace(g).Shape(in[:3])
	if err != nil {
		return nil, err
	}
	h := in[1][0]
	return tensor.Shape{trace[0], trace[1], h}, checkStates("trace", in[3], in[0], 4*h)
}

func (g GRU) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	T, h := shapes[0][1], shapes[1][0]
	trace := make([]float64, len(out)*4)
	GRUTrace(g).Do(trace, in[:3], shapes[:3])
	for b := range shapes[0][0] {
		forEachStep(T, g.Reverse, func(t, prev int) {
			y := trace[(b*T+t)*4*h:][:4*h]
			for j := range h {
				z, n := y[h+j], y[3*h+j]
				v := (1 - z) * n
				if prev >= 0 {
					v += z * out[(b*T+prev)*h+j]
				}
				out[(b*T+t)*h+j] = v
			}
		})
	}
}

func (g GRU) Rows(int) []bool { return []bool{true, false, false, true} }
func (g GRU) Wrt(int) []bool  { return []bool{true, true, true, false} }

// inputGrads returns the gradient in x and the gradient at h·W. The last H columns of the
// latter are the gradient at q.
func (g GRU) inputGrads(in G.Nodes, out, grad *G.Node) (dx, dq *G.Node, err error) {
	if dx, err = Apply(GRUGrad(g), in[1], in[3], out, grad); err != nil {
		return nil, nil, err
	}
	dq, err = Apply(GRUHidden{}, in[3], dx)
	return dx, dq, err
}

// candidateColumns is the candidate's part of the gradient at h·W.
func candidateColumns(dq *G.Node) (*G.Node, error) {
	h := dq.Shape()[2] / 3
	return Apply(Slice{Axis: 2, From: 2 * h, Count: h, Step: 1}, dq)
}

func (g GRU) Diff(in G.Nodes, out, grad *G.Node) (G.Nodes, error) {
	dx, dq, err := g.inputGrads(in, out, grad)
	if err != nil {
		return nil, err
	}
	before, err := Apply(Delay(g), out)
	if err != nil {
		return nil, err
	}
	dw, err := weightGradient(before, dq)
	if err != nil {
		return nil, err
	}
	dn, err := candidateColumns(dq)
	if err != nil {
		return nil, err
	}
	db, err := Apply(ChannelSum{Channels: in[2].Shape()[0], Inner: 1}, dn)
	return G.Nodes{dx, dw, db, nil}, err
}

func (g GRU) Use(i int, in G.Nodes, out, grad *G.Node) (Use, error) {
	_, dq, err := g.inputGrads(in, out, grad)
	if err != nil {
		return Use{}, err
	}
	w := in[1].Shape()
	if i == 1 {
		before, err := Apply(Delay(g), out)
		return Use{Form: Product{In: w[0], Out: w[1]}, A: before, Delta: dq}, err
	}
	dn, err := candidateColumns(dq)
	return Use{Form: Shift{Channels: w[0], Inner: 1}, Delta: dn}, err
}

// GRUTrace is r, z, q and n of every step, [B, T, 4H], from the first three inputs of
// GRU. It is not differentiated.
type GRUTrace struct{ Reverse bool }

func (g GRUTrace) String() string { return fmt.Sprintf("gruTrace{%t}", g.Reverse) }

func (g GRUTrace) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 3); err != nil {
		return nil, err
	}
	h, err := checkRecurrent(in[0], in[1], 3)
	if err != nil {
		return nil, err
	}
	if in[2].Dims() != 1 || in[2][0] != h {
		return nil, fmt.Errorf("bias of shape %v for %d hidden units", in[2], h)
	}
	return tensor.Shape{in[0][0], in[0][1], 4 * h}, nil
}

func (g GRUTrace) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	T, h := shapes[0][1], shapes[1][0]
	hidden := make([]float64, h)
	for b := range shapes[0][0] {
		clear(hidden)
		forEachStep(T, g.Reverse, func(t, _ int) {
			x, y := in[0][(b*T+t)*3*h:][:3*h], out[(b*T+t)*4*h:][:4*h]
			copy(y, x[:2*h])
			copy(y[2*h:], in[2])
			for k, v := range hidden {
				for j := range 3 * h {
					y[j] += v * in[1][k*3*h+j]
				}
			}
			for j := range h {
				r, z := Sigmoid.apply(y[j]), Sigmoid.apply(y[h+j])
				n := math.Tanh(x[2*h+j] + r*y[2*h+j])
				y[j], y[h+j], y[3*h+j] = r, z, n
				hidden[j] = (1-z)*n + z*hidden[j]
			}
		})
	}
}

func (g GRUTrace) Rows(int) []bool { return []bool{true, false, false} }

// GRUGrad is the gradient in x [B, T, 3H], from the weight, the trace, the hidden states
// and their gradient.
type GRUGrad struct{ Reverse bool }

func (g GRUGrad) String() string { return fmt.Sprintf("gruGrad{%t}", g.Reverse) }

func (g GRUGrad) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 4); err != nil {
		return nil, err
	}
	x, h, err := checkGateGrad(in[3], in[0], 3)
	if err != nil {
		return nil, err
	}
	if err := checkStates("trace", in[1], x, 4*h); err != nil {
		return nil, err
	}
	return x, checkStates("hidden states", in[2], x, h)
}

func (g GRUGrad) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	w, trace, hidden, grad := in[0], in[1], in[2], in[3]
	T, h := shapes[3][1], shapes[3][2]
	carry := make([]float64, h)    // gradient of h for the previous step
	signal := make([]float64, 3*h) // at h·W
	for b := range shapes[3][0] {
		clear(carry)
		forEachStepBackwards(T, g.Reverse, func(t, prev, _ int) {
			y, d := trace[(b*T+t)*4*h:][:4*h], out[(b*T+t)*3*h:][:3*h]
			for j := range h {
				r, z, q, n := y[j], y[h+j], y[2*h+j], y[3*h+j]
				before := 0.0
				if prev >= 0 {
					before = hidden[(b*T+prev)*h+j]
				}
				dh := carry[j] + grad[(b*T+t)*h+j]
				dn := dh * (1 - z) * (1 - n*n)
				d[j] = dn * q * r * (1 - r)
				d[h+j] = dh * (before - n) * z * (1 - z)
				d[2*h+j] = dn
				signal[j], signal[h+j], signal[2*h+j] = d[j], d[h+j], dn*r
				carry[j] = dh * z
			}
			for j := range h {
				for k, v := range signal {
					carry[j] += v * w[j*3*h+k]
				}
			}
		})
	}
}

// GRUHidden is the gradient at h·W [B, T, 3H], from the trace and the gradient in x. The
// two differ in the candidate's part only, which the reset gate scales.
type GRUHidden struct{}

func (GRUHidden) String() string { return "gruHidden" }

func (GRUHidden) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 2); err != nil {
		return nil, err
	}
	if in[1].Dims() != 3 || in[1][2]%3 != 0 {
		return nil, fmt.Errorf("gradient of shape %v: [batch, time, 3·hidden] is needed", in[1])
	}
	return in[1].Clone(), checkStates("trace", in[0], in[1], in[1][2]/3*4)
}

func (GRUHidden) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	h := shapes[1][2] / 3
	for i, d := range in[1] {
		if j := i % (3 * h); j >= 2*h {
			d *= in[0][i/(3*h)*4*h+j-2*h]
		}
		out[i] = d
	}
}
