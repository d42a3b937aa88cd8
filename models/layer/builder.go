package layer

import (
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Builder is a network under construction, for a fixed number of examples at a
// time.
//
// It keeps the first error. Layers added after an error do nothing and return nil;
// Network returns the error.
type Builder struct {
	seed        uint64
	denseInit   denseInit // of the dense and convolution layers to come
	graph       *G.ExprGraph
	net         perexample.Network
	names       map[string]bool
	weights     int    // elements of all parameters
	dropouts    uint32 // dropout layers so far
	perStepLoss map[*G.Node]stepLosses
	labels      map[*G.Node]*G.Node // of logits: the first that a cross-entropy compares them with
	targets     map[*G.Node]*G.Node // of predictions: the first that a regression loss compares them with

	initialValue    func(name string, shape []int) *perexample.InitialValue // nil: all are drawn
	normEpsilon     float64                                                 // of LayerNorm
	standardizeConv bool                                                    // convolutions standardize their weights
	noBias          bool                                                    // dense and convolution layers have no bias
	err             error
}

// maxWeights is the limit of the 32-bit weight indices in devices and files. That
// many weights take 8 GiB, and training holds several copies.
const maxWeights = math.MaxInt32

// NewBuilder starts a network for microbatches of batch examples. The seed
// determines the initial weights. It is public.
func NewBuilder(batch int, seed uint64) *Builder {
	b := &Builder{
		seed: seed, denseInit: pyTorchInit, graph: G.NewGraph(), net: perexample.Network{Batch: batch},
		names: map[string]bool{}, perStepLoss: map[*G.Node]stepLosses{},
		labels: map[*G.Node]*G.Node{}, targets: map[*G.Node]*G.Node{}, normEpsilon: epsilon,
	}
	if batch < 1 {
		b.fail(fmt.Errorf("a microbatch of %d examples: at least one is needed", batch))
	}
	return b
}

// Graph returns the Gorgonia graph that contains the nodes.
func (b *Builder) Graph() *G.ExprGraph { return b.graph }

// Network returns the finished network, or the first error in building it.
func (b *Builder) Network() (*perexample.Network, error) {
	if b.err == nil && b.net.Loss == nil {
		b.fail(fmt.Errorf("the network has no loss: call SetLoss with CrossEntropy or another loss"))
	}
	if b.err != nil {
		return nil, b.err
	}
	net := b.net
	return &net, nil
}

// Input adds an input whose examples have the given shape. Without dims each
// example is one number, such as a label. Inputs are numbered in the order of
// creation.
func (b *Builder) Input(name string, dims ...int) *G.Node {
	if !b.claimName(name, dims) {
		return nil
	}
	shape := append([]int{b.net.Batch}, dims...)
	x := G.NewTensor(b.graph, tensor.Float32, len(shape), G.WithShape(shape...), G.WithName(name))
	b.net.Inputs = append(b.net.Inputs, x)
	return x
}

// Parameter adds a trained parameter. Its initial value depends only on the network's
// seed, the parameter's name and its shape. The value is drawn again each time
// that it is needed: see [perexample.InitialValue].
func (b *Builder) Parameter(name string, init Initializer, dims ...int) *G.Node {
	if !b.claimName(name, dims) {
		return nil
	}
	if len(dims) == 0 || init == nil {
		return b.fail(fmt.Errorf("parameter %s needs a shape and an initializer", name))
	}
	size := 1
	for _, d := range dims {
		if d > (maxWeights-b.weights)/size {
			return b.fail(fmt.Errorf("parameter %s of shape %v: with it the network has more than %d weights, the largest number that can be trained", name, dims, maxWeights))
		}
		size *= d
	}
	b.weights += size
	p := G.NewTensor(b.graph, tensor.Float32, len(dims), G.WithShape(dims...), G.WithName(name))
	seed := b.seed
	var value *perexample.InitialValue
	if b.initialValue != nil {
		value = b.initialValue(name, dims)
	}
	if value == nil {
		value = perexample.NewInitialValue(func(into []float32) { init.fill(into, seed, name) }, dims...)
	}
	if err := G.Let(p, value); err != nil {
		return b.fail(fmt.Errorf("parameter %s: %w", name, err))
	}
	b.net.Params = append(b.net.Params, p)
	return p
}

// SetLoss ends the network. The network's loss is the sum of the examples' losses
// [batch]. Output is the network's prediction, batch on axis 0; it is nil if there
// is nothing to evaluate.
func (b *Builder) SetLoss(losses, output *G.Node) {
	if !b.present("loss", losses) {
		return
	}
	if losses.Dims() != 1 || losses.Shape()[0] != b.net.Batch {
		b.fail(fmt.Errorf("losses of shape %v: one loss for each of %d examples is needed", losses.Shape(), b.net.Batch))
	}
	if b.err == nil && b.net.Loss != nil {
		b.fail(fmt.Errorf("the network has two losses: add the examples' losses first, and call SetLoss once"))
	}
	// The losses of sequences are summed over all steps at once, without their means.
	summands, scale := losses, 1.0
	if s, ok := b.perStepLoss[losses]; ok {
		summands, scale = s.losses, 1/float64(s.steps)
	}
	b.net.Loss = b.apply("loss", op.Total{Scale: scale}, summands)
	b.net.Output = output
	b.net.Losses = losses
	b.net.Label, b.net.Target = b.input(b.labels[output]), b.input(b.targets[output])
}

// input returns x if it is an input, or the input whose labels IgnoreLabel replaced to
// make x, else nil.
func (b *Builder) input(x *G.Node) *G.Node {
	if x == nil {
		return nil
	}
	if _, replaced := op.OperationOf(x).(op.Replace); replaced {
		x = op.Operands(x)[0]
	}
	if slices.Contains(b.net.Inputs, x) {
		return x
	}
	return nil
}

// Try adds nodes made by Gorgonia's own functions. It calls f unless an earlier
// call failed.
//
//	h = b.Try(func() (*gorgonia.Node, error) { return gorgonia.HadamardProd(h, gate) })
func (b *Builder) Try(f func() (*G.Node, error)) *G.Node {
	if b.err != nil {
		return nil
	}
	x, err := f()
	if err != nil {
		return b.fail(err)
	}
	return x
}

// UseBias sets whether the dense and convolution layers added afterwards have a
// bias. By default they do. A layer without a bias has no parameter name.bias, as
// with bias=False in PyTorch.
func (b *Builder) UseBias(use bool) { b.noBias = !use }

// UseInitialValues gives the parameters added afterwards the initial values that the function value
// writes for their name and shape, such as those of a file. It returns nil for a parameter that its
// layer initializes.
func (b *Builder) UseInitialValues(value func(name string, shape []int) func(into []float32)) {
	b.UseStoredValues(func(name string, shape []int) *perexample.InitialValue {
		if draw := value(name, shape); draw != nil {
			return perexample.NewInitialValue(draw, shape...)
		}
		return nil
	})
}

// UseStoredValues is UseInitialValues for values that several networks share: where the parameter is frozen, all
// of them compute with one copy of its numbers.
func (b *Builder) UseStoredValues(value func(name string, shape []int) *perexample.InitialValue) {
	b.initialValue = value
}

// UseNormEpsilon sets what LayerNorm adds to variances, and RMSNorm to means of squares, from now on. The default is 1e-5.
func (b *Builder) UseNormEpsilon(epsilon float64) { b.normEpsilon = epsilon }

// UseKerasInitialization makes the dense and convolution layers added afterwards
// start as in Keras, to repeat a run of Keras: weights are uniform within
// √(6/(inputs+outputs)) and biases are zero (Glorot & Bengio 2010). By default
// they start as in PyTorch.
func (b *Builder) UseKerasInitialization() { b.denseInit = kerasInit }

// StandardizeConvWeights makes the convolutions added afterwards standardize their
// weights with [StandardizeWeight]. Transposed convolutions do not.
func (b *Builder) StandardizeConvWeights() { b.standardizeConv = true }

// fail keeps the first error and returns nil.
func (b *Builder) fail(err error) *G.Node {
	if b.err == nil {
		b.err = err
	}
	return nil
}

// present reports whether nothing failed and all inputs of the named layer exist.
func (b *Builder) present(layer string, inputs ...*G.Node) bool {
	if b.err != nil {
		return false
	}
	for _, x := range inputs {
		if x == nil {
			b.fail(fmt.Errorf("%s: its input is missing", layer))
			return false
		}
	}
	return true
}

// requireFeatures checks that x is [batch, …, features].
func (b *Builder) requireFeatures(layer string, x *G.Node) bool {
	if b.present(layer, x) && x.Dims() < 2 {
		b.fail(fmt.Errorf("%s: input of shape %v: [batch, …, features] is needed", layer, x.Shape()))
	}
	return b.err == nil
}

// requireSequence checks that x is [batch, time, features].
func (b *Builder) requireSequence(layer string, x *G.Node) bool {
	if b.present(layer, x) && x.Dims() != 3 {
		b.fail(fmt.Errorf("%s: input of shape %v: [batch, time, features] is needed", layer, x.Shape()))
	}
	return b.err == nil
}

// requirePictures checks that x is [batch, channels, height, width].
func (b *Builder) requirePictures(layer string, x *G.Node) bool {
	if b.present(layer, x) && x.Dims() != 4 {
		b.fail(fmt.Errorf("%s: input of shape %v: [batch, channels, height, width] is needed", layer, x.Shape()))
	}
	return b.err == nil
}

// requireActivation checks that act is one of the constants.
func (b *Builder) requireActivation(layer string, act Activation) bool {
	if act > Softplus {
		b.fail(fmt.Errorf("%s: there is no activation %d", layer, uint8(act)))
	}
	return b.err == nil
}

// claimName checks the dims of a new tensor and reserves its name.
func (b *Builder) claimName(name string, dims []int) bool {
	switch {
	case b.err != nil:
	case name == "":
		b.fail(fmt.Errorf("an input or parameter of shape %v has no name", dims))
	case b.names[name]:
		b.fail(fmt.Errorf("two inputs or parameters are called %s: give each its own name", name))
	}
	for _, d := range dims {
		if d < 1 {
			b.fail(fmt.Errorf("%s of shape %v: every axis needs a length of at least 1", name, dims))
		}
	}
	b.names[name] = true
	return b.err == nil
}

// apply adds one operation of the named layer.
func (b *Builder) apply(layer string, s op.Operation, inputs ...*G.Node) *G.Node {
	return b.Try(func() (*G.Node, error) {
		y, err := op.Apply(s, inputs...)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", layer, err)
		}
		return y, nil
	})
}

