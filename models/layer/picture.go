package layer

import (
	"fmt"

	"github.com/dptrain/dptrain/internal/op"
	G "gorgonia.org/gorgonia"
)

// Window is how a square kernel moves over pictures [batch, channels, height,
// width].
type Window struct {
	Size     int
	Stride   int // 0 means 1
	Pad      int // rows and columns added on each side
	Dilation int // 0 means 1: the kernel's cells touch
	Groups   int // 0 means 1: every output channel sees every input channel
}

func orOne(v int) int {
	if v == 0 {
		return 1
	}
	return v
}

func (w Window) op() op.Window {
	s, d := orOne(w.Stride), orOne(w.Dilation)
	return op.Window{KernelH: w.Size, KernelW: w.Size, StrideH: s, StrideW: s,
		PadH: w.Pad, PadW: w.Pad, DilationH: d, DilationW: d}
}

// pictures checks that x is [batch, channels, height, width].
func (n *Net) pictures(what string, x *G.Node) bool {
	if n.ready(what, x) && x.Dims() != 4 {
		n.fail(fmt.Errorf("%s: input of shape %v: [batch, channels, height, width] is needed", what, x.Shape()))
	}
	return n.err == nil
}

// Conv2D is act(x ∗ W + b), with parameters name.weight [out, channels/groups,
// size, size], as PyTorch lays it out, and name.bias [out].
func (n *Net) Conv2D(x *G.Node, name string, out int, w Window, act Activation) *G.Node {
	if !n.pictures(name, x) || !n.known(name, act) {
		return nil
	}
	in, groups := n.grouped(name, x.Shape()[1], w)
	if n.err != nil {
		return nil
	}
	weightStart, biasStart := n.starts(in*w.Size*w.Size, out/groups*w.Size*w.Size)
	weight := n.kernel(name, weightStart, out, in, w.Size, w.Size)
	bias := n.bias(name, biasStart, out)
	fused, left := fuse(act)
	return n.Activate(n.apply(name, op.Conv2D{Window: w.op(), Groups: groups, Act: fused}, x, weight, bias), left)
}

// Conv1D is Conv2D over x [batch, channels, length], with parameters name.weight
// [out, channels/groups, size] and name.bias [out].
func (n *Net) Conv1D(x *G.Node, name string, out int, w Window, act Activation) *G.Node {
	if !n.ready(name, x) || !n.known(name, act) {
		return nil
	}
	s := x.Shape()
	if len(s) != 3 {
		return n.fail(fmt.Errorf("%s: input of shape %v: [batch, channels, length] is needed", name, s))
	}
	in, groups := n.grouped(name, s[1], w)
	if n.err != nil {
		return nil
	}
	weightStart, biasStart := n.starts(in*w.Size, out/groups*w.Size)
	weight := n.kernel(name, weightStart, out, in, w.Size)
	bias := n.bias(name, biasStart, out)
	line := w.op()
	line.KernelH, line.StrideH, line.PadH, line.DilationH = 1, 1, 0, 1
	fused, left := fuse(act)
	y := n.apply(name, op.Conv2D{Window: line, Groups: groups, Act: fused},
		n.reshape(name, x, s[0], s[1], 1, s[2]), n.reshape(name, weight, out, in, 1, w.Size), bias)
	if y == nil {
		return nil
	}
	return n.Activate(n.reshape(name, y, s[0], out, y.Shape()[3]), left)
}

// ConvTranspose2D spreads each cell of x [batch, channels, height, width] over a
// window of the result, the reverse of Conv2D's way (Zeiler et al. 2010): n cells
// in a row become (n−1)·stride − 2·pad + dilation·(size−1) + 1. Its parameters are
// name.weight [channels, out/groups, size, size], as PyTorch lays it out, and
// name.bias [out].
func (n *Net) ConvTranspose2D(x *G.Node, name string, out int, w Window, act Activation) *G.Node {
	if !n.pictures(name, x) || !n.known(name, act) {
		return nil
	}
	s := x.Shape()
	of, groups := n.grouped(name, out, w)
	if n.err != nil {
		return nil
	}
	window := w.op()
	spread := func(size int) int {
		return (size-1)*window.StrideH - 2*w.Pad + window.DilationH*(w.Size-1) + 1
	}
	height, width := spread(s[2]), spread(s[3])
	if height < 1 || width < 1 || s[1]%groups != 0 {
		return n.fail(fmt.Errorf("%s: pictures of shape %v cannot be spread by %v in %d groups", name, s, window, groups))
	}
	weightStart, biasStart := n.starts(of*w.Size*w.Size, s[1]/groups*w.Size*w.Size)
	weight := n.Param(name+".weight", weightStart, s[1], of, w.Size, w.Size)
	bias := n.bias(name, biasStart, out)
	y := n.apply(name, op.ConvGradInput{Window: window, Groups: groups, C: out, H: height, W: width, O: s[1]}, x, weight)
	y = n.apply(name, op.ChannelShift{Channels: out, Inner: height * width}, y, bias)
	return n.Activate(y, act)
}

// grouped gives the number of groups and how many of the channels each holds.
func (n *Net) grouped(what string, channels int, w Window) (each, groups int) {
	groups = orOne(w.Groups)
	if groups < 0 || channels%groups != 0 {
		n.fail(fmt.Errorf("%s: %d channels cannot be cut into %d groups", what, channels, groups))
		return 0, 1
	}
	return channels / groups, groups
}

// MaxPool is the maximum over each window; padding never is the maximum.
func (n *Net) MaxPool(x *G.Node, w Window) *G.Node {
	if !n.pictures("max pooling", x) || !n.ungrouped("max pooling", w) {
		return nil
	}
	return n.apply("max pooling", op.MaxPool2D{Window: w.op()}, x)
}

// AvgPool is the mean over each window, padding counted as zeros.
func (n *Net) AvgPool(x *G.Node, w Window) *G.Node {
	if !n.pictures("average pooling", x) || !n.ungrouped("average pooling", w) {
		return nil
	}
	return n.apply("average pooling", op.AvgPool2D{Window: w.op()}, x)
}

func (n *Net) ungrouped(what string, w Window) bool {
	if w.Groups != 0 {
		n.fail(fmt.Errorf("%s: its window has %d groups, which only convolutions have", what, w.Groups))
	}
	return n.err == nil
}

// GlobalAvgPool is the mean of each channel: [batch, channels].
func (n *Net) GlobalAvgPool(x *G.Node) *G.Node {
	const what = "global average pooling"
	if !n.pictures(what, x) {
		return nil
	}
	s := x.Shape()
	y := n.apply(what, op.AvgPool2D{Window: op.Window{
		KernelH: s[2], KernelW: s[3], StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1,
	}}, x)
	return n.Flatten(y)
}
