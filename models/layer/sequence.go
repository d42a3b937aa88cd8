package layer

import (
	"fmt"
	"slices"

	"github.com/dptrain/dptrain/internal/device/op"
	G "gorgonia.org/gorgonia"
)

// AttentionOptions configures SelfAttention.
type AttentionOptions struct {
	Heads  int
	Causal bool // a step does not see the steps after it
	Rotary bool // rotary position embedding of queries and keys (Su et al. 2021)
	// Padding is nil or [batch, time]. No step sees a step whose number in it is below
	// zero. The indices that Embedding reads can serve as padding.
	Padding *G.Node
	// With a Window of n > 0 and Causal, a step sees itself and the n−1 steps before it.
	Window int
	// With Blocks, a step whose number in Padding is above zero begins a block, and no step sees another block: see
	// BlockMarks.
	Blocks bool
	// Scale is the factor of the products of queries and keys; 0 stands for one over the root of a head's width.
	Scale float64
	// With a Cap of c > 0, a scaled product s becomes c·tanh(s/c).
	Cap float64
}

// SelfAttention is multi-head attention of x [batch, time, width] to itself (Vaswani
// et al. 2017). The parameter name.qkv.weight [width, 3·width] contains queries, keys
// and values side by side, with name.qkv.bias. A dense layer with name.out.weight and
// name.out.bias follows.
func SelfAttention(b *Builder, x *G.Node, name string, o AttentionOptions) *G.Node {
	if !b.requireSequence(name, x) {
		return nil
	}
	width := x.Shape()[2]
	if o.Heads < 1 || width%o.Heads != 0 {
		return b.fail(fmt.Errorf("%s: %d heads cannot share a width of %d", name, o.Heads, width))
	}
	packed := Dense(b, x, name+".qkv", 3*width, Identity)
	return Dense(b, Attention(b, packed, name, o), name+".out", width, Identity)
}

// Attention is the part of SelfAttention without parameters. Packed [batch, time, 3·width]
// contains queries, keys and values side by side. The result is [batch, time, width].
func Attention(b *Builder, packed *G.Node, name string, o AttentionOptions) *G.Node {
	if !b.requireSequence(name, packed) {
		return nil
	}
	steps, width := packed.Shape()[1], packed.Shape()[2]/3
	if packed.Shape()[2]%3 != 0 || o.Heads < 1 || width%o.Heads != 0 {
		return b.fail(fmt.Errorf("%s: %d heads cannot share queries, keys and values of shape %v", name, o.Heads, packed.Shape()))
	}
	if o.Rotary {
		packed = b.apply(name, op.Rotary{HeadDim: width / o.Heads, RotaryDims: 2 * width}, packed)
	}
	in := []*G.Node{packed}
	if o.Padding != nil {
		in = append(in, o.Padding)
	}
	a := op.Attention{Heads: o.Heads, Causal: o.Causal, Scale: o.Scale, Cap: o.Cap, Blocks: o.Blocks}
	if o.Window < steps { // a longer window hides nothing
		a.Window = o.Window
	}
	return b.apply(name, a, in...)
}

// Rotation describes the angles of rotary embeddings. A Base of 0 stands for 10000.
type Rotation struct {
	Base    float64
	Scaling RotaryScaling
}

// RotaryScaling lowers the frequencies of rotary embeddings for texts that are longer than those of pretraining.
type RotaryScaling = op.RotaryScaling

// RotaryEmbedding rotates the heads of size columns of x [batch, time, features] by angles that grow with the
// step (Su et al. 2021): without scaling, columns j and j+size/2 of a head by the angle t·base^(−2j/size).
func RotaryEmbedding(b *Builder, x *G.Node, size int, r Rotation) *G.Node {
	const layer = "rotary embedding"
	if !b.requireSequence(layer, x) {
		return nil
	}
	return b.apply(layer, op.Rotary{HeadDim: size, RotaryDims: x.Shape()[2], Base: r.Base, Scaling: r.Scaling}, x)
}

// RepeatHeads copies each head of size columns of x [batch, time, features] times times, for keys and values that
// several heads of queries share (Ainslie et al. 2023).
func RepeatHeads(b *Builder, x *G.Node, size, times int) *G.Node {
	const layer = "repeated heads"
	if !b.requireSequence(layer, x) || times == 1 {
		return x
	}
	return b.apply(layer, op.RepeatHeads{Size: size, Times: times}, x)
}

