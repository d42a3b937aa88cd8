package perexample

import (
	"slices"

	"github.com/dptrain/dptrain/internal/device/op"
	G "gorgonia.org/gorgonia"
)

// frozenOutputs returns the nodes between the frozen first layers of a network and the rest: the
// rest reads them, they depend on the example and on constants only, and products are needed to
// compute them. They have a row for each example. There are none if an example's values are not
// contiguous in one of them.
func (r *layoutAnalysis) frozenOutputs() (outputs G.Nodes) {
	changes, costs := map[*G.Node]bool{}, map[*G.Node]bool{}
	for _, n := range append(slices.Clone(r.net.Params), r.net.MaskSeed) {
		changes[n] = true
	}
	for _, n := range r.order {
		for _, x := range op.CanonicalOperands(n) {
			changes[n] = changes[n] || changes[x]
			costs[n] = costs[n] || costs[x]
		}
		costs[n] = costs[n] || r.layouts[n].kind == layoutBatch && isProduct(op.Canonical(n))
	}
	for _, n := range r.order {
		if !changes[n] {
			continue
		}
		for _, x := range op.CanonicalOperands(n) {
			for isReshape(op.Canonical(x)) { // other nodes may read what is reshaped
				x = op.CanonicalOperands(x)[0]
			}
			if changes[x] || !costs[x] || slices.Contains(outputs, x) {
				continue
			}
			if !r.layouts[x].isRowMajorBatch(x.Shape()) {
				return nil
			}
			outputs = append(outputs, x)
		}
	}
	return outputs
}

func isReshape(s op.Operation) bool {
	_, is := s.(op.Reshape)
	return is
}

// isProduct reports whether an operation multiplies and adds for each of its results.
func isProduct(s op.Operation) bool {
	switch s.(type) {
	case op.Conv2D, op.ConvGradInput, op.Linear, op.MatMul, op.LSTM, op.GRU, op.Attention:
		return true
	}
	return false
}