func (b *Builder) reshape(layer string, x *G.Node, dims ...int) *G.Node {
	return b.Try(func() (*G.Node, error) {
		y, err := G.Reshape(x, dims)
		if err != nil {
			return nil, fmt.Errorf("%s: a tensor of shape %v cannot take shape %v", layer, x.Shape(), dims)
		}
		return y, nil
	})
}

// flattenRows reshapes x [batch, …, features] to a matrix of one row for each vector
// of features. The function restore gives a matrix with the same number of rows the
// leading axes of x.
func (b *Builder) flattenRows(layer string, x *G.Node) (matrix *G.Node, restore func(y *G.Node) *G.Node) {
	shape := x.Shape().Clone()
	last := len(shape) - 1
	if last == 1 {
		return x, func(y *G.Node) *G.Node { return y }
	}
	return b.reshape(layer, x, shape.TotalSize()/shape[last], shape[last]), func(y *G.Node) *G.Node {
		if y == nil {
			return nil
		}
		shape[last] = y.Shape()[1]
		return b.reshape(layer, y, shape...)
	}
}

// meanOverTime averages x [batch, time, dim] over time.
func (b *Builder) meanOverTime(layer string, x *G.Node) *G.Node {
	s := x.Shape()
	x = b.reshape(layer, x, s[0], 1, s[1], s[2])
	y := b.apply(layer, op.AvgPool2D{Window: op.Window{
		KernelH: s[1], KernelW: 1, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1,
	}}, x)
	return b.reshape(layer, y, s[0], s[2])
}
