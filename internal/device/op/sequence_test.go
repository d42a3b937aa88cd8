package op

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gorgonia.org/tensor"
)

// result is the operand that an operation computes.
func result(s Operation, in ...operand) operand {
	tr := trial{s, in}
	shape, err := s.Shape(tr.shapes())
	if err != nil {
		panic(err)
	}
	out := operand{shape, make([]float64, shape.TotalSize())}
	s.Do(out.values, tr.values(), tr.shapes())
	return out
}

// sequenceTrials draws one trial of every differentiable operation on sequences.
func sequenceTrials(r *rand.Rand) []trial {
	b, T, h := between(r, 1, 4), between(r, 1, 5), between(r, 1, 4)
	var list []trial
	add := func(s Differentiable, in ...operand) { list = append(list, trial{s, in}) }
	for _, reverse := range []bool{false, true} {
		x, w := normal(r, b, T, 4*h), normal(r, h, 4*h)
		add(LSTM{reverse}, x, w, result(LSTMTrace{reverse}, x, w))
		x, w = normal(r, b, T, 3*h), normal(r, h, 3*h)
		bias := normal(r, h)
		add(GRU{reverse}, x, w, bias, result(GRUTrace{reverse}, x, w, bias))
	}
	add(Join{}, normal(r, b, T, h), normal(r, b, T, 2), normal(r, b, T, 1))

	heads := between(r, 1, 3)
	for _, causal := range []bool{false, true} {
		add(Attention{Heads: heads, Causal: causal}, normal(r, b, T, 3*heads*h))
		add(Attention{Heads: heads, Causal: causal}, normal(r, b, T, 3*heads*h), whole(r, -1, 3, b, T))
	}
	add(Attention{Heads: heads, Causal: true, Window: between(r, 1, 4), Scale: 0.3, Cap: 0.7}, normal(r, b, T, 3*heads*h), whole(r, -1, 3, b, T))
	add(Attention{Heads: heads, Cap: 1.5}, normal(r, b, T, 3*heads*h))
	add(Rotary{HeadDim: 2 * h, RotaryDims: 4 * h}, normal(r, b, T, 6*h))
	add(Rotary{HeadDim: 2 * h, RotaryDims: 2 * h, Inverse: true}, normal(r, b, T, 2*h))
	add(Rotary{HeadDim: 4, RotaryDims: 8, Base: 50}, normal(r, b, T, 8))
	add(Rotary{HeadDim: 4, RotaryDims: 8, Scaling: RotaryScaling{Factor: 2}}, normal(r, b, T, 8))
	add(RepeatHeads{h, 3}, normal(r, b, T, 2*h))
	add(ScaleRows{}, normal(r, b, T, h), whole(r, -1, 3, b, T))
	add(ChannelScale{h, 2}, normal(r, b, T, h, 2), normal(r, h))
	add(ChannelShift{h, 2}, normal(r, b, T, h, 2), normal(r, h))
	add(ChannelShift{T * h, 1}, normal(r, b, T, h), normal(r, T, h))
	return list
}

// One unit over two steps, computed by hand.
func TestLSTM_ByHand(t *testing.T) {
	x := operand{tensor.Shape{1, 2, 4}, []float64{0.1, 0.2, 0.3, 0.4, -0.5, 0.6, -0.7, 0.8}}
	w := operand{tensor.Shape{1, 4}, []float64{1, -2, 3, -4}}
	σ := Sigmoid.apply
	forth := func(x, y []float64) (float64, float64) {
		c1 := σ(x[0]) * math.Tanh(x[2])
		h1 := σ(x[3]) * math.Tanh(c1)
		c2 := σ(y[1]-2*h1)*c1 + σ(y[0]+h1)*math.Tanh(y[2]+3*h1)
		return h1, σ(y[3]-4*h1) * math.Tanh(c2)
	}
	h1, h2 := forth(x.values[:4], x.values[4:])
	got := result(LSTM{}, x, w, result(LSTMTrace{}, x, w))
	same(t, "hidden states", got.values, []float64{h1, h2}, 1e-15)
	h1, h2 = forth(x.values[4:], x.values[:4])
	got = result(LSTM{true}, x, w, result(LSTMTrace{true}, x, w))
	same(t, "hidden states in reverse", got.values, []float64{h2, h1}, 1e-15)
	same(t, "states before, in reverse", result(Delay{true}, got).values, []float64{h1, 0}, 1e-15)
	same(t, "states before", result(Delay{}, got).values, []float64{0, h2}, 1e-15)
}

