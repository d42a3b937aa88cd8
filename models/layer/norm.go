package layer

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
)

// epsilon is added to variances. It is PyTorch's default except for RMSNorm.
const epsilon = 1e-5

// weightEpsilon is added to the variances of weights. It is far below any layer's
// variance, which starts at a third of one over the number of inputs.
const weightEpsilon = 1e-8

// GroupNorm normalizes each example's channels in groups (Wu & He 2018), with 1e-5
// added to their variances. Then it scales and shifts each channel by the parameters
// name.weight and name.bias.
func GroupNorm(b *Builder, x *G.Node, name string, groups int) *G.Node {
	if !b.requirePictures(name, x) {
		return nil
	}
	s := x.Shape()
	if groups < 1 || s[1]%groups != 0 {
		return b.fail(fmt.Errorf("%s: %d channels cannot be divided into %d groups", name, s[1], groups))
	}
	return normalize(b, x, name, op.Normalize{Chunk: s[1] / groups * s[2] * s[3], Eps: epsilon, Center: true}, s[1], s[2]*s[3])
}

// BatchNorm standardizes each channel of pictures, or each feature, with running statistics: a
// mean and a variance for all examples, with 1e-5 added to the variance. Then it scales and
// shifts each channel by the parameters name.weight and name.bias (Ioffe & Szegedy 2015).
//
// The statistics of a batch would let one example change the gradients of others. The running
// statistics name.running_mean and name.running_var do not: within a lot they are constants, and
// engine.BatchStatistics moves them after the lot by released values. They start at 0 and 1.
func BatchNorm(b *Builder, x *G.Node, name string) *G.Node {
	if !b.present(name, x) {
		return nil
	}
	s := x.Shape()
	if len(s) != 2 && len(s) != 4 {
		return b.fail(fmt.Errorf("%s: batch normalization reads features [batch, features] or pictures [batch, channels, height, width], and its operand has shape %v", name, s))
	}
	channels, inner := s[1], s.TotalSize()/(s[0]*s[1])
	mean := b.Parameter(name+".running_mean", Constant(0), channels)
	variance := b.Parameter(name+".running_var", Constant(1), channels)
	scale := b.Parameter(name+".weight", Constant(1), channels)
	shift := b.Parameter(name+".bias", Constant(0), channels)
	inverse := b.Try(func() (*G.Node, error) { return inverseDeviation(variance) })
	offset := b.Try(func() (*G.Node, error) {
		product, err := G.HadamardProd(mean, inverse)
		if err != nil {
			return nil, err
		}
		return G.Neg(product)
	})
	standardized := b.apply(name, op.ScaleShift{Channels: channels, Inner: inner}, x, inverse, offset)
	squares := b.Try(func() (*G.Node, error) { return G.Square(standardized) })
	observed := [2]*G.Node{standardized, squares}
	if len(s) == 4 {
		observed = [2]*G.Node{GlobalAvgPool(b, standardized), GlobalAvgPool(b, squares)}
	}
	if b.err == nil {
		b.net.BatchNorms = append(b.net.BatchNorms, perexample.BatchNorm{Mean: mean, Variance: variance, Observed: observed})
	}
	return b.apply(name, op.ScaleShift{Channels: channels, Inner: inner}, standardized, scale, shift)
}

// inverseDeviation returns one over the root of a variance.
func inverseDeviation(variance *G.Node) (*G.Node, error) {
	sum, err := G.Add(variance, G.NewConstant(float32(epsilon)))
	if err != nil {
		return nil, err
	}
	if sum, err = G.Sqrt(sum); err != nil {
		return nil, err
	}
	return G.Inverse(sum)
}

// StandardizeChannels subtracts a public mean from each channel of pictures, and divides by a public deviation.
func StandardizeChannels(b *Builder, x *G.Node, name string, mean, deviation []float64) *G.Node {
	if !b.requirePictures(name, x) {
		return nil
	}
	s := x.Shape()
	if len(mean) != s[1] || len(deviation) != s[1] {
		return b.fail(fmt.Errorf("%s: %d means and %d deviations for %d channels", name, len(mean), len(deviation), s[1]))
	}
	scale := b.constant(name+".scale", func(into []float32) {
		for i, d := range deviation {
			into[i] = float32(1 / d)
		}
	}, s[1])
	shift := b.constant(name+".shift", func(into []float32) {
		for i, d := range deviation {
			into[i] = float32(-mean[i] / d)
		}
	}, s[1])
	return b.apply(name, op.ScaleShift{Channels: s[1], Inner: s[2] * s[3]}, x, scale, shift)
}

