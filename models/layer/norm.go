package layer

import (
	"fmt"

	"github.com/dptrain/dptrain/internal/op"
	G "gorgonia.org/gorgonia"
)

// epsilon is added to variances, as PyTorch does by default but for RMSNorm.
const epsilon = 1e-5

// GroupNorm normalises each example's channels in groups (Wu & He 2018), 1e-5 being
// added to their variances, then scales and shifts each channel by name.weight and
// name.bias. It is what to use in place of batch normalisation.
func (n *Net) GroupNorm(x *G.Node, name string, groups int) *G.Node {
	if !n.pictures(name, x) {
		return nil
	}
	s := x.Shape()
	if groups < 1 || s[1]%groups != 0 {
		return n.fail(fmt.Errorf("%s: %d channels cannot be cut into %d groups", name, s[1], groups))
	}
	return n.norm(x, name, s[1]/groups*s[2]*s[3], s[1], s[2]*s[3])
}

// InstanceNorm normalises each channel of each example by itself (Ulyanov et al.
// 2016): GroupNorm with as many groups as channels.
func (n *Net) InstanceNorm(x *G.Node, name string) *G.Node {
	if !n.pictures(name, x) {
		return nil
	}
	return n.GroupNorm(x, name, x.Shape()[1])
}

// LayerNorm normalises the last axis (Ba et al. 2016), 1e-5 being added to its variance,
// then scales and shifts each of its elements by name.weight and name.bias.
func (n *Net) LayerNorm(x *G.Node, name string) *G.Node {
	if !n.features(name, x) {
		return nil
	}
	last := x.Shape()[x.Dims()-1]
	return n.norm(x, name, last, last, 1)
}

// RMSNorm divides the last axis by its root mean square (Zhang & Sennrich 2019), 1e-5
// being added to the mean of squares (PyTorch adds 1.2e-7 by default), then scales each
// of its elements by name.weight. It does not centre and has no shift.
func (n *Net) RMSNorm(x *G.Node, name string) *G.Node {
	if !n.features(name, x) {
		return nil
	}
	last := x.Shape()[x.Dims()-1]
	scale := n.Param(name+".weight", Constant(1), last)
	y := n.apply(name, op.Normalize{Chunk: last, Eps: epsilon}, x)
	return n.apply(name, op.ChannelScale{Channels: last, Inner: 1}, y, scale)
}

// features checks that x is [batch, …, features].
func (n *Net) features(what string, x *G.Node) bool {
	if n.ready(what, x) && x.Dims() < 2 {
		n.fail(fmt.Errorf("%s: input of shape %v: [batch, …, features] is needed", what, x.Shape()))
	}
	return n.err == nil
}

func (n *Net) norm(x *G.Node, name string, chunk, channels, inner int) *G.Node {
	scale := n.Param(name+".weight", Constant(1), channels)
	shift := n.Param(name+".bias", Constant(0), channels)
	y := n.apply(name, op.Normalize{Chunk: chunk, Eps: epsilon, Center: true}, x)
	return n.apply(name, op.ScaleShift{Channels: channels, Inner: inner}, y, scale, shift)
}
