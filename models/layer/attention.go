package layer

import (
	"fmt"

	"github.com/dptrain/dptrain/internal/op"
	G "gorgonia.org/gorgonia"
)

// Attention says how a sequence attends to itself.
type Attention struct {
	Heads  int
	Causal bool // a step sees none after it
	Rotary bool // queries and keys are turned by their positions (Su et al. 2021)
	// Padding, if given, is [batch, time]: no step sees one whose number here is
	// below zero. The indices that Embedding reads serve.
	Padding *G.Node
}

// Attention is multi-head attention of x [batch, time, width] to itself (Vaswani
// et al. 2017), with parameters name.qkv.weight [width, 3·width], queries, keys
// and values side by side, name.qkv.bias, and name.out.weight and name.out.bias of
// the dense layer that follows.
func (n *Net) Attention(x *G.Node, name string, a Attention) *G.Node {
	if !n.sequence(name, x) {
		return nil
	}
	width := x.Shape()[2]
	if a.Heads < 1 || width%a.Heads != 0 {
		return n.fail(fmt.Errorf("%s: %d heads cannot share a width of %d", name, a.Heads, width))
	}
	packed := n.Dense(x, name+".qkv", 3*width, Identity)
	if a.Rotary {
		packed = n.apply(name, op.Rotary{HeadDim: width / a.Heads, RotaryDims: 2 * width}, packed)
	}
	in := []*G.Node{packed}
	if a.Padding != nil {
		in = append(in, a.Padding)
	}
	y := n.apply(name, op.Attention{Heads: a.Heads, Causal: a.Causal}, in...)
	return n.Dense(y, name+".out", width, Identity)
}
