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
// What falls is drawn by a public generator from the network's seed, the layer, the
// example's row in the data set and the step: an example's gradient stays a
// function of the example and of what is public, whoever else is in its lot.
func (n *Net) Dropout(x *G.Node, rate float64) *G.Node {
	if !n.ready("dropout", x) || rate == 0 {
		return x
	}
	if n.net.Ticket == nil {
		n.net.Ticket = G.NewMatrix(n.graph, tensor.Float32, G.WithShape(n.net.Batch, op.TicketWidth), G.WithName("dptrain: ticket"))
	}
	n.drops++
	return n.apply("dropout", op.Dropout{Rate: rate, Seed: n.seed, Layer: n.drops}, x, n.net.Ticket)
}
