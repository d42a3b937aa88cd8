package cpu

import (
	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/simd"
)

// activations are the kernels of each activation and of its gradient, and what they cost
// an element. slope multiplies d by the slope at v.
var activations = [...]struct {
	apply     func(out, in []float32)
	cost      int
	slope     func(out, d, v []float32)
	slopeCost int
}{
	op.Identity:  {func(out, in []float32) { copy(out, in) }, 1, func(out, d, _ []float32) { copy(out, d) }, 1},
	op.ReLU:      {simd.ReLU, 1, simd.ReLUGrad, 1},
	op.Tanh:      {simd.Tanh, 4, simd.TanhGrad, 1},
	op.Sigmoid:   {simd.Sigmoid, 4, simd.SigmoidGrad, 1},
	op.GELU:      {simd.GELU, 8, simd.GELUGrad, 12},
	op.LeakyReLU: {leakyReLU, 1, leakyReLUGrad, 1},
	op.ELU:       {elu, 16, eluGrad, 2},
	op.SiLU:      {silu, 6, siluGrad, 8},
	op.Softplus:  {softplus, 32, softplusGrad, 6},
}

// activated makes a step that applies an activation; in and out may be the same.
func (c compiler) activated(a op.Activation, out, in []float32) func() {
	f := activations[a].apply
	return c.over(len(out), activations[a].cost, func(from, to int, _ *worker) { f(out[from:to], in[from:to]) })
}

// activationGrad makes a step that multiplies a gradient by the slope at v.
func (c compiler) activationGrad(a op.Activation, k call) func() {
	f := activations[a].slope
	out, v, d := k.out, k.in[0], k.in[1]
	return c.over(len(out), activations[a].slopeCost, func(from, to int, _ *worker) { f(out[from:to], d[from:to], v[from:to]) })
}
