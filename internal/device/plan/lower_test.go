package plan_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/internal/device/cpu"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Outputs and losses keep their values until the end of the run, also if they are a
// reshaped view of another node, one and the same node, or an input. The same holds for
// borrowed weights and next to constants.
func TestLower_ResultsKeepTheirValues(t *testing.T) {
	const batch = 3
	weights := [][]float32{{1}, {2}, {1}, {-1}, {1}}
	must := func(n *G.Node, err error) *G.Node {
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for name, answers := range map[string]func(net *perexample.Network, x, y, column *G.Node){
		"views":    func(net *perexample.Network, x, y, column *G.Node) { net.Output, net.Losses = column, y },
		"one node": func(net *perexample.Network, x, y, column *G.Node) { net.Output, net.Losses = y, y },
		"an input": func(net *perexample.Network, x, y, column *G.Node) { net.Output, net.Losses = x, column },
	} {
		t.Run(name, func(t *testing.T) {
			network, err := perexample.Compile(func(batch int) (*perexample.Network, error) {
				g := G.NewGraph()
				x := G.NewMatrix(g, tensor.Float32, G.WithShape(batch, 1), G.WithName("x"))
				h, params := x, G.Nodes(nil)
				for i, v := range weights {
					w := G.NewMatrix(g, tensor.Float32, G.WithShape(1, 1), G.WithName(fmt.Sprint("w", i)), G.WithInit(G.ValuesOf(v[0])))
					h, params = must(G.Mul(h, w)), append(params, w)
				}
				column := must(G.HadamardProd(must(G.Square(h)), G.NewConstant(float32(0.5))))
				y := must(G.Reshape(column, tensor.Shape{batch}))
				loss := must(G.Sum(must(G.Square(must(G.Square(y))))))
				net := &perexample.Network{Batch: batch, Inputs: G.Nodes{x}, Params: params, Loss: loss}
				answers(net, x, y, column)
				return net, nil
			}, batch, 1)
			if err != nil {
				t.Fatal(err)
			}
			step, err := plan.LowerTraining(network, plan.TrainingOptions{Norms: true, Output: true})
			if err != nil {
				t.Fatal(err)
			}
			evaluation, err := plan.LowerEvaluation(network.Network)
			if err != nil {
				t.Fatal(err)
			}
			for what, p := range map[string]*plan.Program{
				"step": step, "evaluation": evaluation, "lent": evaluation.WithBorrowedWeights(weights),
			} {
				m, err := cpu.New(p, plan.Optimizer{Kind: plan.SGD}, false, 1)
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				x := []float32{1, -2, 3}
				copy(m.Input(0), x)
				if err := m.Forward(); err != nil {
					t.Fatal(err)
				}
				want := []float32{2, 8, 18}
				if !slices.Equal(m.Losses(), want) {
					t.Errorf("%s: losses %v", what, m.Losses())
				}
				if name == "an input" {
					want = x
				}
				if !slices.Equal(m.Output(), want) {
					t.Errorf("%s: answers %v, want %v", what, m.Output(), want)
				}
			}
		})
	}
}
