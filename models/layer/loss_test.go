package layer

import (
	"math"
	"testing"

	G "gorgonia.org/gorgonia"
)

// Losses of two examples of two elements each.
func TestLosses(t *testing.T) {
	for _, c := range []struct {
		name   string
		end    func(n *Net, x, target *G.Node)
		target []float32
		want   []float64
	}{
		{"absolute", (*Net).AbsoluteError, []float32{1, 1, 1, 1}, []float64{0.5 + 3, 1 + 2}},
		{"Huber", func(n *Net, x, y *G.Node) { n.HuberError(x, y, 1) }, []float32{1, 1, 1, 1}, []float64{0.125 + 2.5, 0.5 + 1.5}},
		{"Poisson", (*Net).PoissonLoss, []float32{1, 0, 2, 3}, []float64{math.Exp(0.5) - 0.5 + math.Exp(-2), 1 + math.Exp(3) - 9}},
		{"hinge", (*Net).HingeLoss, []float32{1, 1, -1, 1}, []float64{0.5 + 3, 1}},
	} {
		n := New(2, 1)
		x := n.Input("x", 2)
		c.end(n, x, n.Input("target", 2))
		net, err := n.Network()
		if err != nil {
			t.Fatal(err)
		}
		got := run(t, net.Inputs, [][]float32{{0.5, -2, 0, 3}, c.target}, net.Losses)[0]
		for i, want := range c.want {
			if !(math.Abs(float64(got[i])-want) <= 1e-6) {
				t.Errorf("%s: loss %v of example %d, want %v", c.name, got[i], i, want)
			}
		}
	}
}

// Losses in the plural are those that the singular ends a network in, whatever is then made
// of them.
func TestLossesOfTwoHeads(t *testing.T) {
	xs, weights := []float32{0.5, -2, 0, 3, 1, 2, -1, 0.25, 2, 0, 1, -3}, []float32{0.25, 4}
	alone := func(shape []int, labels []float32, dims []int, end func(n *Net, x, target *G.Node)) []float32 {
		n := New(2, 1)
		x := n.Input("x", shape...)
		end(n, x, n.Input("target", dims...))
		net, err := n.Network()
		if err != nil {
			t.Fatal(err)
		}
		return run(t, net.Inputs, [][]float32{xs, labels}, net.Losses)[0]
	}
	class, steps, real := []float32{5, 2}, []float32{1, -1, 0, 0, 0, 1}, []float32{1, 1, -1, 1, 0.5, 1, 0, 0, 1, 2, 3, -1}
	parts := [][]float32{
		alone([]int{6}, class, nil, (*Net).CrossEntropy),
		alone([]int{3, 2}, steps, []int{3}, (*Net).CrossEntropy),
		alone([]int{6}, real, []int{6}, (*Net).SigmoidCrossEntropy),
		alone([]int{6}, real, []int{6}, (*Net).SquaredError),
		alone([]int{6}, real, []int{6}, (*Net).AbsoluteError),
		alone([]int{6}, real, []int{6}, func(n *Net, x, y *G.Node) { n.HuberError(x, y, 0.7) }),
		alone([]int{6}, real, []int{6}, (*Net).PoissonLoss),
		alone([]int{6}, real, []int{6}, (*Net).HingeLoss),
	}
	n := New(2, 1)
	x, y := n.Input("x", 6), n.Input("y", 6)
	all := G.Nodes{
		n.CrossEntropies(x, n.Input("class")), n.CrossEntropies(n.Reshape(x, 3, 2), n.Input("steps", 3)),
		n.SigmoidCrossEntropies(x, y), n.SquaredErrors(x, y), n.AbsoluteErrors(x, y), n.HuberErrors(x, y, 0.7), n.PoissonLosses(x, y), n.HingeLosses(x, y),
	}
	weight := n.Input("weight")
	sum := all[0]
	for _, one := range all[1:] {
		sum = n.Add(sum, one)
	}
	n.Loss(n.Try(func() (*G.Node, error) { return G.HadamardProd(sum, weight) }), x)
	net, err := n.Network()
	if err != nil {
		t.Fatal(err)
	}
	got := run(t, net.Inputs, [][]float32{xs, real, class, steps, weights}, net.Losses, net.Loss)
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