// InstanceNorm normalizes each channel of each example separately (Ulyanov et al.
// 2016). It is GroupNorm with one group for each channel.
func InstanceNorm(b *Builder, x *G.Node, name string) *G.Node {
	if !b.requirePictures(name, x) {
		return nil
	}
	return GroupNorm(b, x, name, x.Shape()[1])
}

// LayerNorm normalizes the last axis (Ba et al. 2016), with 1e-5 added to its
// variance, or what [Builder.UseNormEpsilon] sets. Then it scales and shifts each of its elements by the parameters
// name.weight and name.bias.
func LayerNorm(b *Builder, x *G.Node, name string) *G.Node {
	if !b.requireFeatures(name, x) {
		return nil
	}
	last := x.Shape()[x.Dims()-1]
	return normalize(b, x, name, op.Normalize{Chunk: last, Eps: b.normEpsilon, Center: true}, last, 1)
}

// RMSNorm divides the last axis by its root mean square (Zhang & Sennrich 2019),
// with 1e-5 added to the mean of squares, or what [Builder.UseNormEpsilon] sets (PyTorch adds
// 1.2e-7 by default). Then it scales each of its elements by the parameter name.weight. It does
// not center and has no shift.
func RMSNorm(b *Builder, x *G.Node, name string) *G.Node {
	if !b.requireFeatures(name, x) {
		return nil
	}
	return HeadRMSNorm(b, x, name, x.Shape()[x.Dims()-1])
}

// HeadRMSNorm is RMSNorm of each run of size elements of the last axis. All runs share name.weight [size]. It
// normalizes the heads of queries and keys (Dehghani et al. 2023).
func HeadRMSNorm(b *Builder, x *G.Node, name string, size int) *G.Node {
	if !b.requireFeatures(name, x) {
		return nil
	}
	scale := b.Parameter(name+".weight", Constant(1), size)
	y := b.apply(name, op.Normalize{Chunk: size, Eps: b.normEpsilon}, x)
	return b.apply(name, op.ChannelScale{Channels: size, Inner: 1}, y, scale)
}

// ShiftedRMSNorm is RMSNorm with the scale 1 + name.weight, and the parameter starts at 0.
func ShiftedRMSNorm(b *Builder, x *G.Node, name string) *G.Node {
	if !b.requireFeatures(name, x) {
		return nil
	}
	return ShiftedHeadRMSNorm(b, x, name, x.Shape()[x.Dims()-1])
}

// ShiftedHeadRMSNorm is HeadRMSNorm with the scale 1 + name.weight, and the parameter starts at 0.
func ShiftedHeadRMSNorm(b *Builder, x *G.Node, name string, size int) *G.Node {
	if !b.requireFeatures(name, x) {
		return nil
	}
	weight := b.Parameter(name+".weight", Constant(0), size)
	y := b.apply(name, op.Normalize{Chunk: size, Eps: b.normEpsilon}, x)
	return Add(b, y, b.apply(name, op.ChannelScale{Channels: size, Inner: 1}, y, weight))
}

// StandardizeWeight returns the weight [out, …] with each output's k numbers
// standardized to mean 0 and variance 1/k. Qiao et al. (2019) standardize to variance
// 1; the division by √k follows Brock et al. (2021), so that a layer keeps the scale of
// its input. Training and clipping apply to the parameter itself: a record's gradient
// is propagated back through the standardization before its norm is taken.
func StandardizeWeight(b *Builder, weight *G.Node) *G.Node {
	const layer = "standardization"
	if !b.present(layer, weight) {
		return nil
	}
	inputs := weight.Shape().TotalSize() / weight.Shape()[0]
	w := b.apply(layer, op.Normalize{Chunk: inputs, Eps: weightEpsilon, Center: true}, weight)
	return b.Try(func() (*G.Node, error) {
		return G.HadamardProd(w, G.NewConstant(float32(1/math.Sqrt(float64(inputs)))))
	})
}

// normalize normalizes x, then scales and shifts each channel of inner consecutive
// elements.
func normalize(b *Builder, x *G.Node, name string, by op.Normalize, channels, inner int) *G.Node {
	scale := b.Parameter(name+".weight", Constant(1), channels)
	shift := b.Parameter(name+".bias", Constant(0), channels)
	y := b.apply(name, by, x)
	return b.apply(name, op.ScaleShift{Channels: channels, Inner: inner}, y, scale, shift)
}
