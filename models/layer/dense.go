package layer

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/internal/device/op"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Dense is act(x·W + b) over the last axis of x, with parameters name.weight
// [in, out] and name.bias [out]. The weight is the transpose of PyTorch's.
func Dense(b *Builder, x *G.Node, name string, out int, act Activation) *G.Node {
	if !b.requireFeatures(name, x) || !b.requireActivation(name, act) {
		return nil
	}
	in := x.Shape()[x.Dims()-1]
	weightInit, biasInit := b.denseInit(in, out)
	weight := b.Parameter(name+".weight", weightInit, in, out)
	return linear(b, x, name, weight, b.bias(name, biasInit, out), act)
}

func linear(b *Builder, x *G.Node, name string, weight, bias *G.Node, act Activation) *G.Node {
	if b.err != nil {
		return nil
	}
	rows, restore := b.flattenRows(name, x)
	fused, remaining := splitActivation(act)
	return Activate(b, restore(b.apply(name, op.Linear{Act: fused}, rows, weight, bias)), remaining)
}

// DenseFromZero is x·W over the last axis of x, with a parameter name.weight [in, out] that starts at zero.
func DenseFromZero(b *Builder, x *G.Node, name string, out int) *G.Node {
	if !b.requireFeatures(name, x) {
		return nil
	}
	weight := b.Parameter(name+".weight", Constant(0), x.Shape()[x.Dims()-1], out)
	return linear(b, x, name, weight, b.zeros(name+".bias", out), Identity)
}

// AddBias is x + scale·bias over the last axis of x, with a parameter name.bias that starts at zero. A
// small scale leaves most of the clip bound to the other parameters.
func AddBias(b *Builder, x *G.Node, name string, scale float64) *G.Node {
	if !b.requireFeatures(name, x) {
		return nil
	}
	size := x.Shape()[x.Dims()-1]
	unit := b.constant(name+".unit", func(into []float32) {
		for i := range size {
			into[i*size+i] = float32(1 / scale)
		}
	}, size, size)
	y := linear(b, x, name, unit, b.Parameter(name+".bias", Constant(0), size), Identity)
	return b.Try(func() (*G.Node, error) { return G.HadamardProd(y, G.NewConstant(float32(scale))) })
}

// Shift is x + bias over the last axis of x [batch, …, features], with a parameter name.bias that starts at zero.
func Shift(b *Builder, x *G.Node, name string) *G.Node {
	if !b.requireFeatures(name, x) {
		return nil
	}
	size := x.Shape()[x.Dims()-1]
	return b.apply(name, op.ChannelShift{Channels: size, Inner: 1}, x, b.Parameter(name+".bias", Constant(0), size))
}

// LoRA is the low-rank adapter scale·x·A·B over the last axis of x (Hu et al.
// 2022). Its parameters are name.A.weight [in, rank], which is initialized like the weight of
// a dense layer, and name.B.weight [rank, out], which starts at zero. Add its output to that of
// a dense layer with frozen weights to fine-tune the layer. In PyTorch, A and B are
// two Linear modules with bias=False.
//
//	h = layer.Add(b, layer.Dense(b, x, "fc", 64, layer.Identity), layer.LoRA(b, x, "lora.fc", 64, 4, 2))
func LoRA(b *Builder, x *G.Node, name string, out, rank int, scale float64) *G.Node {
	if !b.requireFeatures(name, x) {
		return nil
	}
	in := x.Shape()[x.Dims()-1]
	down := b.Parameter(name+".A.weight", fanIn(in), in, rank)
	h := linear(b, x, name, down, b.zeros(name+".A.bias", rank), Identity)
	h = b.Try(func() (*G.Node, error) { return G.HadamardProd(h, G.NewConstant(float32(scale))) }) // here it has few numbers
	return DenseFromZero(b, h, name+".B", out)
}

// FixedProjection is x·Wᵀ for x [batch, features] and a constant W, given by its
// rows. W is not a parameter: it is not trained and has no gradient. It must be
// public. It has the layout of torch.nn.Linear's weight.
func FixedProjection(b *Builder, x *G.Node, name string, rows []float32) *G.Node {
	if !b.present(name, x) {
		return nil
	}
	if x.Dims() != 2 || len(rows) == 0 || len(rows)%x.Shape()[1] != 0 {
		return b.fail(fmt.Errorf("%s: %d numbers for an input of shape %v: the input needs two axes, and each row needs one number for each feature", name, len(rows), x.Shape()))
	}
	w := b.constant(name, func(into []float32) { copy(into, rows) }, len(rows)/x.Shape()[1], x.Shape()[1])
	return b.apply(name, op.MatMul{TransB: true}, x, w)
}

// FourierFeatures is norm·√(2/units)·cos(x·W + b) for x [batch, features], where the elements of W
// [features, units] are normal with the standard deviation frequency, and those of b uniform within
// ±π (Rahimi & Recht 2007). W and b are constants: they are not trained, and the same for each
// seed of the network. A linear function of the features is a function of x as smooth as the
// Gaussian kernel of width 1/frequency. The norm of an example's features is near norm.
func FourierFeatures(b *Builder, x *G.Node, name string, units int, frequency, norm float64) *G.Node {
	if !b.requireFeatures(name, x) {
		return nil
	}
	weight := b.drawnConstant(name+".frequency", Normal(frequency), x.Shape()[1], units)
	phase := b.drawnConstant(name+".phase", Uniform(math.Pi), units)
	z := b.apply(name, op.Linear{Act: op.Identity}, x, weight, phase)
	return b.Try(func() (*G.Node, error) {
		cosine, err := G.Cos(z)
		if err != nil {
			return nil, err
		}
		return G.HadamardProd(cosine, G.NewConstant(float32(norm*math.Sqrt(2/float64(units)))))
	})
}

// constant adds a constant, which is not a parameter and is not trained.
func (b *Builder) constant(name string, fill func(into []float32), dims ...int) *G.Node {
	if !b.claimName(name, dims) {
		return nil
	}
	value := tensor.New(tensor.WithShape(dims...), tensor.Of(tensor.Float32))
	fill(value.Data().([]float32))
	return G.NewTensor(b.graph, tensor.Float32, len(dims), G.WithShape(dims...), G.WithName(name), G.WithValue(value))
}

// drawnConstant adds a constant that depends on its name and shape only.
func (b *Builder) drawnConstant(name string, init Initializer, dims ...int) *G.Node {
	return b.constant(name, func(into []float32) { init.fill(into, 0, name) }, dims...)
}

// bias returns the bias of the named layer. It is a constant of zeros after
// UseBias(false).
func (b *Builder) bias(layer string, init Initializer, size int) *G.Node {
	if b.noBias {
		return b.zeros(layer+".bias", size)
	}
	return b.Parameter(layer+".bias", init, size)
}

// zeros adds a constant vector of zeros, which is not a parameter.
func (b *Builder) zeros(name string, size int) *G.Node {
	return b.constant(name, func([]float32) {}, size)
}
