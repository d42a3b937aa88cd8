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
