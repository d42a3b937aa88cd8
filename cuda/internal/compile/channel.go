//go:build gpu

package compile

import (
	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/op"
)

// lowerChannelOp queues operations that treat all channels or all rows alike:
// normalisations, scales and shifts, their sums, softmax.
func lowerChannelOp(c *compiler, spec op.Operation, k call) bool {
	switch s := spec.(type) {
	case op.Normalize:
		lowerNormalize(c, s, k)
	case op.NormalizeGrad:
		lowerNormalizeGrad(c, s, k)
	case op.ScaleShift:
		launchElement(c, k, newAffine(s.Channels, s.Inner, k, k.in[1], k.in[2]))
	case op.ChannelScale:
		launchElement(c, k, newAffine(s.Channels, s.Inner, k, k.in[1], 0))
	case op.ChannelShift:
		launchElement(c, k, newAffine(s.Channels, s.Inner, k, 0, k.in[1]))
	case op.ChannelSum:
		sumChannels(c, channelSum{s.Channels, s.Inner, 0, k.in[0], 0, k.size(0), 1, 1}, k)
	case op.ChannelDot:
		sumChannels(c, channelSum{s.Channels, s.Inner, k.in[0], k.in[1], 0, k.size(0), 1, 1}, k)
	case op.Total:
		sumChannels(c, channelSum{1, 1, 0, k.in[0], 0, k.size(0), 1, float32(s.Scale)}, k)
	case op.Softmax:
		launchSoftmax(c, "softmax", s, k, k.in[0])
	case op.SoftmaxGrad:
		launchSoftmax(c, "softmax_gradient", op.Softmax(s), k, k.in[0], k.in[1])
	default:
		return false
	}
	return true
}

// newAffine is x⊙scale + shift, with one scale and one shift per channel; a pointer of 0 omits
// one.
func newAffine(channels, inner int, k call, scale, shift driver.Pointer) element {
	return element{X: k.in[0], Y: scale, Z: shift, Kind: elementAffine, Inner: newDivider(inner), Channels: newDivider(channels)}
}

// channelLayout is struct Channels of kernels/channel.cu: how sums over channels are divided
// among threads.
type channelLayout struct {
	Rows, Channels, Inner      int32
	ByRecord                   divider
	Group, Width, Lanes, Tiles int32
	Threads                    int32
}

// newChannelLayout returns the layout for groups of rows. It depends on the channels and on
// the rows of a group, not on the number of groups.
func newChannelLayout(channels, inner, rows, each, group int) channelLayout {
	const most = 256
	lanes := 1
	for lanes < 32 && 2*lanes <= inner {
		lanes *= 2
	}
	tiles := ceil(channels*lanes, most)
	width := ceil(channels, tiles)
	tiles = ceil(channels, width)
	busy := width * lanes * min(group, most/(width*lanes))
	return channelLayout{
		int32(rows), int32(channels), int32(inner), newDivider(each), int32(group), int32(width),
		int32(lanes), int32(tiles), int32(ceil(busy, 32) * 32),
	}
}

// channelSum describes a sum over channels: of Δ, or of A⊙Δ where a is not 0, with each
// row multiplied by its record's clip factor where factors is not 0.
type channelSum struct {
	channels, inner   int
	a, delta, factors driver.Pointer
	elements, records int
	scale             float32
}

func (s channelSum) rows() int { return s.elements / (s.channels * s.inner) }

// sumChannels adds up all rows: each block adds a part, then the parts are added up. The
// number of parts depends only on the shape.
func sumChannels(c *compiler, s channelSum, k call) {
	rows := s.rows()
	each := rows / s.records
	tiles := int(newChannelLayout(s.channels, s.inner, rows, each, rows).Tiles)
	parts := max(1, min(s.elements/4096/tiles, 1024/tiles, 256, rows))
	group := ceil(rows, parts)
	parts = ceil(rows, group)
	accumulate := boolArg(k.accumulate)
	layout := newChannelLayout(s.channels, s.inner, rows, each, group)
	grid := dim{uint32(parts * tiles), 1, 1}
	if parts == 1 {
		c.launchPart("channel_sums", grid, threads, k.out, driver.Pointer(0), s.a, s.delta, s.factors, layout, s.scale, accumulate)
		return
	}
	partial := c.allocScratch(8 * parts * s.channels)
	c.launchPart("channel_sums", grid, threads, k.out, partial, s.a, s.delta, s.factors, layout, float32(1), int32(0))
	const none = driver.Pointer(0)
	layout = newChannelLayout(s.channels, 1, parts, 1, parts)
	c.launchPart("channel_parts", dim{uint32(layout.Tiles), 1, 1}, threads, k.out, partial, none, none, none, layout, s.scale, accumulate)
}

// sumChannelsPerRecord computes the sums of each record.
func sumChannelsPerRecord(c *compiler, s channelSum, k call) {
	each := s.rows() / s.records
	layout := newChannelLayout(s.channels, s.inner, s.rows(), each, each)
	c.launchPart("channel_sums", dim{uint32(s.records) * uint32(layout.Tiles), 1, 1}, threads,
		k.out, driver.Pointer(0), s.a, s.delta, s.factors, layout, s.scale, int32(0))
}

// launchChannelNorms computes the squared norm of each record's sums. It adds n terms in
// double, with an error of at most n+8 roundings of the sum of their magnitudes. A block
// processes some thousand elements.
func launchChannelNorms(c *compiler, s channelSum, k call) {
	each := s.rows() / s.records
	roundings := float64(each*s.inner+8) * op.Roundoff
	layout := newChannelLayout(s.channels, s.inner, s.rows(), each, each)
	tiles := int(layout.Tiles)
	run := min(tiles, max(1, 8192/(int(layout.Width)*s.inner*each)))
	runs := ceil(tiles, run)
	var partial driver.Pointer
	if runs > 1 {
		partial = c.allocScratch(16 * s.records * runs)
	}
	c.launch("channel_norms", dim{uint32(s.records) * uint32(runs), 1, 1}, dim{uint32(layout.Threads), 1, 1},
		k.out, partial, s.a, s.delta, layout, int32(run), roundings)
	if runs > 1 {
		c.launch("channel_norms_runs", dim{uint32(ceil(s.records, 4)), 1, 1}, dim{128, 1, 1},
			k.out, partial, int32(s.records), int32(runs), roundings)
	}
}

// newChannelSum returns the sum that is the gradient of a Shift or a Scale.
func newChannelSum(form op.Form, records int, k call) channelSum {
	if f, shift := form.(op.Shift); shift {
		return channelSum{f.Channels, f.Inner, 0, k.in[0], 0, k.size(0), records, 1}
	}
	f := form.(op.Scale)
	return channelSum{f.Channels, f.Inner, k.in[0], k.in[1], 0, k.size(1), records, 1}
}
