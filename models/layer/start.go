package layer

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
)

// Start draws one starting value of a parameter.
type Start func(*rand.Rand) float64

// Constant is the same value everywhere.
func Constant(v float64) Start { return func(*rand.Rand) float64 { return v } }

// Uniform is spread evenly from −bound to bound.
func Uniform(bound float64) Start {
	return func(r *rand.Rand) float64 { return bound * (2*r.Float64() - 1) }
}

// Normal is Gaussian around zero.
func Normal(deviation float64) Start {
	return func(r *rand.Rand) float64 { return deviation * r.NormFloat64() }
}

// fanIn is PyTorch's default for dense and convolution layers, weights and biases
// alike: uniform within one over the square root of the inputs of an output.
func fanIn(inputs int) Start { return Uniform(1 / math.Sqrt(float64(inputs))) }

// starts gives the starts of a layer's weight and bias from the number of inputs
// of an output, and of outputs of an input.
type starts func(in, out int) (weight, bias Start)

func pyTorch(in, _ int) (weight, bias Start) { return fanIn(in), fanIn(in) }

// keras is Glorot and Bengio's (2010) uniform start with biases of zero.
func keras(in, out int) (weight, bias Start) {
	return Uniform(math.Sqrt(6 / float64(in+out))), Constant(0)
}

// LikeKeras has the dense and convolution layers that follow start as those of
// Keras do, for runs that are to repeat its: weights uniform within
// √(6/(inputs+outputs)) and biases of zero. Otherwise they start as PyTorch's.
func (n *Net) LikeKeras() { n.starts = keras }

// draw fills in a parameter's starting values, from a stream of its own, so that
// adding a layer does not change the others.
func (s Start) draw(into []float32, seed uint64, name string) {
	h := fnv.New64a()
	h.Write([]byte(name))
	r := rand.New(rand.NewPCG(seed, h.Sum64()))
	for i := range into {
		into[i] = float32(s(r))
	}
}