// LastStep returns the last step of x [batch, time, features] that is not padding, as [batch, features]. A step is
// padding if its number in padding [batch, time] is below zero. The result is zeros for an example that
// consists of padding only.
func LastStep(b *Builder, x, padding *G.Node) *G.Node {
	const layer = "last step"
	if !b.requireSequence(layer, x) || !b.present(layer, padding) {
		return nil
	}
	s := x.Shape()
	if !slices.Equal(padding.Shape(), s[:2]) {
		return b.fail(fmt.Errorf("%s: padding of shape %v and input of shape %v: a number for each step is needed", layer, padding.Shape(), s))
	}
	mean := b.meanOverTime(layer, b.apply(layer, op.ScaleRows{}, x, b.apply(layer, op.LastStep{}, padding)))
	return b.Try(func() (*G.Node, error) { return G.HadamardProd(mean, G.NewConstant(float32(s[1]))) })
}

// Join puts tensors [batch, …, features] side by side along their last axis.
func Join(b *Builder, parts ...*G.Node) *G.Node {
	const layer = "join"
	if !b.present(layer, parts...) {
		return nil
	}
	return b.apply(layer, op.Join{}, parts...)
}

// longestSlicedAxis is the longest axis that Gorgonia slices without an error: see perexample.
const longestSlicedAxis = 256

// FirstStep returns the first step of x [batch, time, features] as [batch, features].
func FirstStep(b *Builder, x *G.Node) *G.Node {
	const layer = "first step"
	if !b.requireSequence(layer, x) {
		return nil
	}
	s := x.Shape()
	inner := min(s[1], longestSlicedAxis)
	for s[1]%inner != 0 {
		inner--
	}
	outer := s[1] / inner
	if outer > longestSlicedAxis {
		return b.fail(fmt.Errorf("%s: %d steps are not a product of two numbers of at most %d; choose another number", layer, s[1], longestSlicedAxis))
	}
	x = b.reshape(layer, x, s[0], outer, inner*s[2])
	if outer > 1 {
		x = b.Try(func() (*G.Node, error) { return G.Slice(x, nil, G.S(0, 1)) })
	}
	x = b.reshape(layer, x, s[0], inner, s[2])
	if inner > 1 {
		x = b.Try(func() (*G.Node, error) { return G.Slice(x, nil, G.S(0, 1)) })
	}
	return b.reshape(layer, x, s[0], s[2])
}

// Step returns one step of x [batch, time, features] as [batch, features].
func Step(b *Builder, x *G.Node, step int) *G.Node {
	const layer = "step"
	if !b.requireSequence(layer, x) {
		return nil
	}
	s := x.Shape()
	if step < 0 || step >= s[1] {
		return b.fail(fmt.Errorf("%s: there is no step %d of %d", layer, step, s[1]))
	}
	if s[1] <= longestSlicedAxis && s[1] > 1 {
		y := b.Try(func() (*G.Node, error) { return G.Slice(x, nil, G.S(step, step+1)) })
		return b.reshape(layer, y, s[0], s[2])
	}
	// The mean of the steps, of which all others have weight 0.
	weights := b.constant(fmt.Sprintf("%s %d", layer, step), func(into []float32) { into[step] = float32(s[1]) }, s[1])
	zeros := b.reshape(layer, b.noughts(layer, b.reshape(layer, x, s[0]*s[1], 1, s[2]), 1), s[0], s[1])
	shifted := b.apply(layer, op.ChannelShift{Channels: s[1], Inner: 1}, zeros, weights)
	return b.meanOverTime(layer, b.apply(layer, op.ScaleRows{}, x, shifted))
}

// noughts returns zeros [rows, features] for x [rows, time, features], or [rows, 1] if features is 1. No gradient passes through them.
func (b *Builder) noughts(layer string, x *G.Node, features int) *G.Node {
	if x == nil {
		return nil
	}
	s := x.Shape()
	if features == 1 {
		x = b.reshape(layer, x, s[0], s[1]*s[2], 1)
	}
	sign := b.apply(layer, op.Binary{Kind: ">="}, b.meanOverTime(layer, x), G.NewConstant(float32(0)))
	return b.Try(func() (*G.Node, error) { return G.HadamardProd(sign, G.NewConstant(float32(0))) })
}

