package op

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// ConvGradInput is also a layer of its own, the transposed convolution: it spreads
// pictures [B, O, OH, OW] over [B, C, H, W], where Conv2D gathers. Its derivative
// is therefore Conv2D, and in its weight's form the two tensors change places.

func (g ConvGradInput) Rows(int) []bool { return []bool{true, false} }
func (g ConvGradInput) Wrt(int) []bool  { return allTrue(2) }

func (g ConvGradInput) Diff(in G.Nodes, _, grad *G.Node) (G.Nodes, error) {
	// Gorgonia takes constants that it prints alike for one, and prints the ends of long ones.
	none := G.NewVector(grad.Graph(), grad.Dtype(), G.WithShape(g.O), G.WithName(fmt.Sprintf("dptrain: no bias of %d", g.O)),
		G.WithValue(tensor.New(tensor.Of(grad.Dtype()), tensor.WithShape(g.O))))
	dx, err := Apply(Conv2D{Window: g.Window, Groups: g.Groups}, grad, in[1], none)
	if err != nil {
		return nil, err
	}
	dw, err := Apply(ConvGradWeight(g), grad, in[0])
	return G.Nodes{dx, dw}, err
}

func (g ConvGradInput) Use(_ int, in G.Nodes, _, grad *G.Node) (Use, error) {
	return Use{Form: ConvWeight(g), A: grad, Delta: in[0]}, nil
}