func TestGRU_ByHand(t *testing.T) {
	x := operand{tensor.Shape{1, 2, 3}, []float64{0.1, 0.2, 0.3, -0.5, 0.6, -0.7}}
	w := operand{tensor.Shape{1, 3}, []float64{1, -2, 3}}
	b := operand{tensor.Shape{1}, []float64{0.5}}
	σ := Sigmoid.apply
	forth := func(x, y []float64) (float64, float64) {
		h1 := (1 - σ(x[1])) * math.Tanh(x[2]+σ(x[0])*0.5)
		z := σ(y[1] - 2*h1)
		return h1, (1-z)*math.Tanh(y[2]+σ(y[0]+h1)*(3*h1+0.5)) + z*h1
	}
	h1, h2 := forth(x.values[:3], x.values[3:])
	got := result(GRU{}, x, w, b, result(GRUTrace{}, x, w, b))
	same(t, "hidden states", got.values, []float64{h1, h2}, 1e-15)
	h1, h2 = forth(x.values[3:], x.values[:3])
	got = result(GRU{true}, x, w, b, result(GRUTrace{true}, x, w, b))
	same(t, "hidden states in reverse", got.values, []float64{h2, h1}, 1e-15)
}

// Two heads of one column over three steps, computed by hand.
func TestAttention_ByHand(t *testing.T) {
	q := [][]float64{{0.5, -1}, {2, 1}, {-1, 3}}
	k := [][]float64{{1, 2}, {-2, 0.5}, {0.25, -1}}
	v := [][]float64{{10, 20}, {-30, 40}, {50, -60}}
	x := operand{tensor.Shape{1, 3, 6}, nil}
	for s := range 3 {
		x.values = append(append(append(x.values, q[s]...), k[s]...), v[s]...)
	}
	want := func(sees func(t, u int) bool) (out []float64) {
		for s := range 3 {
			for h := range 2 {
				var sum, norm float64
				for u := range 3 {
					if sees(s, u) {
						e := math.Exp(q[s][h] * k[u][h])
						sum += e * v[u][h]
						norm += e
					}
				}
				out = append(out, sum/math.Max(norm, 1e-300))
			}
		}
		return out
	}
	same(t, "full", result(Attention{Heads: 2}, x).values, want(func(_, _ int) bool { return true }), 1e-15)
	same(t, "causal", result(Attention{Heads: 2, Causal: true}, x).values, want(func(s, u int) bool { return u <= s }), 1e-15)
	padding := operand{tensor.Shape{1, 3}, []float64{-1, 0, 7}}
	same(t, "causal and padded", result(Attention{Heads: 2, Causal: true}, x, padding).values,
		want(func(s, u int) bool { return u <= s && u > 0 }), 1e-15)
}

// A step does not depend on the steps that it does not attend to, even if they contain
// NaNs.
func TestAttention_IgnoresHiddenNaNs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 31))
	x, dy := normal(r, 1, 3, 6), normal(r, 1, 3, 2)
	padding := operand{tensor.Shape{1, 3}, []float64{0, 0, -1}}
	spec := Attention{Heads: 2}
	want := result(spec, x, padding).values[:4]
	for i := range 2 { // no gradient returns to the step itself
		dy.values[4+i] = 0
	}
	slopes := trial{AttentionGrad(spec), []operand{x, dy, padding}}.do(t).values
	for i := 12 + 2; i < 18; i++ { // key and value of the last step
		x.values[i] = math.NaN()
	}
	same(t, "the steps before it", result(spec, x, padding).values[:4], want, 0)
	same(t, "their gradients", trial{AttentionGrad(spec), []operand{x, dy, padding}}.do(t).values, slopes, 0)
}

// Attention between rotated queries and keys depends on their distance, not on their
// positions.
func TestRotary_DependsOnDistance(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 31))
	q, k := normal(r, 8).values, normal(r, 8).values
	x := operand{tensor.Shape{1, 12, 16}, nil}
	for range 12 {
		x.values = append(append(x.values, q...), k...)
	}
	y := result(Rotary{HeadDim: 8, RotaryDims: 16}, x).values
	same(t, "the first step", y[:16], x.values[:16], 0)
	dot := func(s, u int) (sum float64) {
		for j := range 8 {
			sum += y[s*16+j] * y[u*16+8+j]
		}
		return sum
	}
	for far := range 6 {
		for s := range 6 {
			if !(math.Abs(dot(s+far, s)-dot(far, 0)) <= 1e-12) {
				t.Errorf("%d steps apart: product %g at step %d, %g at the start", far, dot(s+far, s), s, dot(far, 0))
			}
		}
	}
	if math.Abs(dot(1, 0)-dot(0, 0)) < 1e-3 {
		t.Error("a step's distance makes no difference")
	}
	angle := math.Pow(10000, -0.5) // of columns 2 and 6 at step 1
	same(t, "a pair", []float64{y[18], y[22]}, []float64{
		q[2]*math.Cos(angle) - q[6]*math.Sin(angle), q[2]*math.Sin(angle) + q[6]*math.Cos(angle),
	}, 1e-15)
}

