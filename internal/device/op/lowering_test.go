package op

import (
	"math"
	"math/rand/v2"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

func TestIm2Col_AgreesWithGorgonia(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 13))
		w, h, wd := someWindow(r)
		c := between(r, 1, 3)
		x := normal(r, between(r, 1, 3), c, h, wd)
		g := G.NewGraph()
		in := x.node(t, g, "x")
		y, err := G.Im2Col(in, tensor.Shape{w.KernelH, w.KernelW}, tensor.Shape{w.PadH, w.PadW},
			tensor.Shape{w.StrideH, w.StrideW}, tensor.Shape{w.DilationH, w.DilationW})
		if err != nil {
			t.Fatal(err)
		}
		loss, weights := weigh(t, r, y)
		grads, err := G.Grad(loss, in)
		if err != nil {
			t.Fatal(err)
		}
		want := run(t, y, grads[0])
		rows := trial{Im2Col{w}, []operand{x}}.do(t)
		same(t, w.String(), rows.values, want[0], 0)
		dy := operand{rows.shape, weights}
		same(t, w.String()+" back", trial{Col2Im{w, c, h, wd}, []operand{dy}}.do(t).values, want[1], 1e-14)
	}
}

// Softmax agrees with its definition and with Gorgonia's softmax. Its gradient agrees
// with finite differences.
func TestSoftmax(t *testing.T) {
	for seed := range uint64(6) {
		for _, s := range []Softmax{{0, false}, {1, false}, {2, false}, {0, true}, {1, true}, {2, true}} {
			r := rand.New(rand.NewPCG(seed, 17))
			x := normal(r, between(r, 2, 4), between(r, 2, 4), between(r, 2, 4))
			y := trial{s, []operand{x}}.do(t)
			want := make([]float64, len(y.values))
			s.forEachLine(x.shape, func(at, step, n int) {
				var sum float64
				for k := range n {
					sum += math.Exp(x.values[at+k*step])
				}
				for k := range n {
					want[at+k*step] = math.Exp(x.values[at+k*step]) / sum
					if s.Log {
						want[at+k*step] = math.Log(want[at+k*step])
					}
				}
			})
			same(t, s.String()+" by definition", y.values, want, 1e-14)

			g := G.NewGraph()
			f := G.SoftMax
			if s.Log {
				f = G.LogSoftMax
			}
			in := x.node(t, g, "x")
			n, err := f(in, s.Axis)
			if err != nil {
				t.Fatal(err)
			}
			loss, weights := weigh(t, r, n)
			grads, err := G.Grad(loss, in)
			if err != nil {
				t.Fatal(err)
			}
			got := run(t, n, grads[0])
			w := operand{x.shape, weights}
			dx := trial{SoftmaxGrad(s), []operand{y, w}}.do(t).values
			same(t, s.String()+" by Gorgonia", y.values, got[0], 1e-12)
			same(t, s.String()+"'s gradient by Gorgonia", dx, got[1], 1e-12)

			for i, v := range x.values {
				var diff float64
				for _, h := range []float64{1e-5, -1e-5} {
					x.values[i] = v + h
					for k, y := range (trial{s, []operand{x}}).do(t).values {
						diff += w.values[k] * y / (2 * h)
					}
				}
				x.values[i] = v
				if !(math.Abs(diff-dx[i]) <= 1e-8) {
					t.Fatalf("%v: gradient %v, want %v", s, dx[i], diff)
				}
			}
		}
	}
	large := trial{Softmax{0, false}, []operand{{tensor.Shape{2}, []float64{1000, 0}}}}.do(t)
	same(t, "large numbers", large.values, []float64{1, 0}, 0)
}
