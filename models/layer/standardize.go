package layer

import (
	"math"

	"github.com/dptrain/dptrain/internal/op"
	G "gorgonia.org/gorgonia"
)

// weightEpsilon is added to the variances of weights, which start at a third of one
// over the number of inputs: far below that of any layer.
const weightEpsilon = 1e-8

// Standardize gives a weight [out, …] in which each output's numbers have mean 0 and
// variance one over their number (Qiao et al. 2019; divided by the root of that
// number, as Brock et al. 2021 do, so that a layer keeps the size of what it reads).
// The parameter itself is what is trained and clipped: a record's gradient is pulled
// back through the standardisation before its norm is taken.
func (n *Net) Standardize(weight *G.Node) *G.Node {
	const what = "standardisation"
	if !n.ready(what, weight) {
		return nil
	}
	inputs := weight.Shape().TotalSize() / weight.Shape()[0]
	w := n.apply(what, op.Normalize{Chunk: inputs, Eps: weightEpsilon, Center: true}, weight)
	return n.Try(func() (*G.Node, error) {
		return G.HadamardProd(w, G.NewConstant(float32(1/math.Sqrt(float64(inputs)))))
	})
}

// StandardizeWeights has the convolutions that follow standardise their weights, as
// Standardize does.
func (n *Net) StandardizeWeights() { n.standardized = true }

// kernel is the weight of a convolution.
func (n *Net) kernel(name string, start Start, dims ...int) *G.Node {
	w := n.Param(name+".weight", start, dims...)
	if n.standardized {
		w = n.Standardize(w)
	}
	return w
}
