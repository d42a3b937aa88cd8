package layer

import (
	"math"

	"github.com/dptrain/dptrain/internal/device/op"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Activation is a function applied to every element.
type Activation = op.Activation

// The activations.
const (
	Identity  = op.Identity  // x
	ReLU      = op.ReLU      // max(0, x)
	Tanh      = op.Tanh      // tanh(x)
	Sigmoid   = op.Sigmoid   // 1/(1+e⁻ˣ)
	GELU      = op.GELU      // x·Φ(x), exact
	LeakyReLU = op.LeakyReLU // x, or x/100 below zero
	ELU       = op.ELU       // x, or eˣ−1 below zero
	SiLU      = op.SiLU      // x·Sigmoid(x)
	Softplus  = op.Softplus  // log(1+eˣ)
)

// Activate applies an activation to every element.
func Activate(b *Builder, x *G.Node, act Activation) *G.Node {
	if !b.present("activation", x) || !b.requireActivation("activation", act) || act == Identity {
		return x
	}
	return b.apply("activation", op.Activate{Act: act}, x)
}

// TanhGELU is the approximation ½·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))) of GELU (Hendrycks & Gimpel
// 2016), which GPT-2 has.
func TanhGELU(b *Builder, x *G.Node) *G.Node {
	if !b.present("GELU", x) {
		return nil
	}
	times := func(c float64, y *G.Node) *G.Node {
		return b.Try(func() (*G.Node, error) { return G.HadamardProd(y, G.NewConstant(float32(c))) })
	}
	product := func(y, z *G.Node) *G.Node {
		return b.Try(func() (*G.Node, error) { return G.HadamardProd(y, z) })
	}
	root := math.Sqrt(2 / math.Pi)
	cube := product(product(x, x), x)
	bend := b.Try(func() (*G.Node, error) { return G.Add(times(root, x), times(0.044715*root, cube)) })
	half := times(0.5, x)
	return b.Try(func() (*G.Node, error) { return G.Add(half, product(half, Activate(b, bend, Tanh))) })
}

// SoftCap limits every element x to c·tanh(x/c).
func SoftCap(b *Builder, x *G.Node, c float64) *G.Node {
	if !b.present("soft cap", x) {
		return nil
	}
	y := b.Try(func() (*G.Node, error) { return G.HadamardProd(x, G.NewConstant(float32(1/c))) })
	y = Activate(b, y, Tanh)
	return b.Try(func() (*G.Node, error) { return G.HadamardProd(y, G.NewConstant(float32(c))) })
}

// splitActivation splits an activation into the part that the preceding layer
// computes itself and the part that remains.
func splitActivation(act Activation) (fused, remaining Activation) {
	if act.FromOutput() {
		return act, Identity
	}
	return Identity, act
}

// Add returns the sum of two tensors of one shape, as in a residual connection.
func Add(b *Builder, x, y *G.Node) *G.Node {
	if !b.present("add", x, y) {
		return nil
	}
	return b.apply("add", op.Add{}, x, y)
}

// Dropout sets each element of an example to zero with probability rate, from 0 to
// less than 1, and divides the others by 1 − rate (Srivastava et al. 2014).
// Evaluation and exported models leave it out.
//
// The run's cryptographic generator draws a new mask for each example of each lot.
// So an example's gradient does not depend on the other examples of the lot.
func Dropout(b *Builder, x *G.Node, rate float64) *G.Node {
	if !b.present("dropout", x) || rate == 0 {
		return x
	}
	if b.net.MaskSeed == nil {
		b.net.MaskSeed = G.NewMatrix(b.graph, tensor.Float32, G.WithShape(b.net.Batch, op.MaskSeedWidth), G.WithName("dptrain: ticket"))
	}
	b.dropouts++
	return b.apply("dropout", op.Dropout{Rate: rate, Seed: b.seed, Layer: b.dropouts}, x, b.net.MaskSeed)
}

// Flatten joins all axes except the batch axis into one.
func Flatten(b *Builder, x *G.Node) *G.Node {
	if !b.present("flatten", x) || x.Dims() == 2 {
		return x
	}
	return b.reshape("flatten", x, b.net.Batch, x.Shape().TotalSize()/b.net.Batch)
}

// Reshape gives each example the shape dims.
func Reshape(b *Builder, x *G.Node, dims ...int) *G.Node {
	if !b.present("reshape", x) {
		return nil
	}
	return b.reshape("reshape", x, append([]int{b.net.Batch}, dims...)...)
}
