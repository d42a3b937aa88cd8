package layer

import (
	"github.com/dptrain/dptrain/internal/op"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Dropout sets each number of an example to zero with the given probability, from
// 0 to less than 1, and divides the others by 1 − rate (Srivastava et al. 2014).
// Evaluation and exported models leave it out.
//
// What falls is drawn anew for each example of each lot, from the run's cryptographic
// generator: an example's gradient does not depend on who else is in the lot.
func (n *Net) Dropout(x *G.Node, rate float64) *G.Node {
	if !n.ready("dropout", x) || rate == 0 {
		return x
	}
	if n.net.MaskSeed == nil {
		n.net.MaskSeed = G.NewMatrix(n.graph, tensor.Float32, G.WithShape(n.net.Batch, op.MaskSeedWidth), G.WithName("dptrain: ticket"))
	}
	n.drops++
	return n.apply("dropout", op.Dropout{Rate: rate, Seed: n.seed, Layer: n.drops}, x, n.net.MaskSeed)
}
