//go:build gpu

package cuda

import "github.com/dptrain/dptrain/internal/op"

func (c *compiler) lowerClippedSum(s op.ClippedSum, k call) bool {
	switch f := s.Form.(type) {
	case op.Product:
		c.lowerClippedProduct(f, s.Records, k)
	case op.ConvWeight:
		return c.sumWeightGradients(f, k, k.in[2], s.Records)
	case op.Gather:
		c.launchScatterAdd(f, k, k.in[2])
	default:
		sum := newChannelSum(s.Form, s.Records, k)
		sum.factors = k.in[len(k.in)-1]
		c.sumChannels(sum, k)
	}
	return true
}

// lowerRecordOp queues what a private step adds to an ordinary one but its sums.
func (c *compiler) lowerRecordOp(spec op.Spec, k call) bool {
	switch s := spec.(type) {
	case op.RecordGradients:
		return c.lowerRecordGradients(s, k)
	case op.SquaredNorms:
		return c.lowerSquaredNorms(s, k)
	case op.MultiUseNorms:
		c.lowerMultiUseNorms(s, k)
	case op.RowSquares:
		c.lowerRowSquares(k)
	case op.ScaleRows:
		n := k.results()
		c.launch("scale_rows", blocks(n), threads, k.out, k.in[0], k.in[1], int32(n), newDivider(n/k.size(1)))
	case op.StackRows:
		c.launchConcat(s.Blocks, k)
	case op.Scatter:
		first, from := s.Sources()
		c.launch("scatter", blocks(s.Size), threads, k.out, k.in[0], c.constant(first), c.constant(from), int32(s.Size))
	default:
		return false
	}
	return true
}

func (c *compiler) lowerRecordGradients(s op.RecordGradients, k call) bool {
	switch f := s.Form.(type) {
	case op.Product:
		if !fitsGridDepth(s.Records) {
			return false
		}
		c.launchRecordProducts(f, s.Records, k)
	case op.ConvWeight:
		return c.lowerConvRecordGradients(f, s.Records, k)
	case op.Gather:
		c.zero(k.out, 4*k.results())
		c.launchSortedGather("gather_records", f, s.Records, k)
	default:
		c.sumChannelsPerRecord(newChannelSum(s.Form, s.Records, k), k)
	}
	return true
}

func (c *compiler) lowerSquaredNorms(s op.SquaredNorms, k call) bool {
	switch f := s.Form.(type) {
	case op.Product:
		c.lowerProductNorms(f, s, k)
	case op.ConvWeight:
		return c.lowerConvNorms(f, s, k)
	case op.Gather:
		c.launchSortedGather("gather_norms", f, s.Records, k)
	default:
		c.channelNorms(newChannelSum(s.Form, s.Records, k), k)
	}
	return true
}
