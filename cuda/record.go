//go:build gpu

package cuda

import "github.com/dptrain/dptrain/internal/op"

func (c *compiler) clippedSum(s op.ClippedSum, k call) bool {
	switch f := s.Form.(type) {
	case op.Product:
		c.clippedProduct(f, s.Records, k)
	case op.ConvWeight:
		return c.sumOverPlaces(f, k, k.in[2], s.Records)
	case op.Gather:
		c.gatherSum(f, k, k.in[2])
	default:
		sum := channelForm(s.Form, s.Records, k)
		sum.factors = k.in[len(k.in)-1]
		c.total(sum, k)
	}
	return true
}

// records queues what a private step adds to an ordinary one but its sums.
func (c *compiler) records(spec op.Spec, k call) bool {
	switch s := spec.(type) {
	case op.RecordGradients:
		return c.recordGradients(s, k)
	case op.SquaredNorms:
		return c.squaredNorms(s, k)
	case op.MultiUseNorms:
		c.mixed(s, k)
	case op.RowSquares:
		c.rowSquares(k)
	case op.ScaleRows:
		n := k.results()
		c.launch("scale_rows", blocks(n), threads, k.out, k.in[0], k.in[1], int32(n), newDivider(n/k.size(1)))
	case op.StackRows:
		c.joined(s.Blocks, k)
	case op.Scatter:
		first, from := s.Sources()
		c.launch("scatter", blocks(s.Size), threads, k.out, k.in[0], c.constant(first), c.constant(from), int32(s.Size))
	default:
		return false
	}
	return true
}

func (c *compiler) recordGradients(s op.RecordGradients, k call) bool {
	switch f := s.Form.(type) {
	case op.Product:
		if !fits(s.Records) {
			return false
		}
		c.recordProducts(f, s.Records, k)
	case op.ConvWeight:
		return c.convGradients(f, s.Records, k)
	case op.Gather:
		c.zero(k.out, 4*k.results())
		c.perTable("gather_records", f, s.Records, k)
	default:
		c.perRecord(channelForm(s.Form, s.Records, k), k)
	}
	return true
}

func (c *compiler) squaredNorms(s op.SquaredNorms, k call) bool {
	switch f := s.Form.(type) {
	case op.Product:
		c.productNorms(f, s, k)
	case op.ConvWeight:
		return c.convNorms(f, s, k)
	case op.Gather:
		c.perTable("gather_norms", f, s.Records, k)
	default:
		c.recordNorms(channelForm(s.Form, s.Records, k), k)
	}
	return true
}
