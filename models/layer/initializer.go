package layer

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
)

// Initializer draws one element of a parameter's initial value.
type Initializer func(*rand.Rand) float64

// Constant gives every element the value v.
func Constant(v float64) Initializer { return func(*rand.Rand) float64 { return v } }

// Uniform draws elements uniformly from −bound to bound.
func Uniform(bound float64) Initializer {
	return func(r *rand.Rand) float64 { return bound * (2*r.Float64() - 1) }
}

// Normal draws elements from a normal distribution with mean 0 and the given
// standard deviation.
func Normal(deviation float64) Initializer {
	return func(r *rand.Rand) float64 { return deviation * r.NormFloat64() }
}

// fanIn is PyTorch's default for the weights and biases of dense and convolution
// layers: uniform within 1/√inputs, where inputs is the number of inputs of one
// output.
func fanIn(inputs int) Initializer { return Uniform(1 / math.Sqrt(float64(inputs))) }

// denseInit returns the initializers of a layer's weight and bias. Fan-in is the
// number of inputs of one output, fan-out the number of outputs of one input.
type denseInit func(fanIn, fanOut int) (weight, bias Initializer)

func pyTorchInit(in, _ int) (weight, bias Initializer) { return fanIn(in), fanIn(in) }

// kerasInit is the uniform initialization of Glorot and Bengio (2010) with biases
// of zero.
func kerasInit(in, out int) (weight, bias Initializer) {
	return Uniform(math.Sqrt(6 / float64(in+out))), Constant(0)
}

// fill draws a parameter's initial value. Each name has its own random stream, so
// a new layer does not change the values of the others.
func (i Initializer) fill(into []float32, seed uint64, name string) {
	h := fnv.New64a()
	h.Write([]byte(name))
	r := rand.New(rand.NewPCG(seed, h.Sum64()))
	for k := range into {
		into[k] = float32(i(r))
	}
}