func TestSequences_RefuseBadShapes(t *testing.T) {
	s := func(dims ...int) tensor.Shape { return dims }
	for _, c := range []struct {
		spec     Operation
		in       []tensor.Shape
		contains string
	}{
		{LSTM{}, []tensor.Shape{s(2, 3, 8), s(2, 8)}, "2 inputs given, 3 needed"},
		{LSTM{}, []tensor.Shape{s(2, 3, 8), s(2, 6), s(2, 3, 10)}, "[hidden, 4·hidden]"},
		{LSTM{}, []tensor.Shape{s(2, 8), s(2, 8), s(2, 3, 10)}, "[batch, time, 8]"},
		{LSTM{}, []tensor.Shape{s(2, 3, 8), s(2, 8), s(2, 3, 8)}, "trace"},
		{LSTMTrace{}, []tensor.Shape{s(2, 3, 7), s(2, 8)}, "[batch, time, 8]"},
		{LSTMGrad{}, []tensor.Shape{s(2, 8), s(2, 3, 10), s(2, 2)}, "gradient"},
		{LSTMGrad{}, []tensor.Shape{s(2, 8), s(2, 4, 10), s(2, 3, 2)}, "trace"},
		{GRU{}, []tensor.Shape{s(2, 3, 6), s(2, 6), s(3), s(2, 3, 8)}, "bias"},
		{GRU{}, []tensor.Shape{s(2, 3, 6), s(2, 6), s(2), s(2, 3, 6)}, "trace"},
		{GRUGrad{}, []tensor.Shape{s(2, 6), s(2, 3, 8), s(2, 3, 3), s(2, 3, 2)}, "hidden states"},
		{GRUHidden{}, []tensor.Shape{s(2, 3, 8), s(2, 3, 5)}, "3·hidden"},
		{Attention{Heads: 2, Causal: false}, nil, "0 inputs given"},
		{Attention{Heads: 2, Causal: false}, []tensor.Shape{s(2, 3, 9)}, "divisible by 2 heads"},
		{Attention{Heads: 0, Causal: false}, []tensor.Shape{s(2, 3, 9)}, "0 heads"},
		{Attention{Heads: 1, Causal: false}, []tensor.Shape{s(2, 3, 9), s(2, 4)}, "padding"},
		{Attention{Heads: 1, Causal: false}, []tensor.Shape{s(2, 3, 9), s(1, 3)}, "padding"},
		{Attention{Heads: 1, Causal: false}, []tensor.Shape{s(2, 3, 9), s(2, 3), s(2, 3)}, "2 inputs mark padding"},
		{AttentionGrad{Heads: 1, Causal: false}, []tensor.Shape{s(2, 3, 9), s(2, 3, 4)}, "gradient"},
		{Attention{Heads: 1, Window: 2}, []tensor.Shape{s(2, 3, 9)}, "a window needs causal attention"},
		{Attention{Heads: 1, Cap: -1}, []tensor.Shape{s(2, 3, 9)}, "cap -1"},
		{Rotary{HeadDim: 2, RotaryDims: 2, Scaling: RotaryScaling{Factor: -1}}, []tensor.Shape{s(2, 3, 2)}, "factor -1"},
		{Rotary{HeadDim: 2, RotaryDims: 2, Scaling: RotaryScaling{2, 4, 1, 8}}, []tensor.Shape{s(2, 3, 2)}, "low_freq_factor 4"},
		{Rotary{HeadDim: 3, RotaryDims: 3}, []tensor.Shape{s(2, 3, 3)}, "even head width"},
		{Rotary{HeadDim: 2, RotaryDims: 4}, []tensor.Shape{s(2, 3, 3)}, "first 4 of 3"},
		{Rotary{HeadDim: 2, RotaryDims: 2, Base: -1}, []tensor.Shape{s(2, 3, 2)}, "a positive number is needed"},
		{RepeatHeads{2, 2}, []tensor.Shape{s(2, 3, 3)}, "in heads of 2"},
		{SumHeads{2, 2}, []tensor.Shape{s(2, 3, 6)}, "with 2 copies"},
		{LastStep{}, []tensor.Shape{s(2, 3, 6)}, "[batch, time]"},
		{Rotary{HeadDim: 2, RotaryDims: 2}, []tensor.Shape{s(2, 3)}, "[batch, time, features]"},
		{ChannelShift{3, 2}, []tensor.Shape{s(2, 3, 2), s(2)}, "3 channels"},
		{ChannelScale{3, 4}, []tensor.Shape{s(4, 3, 2), s(3)}, "a row of shape"},
		{ChannelShift{3, 4}, []tensor.Shape{s(4, 3, 2), s(3)}, "a row of shape"},
		{Delay{}, []tensor.Shape{s(2, 3)}, "[batch, time, features]"},
		{Join{}, nil, "features"},
		{Join{}, []tensor.Shape{s(2, 3), s(3, 3)}, "cannot be concatenated"},
	} {
		_, err := c.spec.Shape(c.in)
		if err == nil || !strings.Contains(err.Error(), c.contains) {
			t.Errorf("%v%v: %v does not contain %q", c.spec, c.in, err, c.contains)
		}
	}
}
