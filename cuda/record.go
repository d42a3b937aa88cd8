//go:build gpu

package cuda

import "github.com/dptrain/dptrain/internal/op"

// records queues what a private step adds for scales and shifts, and the
// operations on rows and channels: normalisation, softmax, losses.
func (c *compiler) records(spec op.Spec, k call) bool {
	switch s := spec.(type) {
	case op.ClippedSum:
		sum, ok := channelForm(s.Form, s.Records, k)
		if ok {
			sum.factors = k.in[len(k.in)-1]
			c.total(sum, k)
		}
		return ok
	case op.ChannelSum:
		return c.total(channelSum{s.Channels, s.Inner, 0, k.in[0], 0, k.size(0), 1, 1}, k)
	case op.ChannelDot:
		return c.total(channelSum{s.Channels, s.Inner, k.in[0], k.in[1], 0, k.size(0), 1, 1}, k)
	case op.Total:
		return c.total(channelSum{1, 1, 0, k.in[0], 0, k.size(0), 1, float32(s.Scale)}, k)
	}
	if k.accumulate {
		return false
	}
	switch s := spec.(type) {
	case op.RecordGradients:
		sum, ok := channelForm(s.Form, s.Records, k)
		return ok && c.perRecord(sum, k)
	case op.SquaredNorms:
		sum, ok := channelForm(s.Form, s.Records, k)
		return ok && c.recordNorms(sum, k)

	case op.Normalize:
		return c.normalize(s, k)
	case op.NormalizeGrad:
		return c.normalizeGrad(s, k)
	case op.ScaleShift:
		return c.channelAffine(s.Channels, s.Inner, k, k.in[1], k.in[2])
	case op.ChannelScale:
		return c.channelAffine(s.Channels, s.Inner, k, k.in[1], 0)
	case op.ChannelShift:
		return c.channelAffine(s.Channels, s.Inner, k, 0, k.in[1])

	case op.Softmax:
		return c.along("softmax", s, k, k.in[0])
	case op.SoftmaxGrad:
		return c.along("softmax_gradient", op.Softmax(s), k, k.in[0], k.in[1])

	case op.ScaleRows:
		n := k.results()
		c.launch("scale_rows", blocks(n), threads, k.out, k.in[0], k.in[1], int32(n), newDivider(n/k.size(1)))
		return true
	case op.StackRows:
		c.joined(s.Blocks, k)
		return true
	case op.Scatter:
		return c.scatter(s, k)
	}
	return c.loss(spec, k)
}

func (c *compiler) scatter(s op.Scatter, k call) bool {
	first, from := s.Sources()
	c.launch("scatter", blocks(s.Size), threads, k.out, k.in[0], c.constant(first), c.constant(from), int32(s.Size))
	return true
}