// Sequence returns the cells of pictures [batch, channels, height, width] as the steps of a sequence [batch, height·width, channels].
func Sequence(b *Builder, x *G.Node) *G.Node {
	const layer = "sequence"
	if !b.requirePictures(layer, x) {
		return nil
	}
	s := x.Shape()
	x = b.reshape(layer, x, s[0], s[1], s[2]*s[3])
	return b.Try(func() (*G.Node, error) { return G.Transpose(x, 0, 2, 1) })
}

// Token returns one step [batch, 1, features] that is the parameter name [1, features] for each example of x [batch, time, features].
func Token(b *Builder, x *G.Node, name string) *G.Node {
	if !b.requireSequence(name, x) {
		return nil
	}
	s := x.Shape()
	w := b.Parameter(name, Normal(0.02), 1, s[2])
	y := b.apply(name, op.ChannelShift{Channels: s[2], Inner: 1}, b.noughts(name, x, s[2]), w)
	return b.reshape(name, y, s[0], 1, s[2])
}

// Concatenate puts sequences [batch, time, features] one behind the other.
func Concatenate(b *Builder, parts ...*G.Node) *G.Node {
	const layer = "concatenation"
	flat, steps := make([]*G.Node, len(parts)), 0
	for i, x := range parts {
		if !b.requireSequence(layer, x) {
			return nil
		}
		s := x.Shape()
		if s[2] != parts[0].Shape()[2] {
			return b.fail(fmt.Errorf("%s: sequences of %d and of %d features", layer, parts[0].Shape()[2], s[2]))
		}
		flat[i] = b.reshape(layer, x, s[0], s[1]*s[2])
		steps += s[1]
	}
	y := Join(b, flat...)
	if y == nil {
		return nil
	}
	s := parts[0].Shape()
	return b.reshape(layer, y, s[0], steps, s[2])
}

// AddToSteps adds the parameter name [time, features] to each example of x [batch, time, features].
func AddToSteps(b *Builder, x *G.Node, name string) *G.Node {
	if !b.requireSequence(name, x) {
		return nil
	}
	s := x.Shape()
	w := b.Parameter(name, Normal(0.02), s[1], s[2])
	return b.apply(name, op.ChannelShift{Channels: s[1] * s[2], Inner: 1}, x, w)
}

// MeanOverTime averages x [batch, time, features] over its steps, including
// padding. The result is [batch, features].
func MeanOverTime(b *Builder, x *G.Node) *G.Node {
	const layer = "mean over time"
	if !b.requireSequence(layer, x) {
		return nil
	}
	return b.meanOverTime(layer, x)
}

// MeanWithoutPadding averages x [batch, time, features] over the steps that are not
// padding. A step is padding if its number in padding [batch, time] is below zero;
// the indices that Embedding reads can serve as padding. The result is [batch,
// features]. It is zeros for an example that consists of padding only, and has the
// bits of MeanOverTime for an example without padding.
func MeanWithoutPadding(b *Builder, x, padding *G.Node) *G.Node {
	const layer = "mean without padding"
	if !b.requireSequence(layer, x) || !b.present(layer, padding) {
		return nil
	}
	s, p := x.Shape(), padding.Shape()
	if !slices.Equal(p, s[:2]) {
		return b.fail(fmt.Errorf("%s: padding of shape %v and input of shape %v: a number for each step is needed", layer, p, s))
	}
	return b.meanOverTime(layer, b.apply(layer, op.ScaleRows{}, x, stepWeights(b, layer, padding)))
}

// stepWeights returns weights [batch, time] whose mean over an example's T steps is
// 1. If k steps are not padding, each of these has weight T/k; padding has weight 0.
func stepWeights(b *Builder, layer string, padding *G.Node) *G.Node {
	root := stepRoots(b, layer, padding)
	return b.apply(layer, op.ScaleRows{}, root, root)
}

// stepRoots returns the roots of stepWeights.
func stepRoots(b *Builder, layer string, padding *G.Node) *G.Node {
	own := b.apply(layer, op.Binary{Kind: ">="}, padding, G.NewConstant(float32(0)))
	return b.apply(layer, op.Normalize{Chunk: padding.Shape()[1], Eps: 1e-30}, own) // the mean of its squares is 1
}
