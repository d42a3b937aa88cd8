package op

import (
	"fmt"
	"math"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Activation is a function applied to every element.
type Activation uint8

const (
	Identity Activation = iota
	ReLU
	Tanh
	Sigmoid
	GELU      // the exact form, x·Φ(x)
	LeakyReLU // x, or x/100 below zero
	ELU       // x, or eˣ − 1 below zero
	SiLU      // x·σ(x)
	Softplus  // log(1 + eˣ)
)

func (a Activation) String() string {
	return [...]string{"identity", "relu", "tanh", "sigmoid", "gelu", "leakyRelu", "elu", "silu", "softplus"}[a]
}

// FromOutput reports whether the derivative is a function of the output alone, so that
// the input is not needed.
func (a Activation) FromOutput() bool { return a != GELU && a != SiLU }

func (a Activation) apply(x float64) float64 {
	switch a {
	case ReLU:
		if x > 0 || math.IsNaN(x) {
			return x
		}
		return 0
	case Tanh:
		return math.Tanh(x)
	case Sigmoid:
		return 1 / (1 + math.Exp(-x))
	case GELU:
		return 0.5 * x * math.Erfc(-x/math.Sqrt2)
	case LeakyReLU:
		if x < 0 {
			return x / 100
		}
	case ELU:
		if x < 0 {
			return math.Expm1(x)
		}
	case SiLU:
		return x / (1 + math.Exp(-x))
	case Softplus:
		return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x)))
	}
	return x
}

// slope is the derivative. The argument v is the output if FromOutput holds, else the
// input.
func (a Activation) slope(v float64) float64 {
	switch a {
	case ReLU:
		if v > 0 || math.IsNaN(v) {
			return 1
		}
		return 0
	case Tanh:
		return 1 - v*v
	case Sigmoid:
		return v * (1 - v)
	case GELU:
		return 0.5*math.Erfc(-v/math.Sqrt2) + v*math.Exp(-v*v/2)/math.Sqrt(2*math.Pi)
	case LeakyReLU:
		if v <= 0 {
			return 0.01
		}
	case ELU:
		if v <= 0 {
			return v + 1
		}
	case SiLU:
		s := 1 / (1 + math.Exp(-v))
		return s * (1 + v*(1-s))
	case Softplus:
		return -math.Expm1(-v)
	}
	return 1
}

// preActivationGrad is the gradient before an activation that is fused into another
// operation.
func (a Activation) preActivationGrad(out, grad *G.Node) (*G.Node, error) {
	if a == Identity {
		return grad, nil
	}
	return Apply(ActivationGrad{a}, out, grad)
}

// Activate applies an Activation to every element.
type Activate struct{ Act Activation }

func (a Activate) String() string { return fmt.Sprintf("activate{%v}", a.Act) }

func (a Activate) Shape(in []tensor.Shape) (tensor.Shape, error) { return commonShape(in, 1) }

func (a Activate) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	for i, x := range in[0] {
		out[i] = a.Act.apply(x)
	}
}

func (a Activate) Rows(int) []bool { return allTrue(1) }
func (a Activate) Wrt(int) []bool  { return allTrue(1) }

func (a Activate) Diff(in G.Nodes, out, grad *G.Node) (G.Nodes, error) {
	at := in[0]
	if a.Act.FromOutput() {
		at = out
	}
	d, err := Apply(ActivationGrad(a), at, grad)
	return G.Nodes{d}, err
}

// ActivationGrad multiplies a gradient by the activation's slope. The slope is taken at
// the output if Act.FromOutput holds, else at the input.
type ActivationGrad struct{ Act Activation }

func (a ActivationGrad) String() string { return fmt.Sprintf("activationGrad{%v}", a.Act) }

func (a ActivationGrad) Shape(in []tensor.Shape) (tensor.Shape, error) { return commonShape(in, 2) }

func (a ActivationGrad) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	for i, v := range in[0] {
		out[i] = in[1][i] * a.Act.slope(v)
	}
}
