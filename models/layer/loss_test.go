package layer

import (
	"math"
	"testing"

	G "gorgonia.org/gorgonia"
)

// Losses of two examples of two elements each.
func TestLosses_MatchDefinitions(t *testing.T) {
	for _, c := range []struct {
		name   string
		loss   func(b *Builder, prediction, target *G.Node) *G.Node
		target []float32
		want   []float64
	}{
		{"absolute", AbsoluteError, []float32{1, 1, 1, 1}, []float64{0.5 + 3, 1 + 2}},
		{"Huber", func(b *Builder, x, y *G.Node) *G.Node { return HuberLoss(b, x, y, 1) }, []float32{1, 1, 1, 1}, []float64{0.125 + 2.5, 0.5 + 1.5}},
		{"Poisson", PoissonLoss, []float32{1, 0, 2, 3}, []float64{math.Exp(0.5) - 0.5 + math.Exp(-2), 1 + math.Exp(3) - 9}},
		{"hinge", HingeLoss, []float32{1, 1, -1, 1}, []float64{0.5 + 3, 1}},
	} {
		b := NewBuilder(2, 1)
		x := b.Input("x", 2)
		b.SetLoss(c.loss(b, x, b.Input("target", 2)), x)
		net, err := b.Network()
		if err != nil {
			t.Fatal(err)
		}
		got := evaluate(t, net.Inputs, [][]float32{{0.5, -2, 0, 3}, c.target}, net.Losses)[0]
		for i, want := range c.want {
			if !(math.Abs(float64(got[i])-want) <= 1e-6) {
				t.Errorf("%s: loss %v of example %d, want %v", c.name, got[i], i, want)
			}
		}
	}
}

// Losses that are weighted and added have the same values as losses that end a network alone.
func TestSetLoss_WeightedSumOfLosses(t *testing.T) {
	xs, weights := []float32{0.5, -2, 0, 3, 1, 2, -1, 0.25, 2, 0, 1, -3}, []float32{0.25, 4}
	alone := func(shape []int, labels []float32, dims []int, loss func(b *Builder, prediction, target *G.Node) *G.Node) []float32 {
		b := NewBuilder(2, 1)
		x := b.Input("x", shape...)
		b.SetLoss(loss(b, x, b.Input("target", dims...)), x)
		net, err := b.Network()
		if err != nil {
			t.Fatal(err)
		}
		return evaluate(t, net.Inputs, [][]float32{xs, labels}, net.Losses)[0]
	}
	class, steps, real := []float32{5, 2}, []float32{1, -1, 0, 0, 0, 1}, []float32{1, 1, -1, 1, 0.5, 1, 0, 0, 1, 2, 3, -1}
	parts := [][]float32{
		alone([]int{6}, class, nil, CrossEntropy),
		alone([]int{3, 2}, steps, []int{3}, CrossEntropy),
		alone([]int{6}, real, []int{6}, SigmoidCrossEntropy),
		alone([]int{6}, real, []int{6}, SquaredError),
		alone([]int{6}, real, []int{6}, AbsoluteError),
		alone([]int{6}, real, []int{6}, func(b *Builder, x, y *G.Node) *G.Node { return HuberLoss(b, x, y, 0.7) }),
		alone([]int{6}, real, []int{6}, PoissonLoss),
		alone([]int{6}, real, []int{6}, HingeLoss),
	}
	b := NewBuilder(2, 1)
	x, y := b.Input("x", 6), b.Input("y", 6)
	all := G.Nodes{
		CrossEntropy(b, x, b.Input("class")), CrossEntropy(b, Reshape(b, x, 3, 2), b.Input("steps", 3)),
		SigmoidCrossEntropy(b, x, y), SquaredError(b, x, y), AbsoluteError(b, x, y), HuberLoss(b, x, y, 0.7), PoissonLoss(b, x, y), HingeLoss(b, x, y),
	}
	weight := b.Input("weight")
	sum := all[0]
	for _, one := range all[1:] {
		sum = Add(b, sum, one)
	}
	b.SetLoss(b.Try(func() (*G.Node, error) { return G.HadamardProd(sum, weight) }), x)
	net, err := b.Network()
	if err != nil {
		t.Fatal(err)
	}
	got := evaluate(t, net.Inputs, [][]float32{xs, real, class, steps, weights}, net.Losses, net.Loss)
	total := 0.0
	for i, w := range weights {
		want := 0.0
		for _, p := range parts {
			want += float64(w) * float64(p[i])
		}
		total += want
		if !(math.Abs(float64(got[0][i])-want) <= 1e-5*want) {
			t.Errorf("loss %v of example %d, want %v", got[0][i], i, want)
		}
	}
	if !(math.Abs(float64(got[1][0])-total) <= 1e-5*total) {
		t.Errorf("a loss of %v, want %v", got[1][0], total)
	}
}
