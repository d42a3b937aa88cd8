package layer

import (
	"fmt"

	"github.com/dptrain/dptrain/internal/device/op"
	G "gorgonia.org/gorgonia"
)

// Window describes how a square kernel moves over pictures [batch, channels, height,
// width].
type Window struct {
	Size     int // height and width of the kernel
	Stride   int // 0 means 1
	Pad      int // rows and columns added on each side
	Dilation int // distance between the kernel's cells; 0 means 1, adjacent cells
	Groups   int // of channels (convolutions only); 0 means 1: every output channel reads every input channel
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

// Conv2D is act(x ∗ W + b), with parameters name.weight [out, channels/groups,
// size, size], in PyTorch's layout, and name.bias [out].
func Conv2D(b *Builder, x *G.Node, name string, out int, w Window, act Activation) *G.Node {
	if !b.requirePictures(name, x) || !b.requireActivation(name, act) {
		return nil
	}
	in, groups := divideChannels(b, name, x.Shape()[1], w)
	if b.err != nil {
		return nil
	}
	weightInit, biasInit := b.denseInit(in*w.Size*w.Size, out/groups*w.Size*w.Size)
	weight := convWeight(b, name, weightInit, out, in, w.Size, w.Size)
	bias := b.bias(name, biasInit, out)
	fused, remaining := splitActivation(act)
	return Activate(b, b.apply(name, op.Conv2D{Window: w.op(), Groups: groups, Act: fused}, x, weight, bias), remaining)
}

// Conv1D is Conv2D over x [batch, channels, length], with parameters name.weight
// [out, channels/groups, size] and name.bias [out].
func Conv1D(b *Builder, x *G.Node, name string, out int, w Window, act Activation) *G.Node {
	if !b.present(name, x) || !b.requireActivation(name, act) {
		return nil
	}
	s := x.Shape()
	if len(s) != 3 {
		return b.fail(fmt.Errorf("%s: input of shape %v: [batch, channels, length] is needed", name, s))
	}
	in, groups := divideChannels(b, name, s[1], w)
	if b.err != nil {
		return nil
	}
	weightInit, biasInit := b.denseInit(in*w.Size, out/groups*w.Size)
	weight := convWeight(b, name, weightInit, out, in, w.Size)
	bias := b.bias(name, biasInit, out)
	window := w.op()
	window.KernelH, window.StrideH, window.PadH, window.DilationH = 1, 1, 0, 1
	fused, remaining := splitActivation(act)
	y := b.apply(name, op.Conv2D{Window: window, Groups: groups, Act: fused},
		b.reshape(name, x, s[0], s[1], 1, s[2]), b.reshape(name, weight, out, in, 1, w.Size), bias)
	if y == nil {
		return nil
	}
	return Activate(b, b.reshape(name, y, s[0], out, y.Shape()[3]), remaining)
}

// ConvTranspose2D is the transpose of Conv2D (Zeiler et al. 2010): it distributes each
// cell of x [batch, channels, height, width] over a window of the result. A row of n
// cells becomes (n−1)·stride − 2·pad + dilation·(size−1) + 1 cells. Its parameters are
// name.weight [channels, out/groups, size, size], in PyTorch's layout, and name.bias
// [out].
func ConvTranspose2D(b *Builder, x *G.Node, name string, out int, w Window, act Activation) *G.Node {
	if !b.requirePictures(name, x) || !b.requireActivation(name, act) {
		return nil
	}
	s := x.Shape()
	outPerGroup, groups := divideChannels(b, name, out, w)
	if b.err != nil {
		return nil
	}
	window := w.op()
	outSize := func(size int) int {
		return (size-1)*window.StrideH - 2*w.Pad + window.DilationH*(w.Size-1) + 1
	}
	height, width := outSize(s[2]), outSize(s[3])
	if height < 1 || width < 1 || s[1]%groups != 0 {
		return b.fail(fmt.Errorf("%s: a transposed convolution with %v in %d groups does not fit pictures of shape %v", name, window, groups, s))
	}
	weightInit, biasInit := b.denseInit(outPerGroup*w.Size*w.Size, s[1]/groups*w.Size*w.Size)
	weight := b.Parameter(name+".weight", weightInit, s[1], outPerGroup, w.Size, w.Size)
	bias := b.bias(name, biasInit, out)
	y := b.apply(name, op.ConvGradInput{Window: window, Groups: groups, C: out, H: height, W: width, O: s[1]}, x, weight)
	y = b.apply(name, op.ChannelShift{Channels: out, Inner: height * width}, y, bias)
	return Activate(b, y, act)
}

// convWeight adds the weight of a convolution.
func convWeight(b *Builder, name string, init Initializer, dims ...int) *G.Node {
	w := b.Parameter(name+".weight", init, dims...)
	if b.standardizeConv {
		w = StandardizeWeight(b, w)
	}
	return w
}

// divideChannels returns the number of groups and the number of channels in each.
func divideChannels(b *Builder, layer string, channels int, w Window) (perGroup, groups int) {
	groups = orOne(w.Groups)
	if groups < 0 || channels%groups != 0 {
		b.fail(fmt.Errorf("%s: %d channels cannot be divided into %d groups", layer, channels, groups))
		return 0, 1
	}
	return channels / groups, groups
}

// MaxPool is the maximum over each window. Padding is never the maximum.
func MaxPool(b *Builder, x *G.Node, w Window) *G.Node {
	const layer = "max pooling"
	if !b.requirePictures(layer, x) || !requireNoGroups(b, layer, w) {
		return nil
	}
	return b.apply(layer, op.MaxPool2D{Window: w.op()}, x)
}

// AvgPool is the mean over each window. Padding counts as zeros.
func AvgPool(b *Builder, x *G.Node, w Window) *G.Node {
	const layer = "average pooling"
	if !b.requirePictures(layer, x) || !requireNoGroups(b, layer, w) {
		return nil
	}
	return b.apply(layer, op.AvgPool2D{Window: w.op()}, x)
}

func requireNoGroups(b *Builder, layer string, w Window) bool {
	if w.Groups != 0 {
		b.fail(fmt.Errorf("%s: its window has %d groups; only convolutions have groups", layer, w.Groups))
	}
	return b.err == nil
}

// GlobalAvgPool is the mean of each channel. The result is [batch, channels].
func GlobalAvgPool(b *Builder, x *G.Node) *G.Node {
	const layer = "global average pooling"
	if !b.requirePictures(layer, x) {
		return nil
	}
	s := x.Shape()
	y := b.apply(layer, op.AvgPool2D{Window: op.Window{
		KernelH: s[2], KernelW: s[3], StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1,
	}}, x)
	return Flatten(b, y)
}
