package cpu

import (
	"math"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/simd"
)

// activations are the kernels of each activation and of its gradient, with their cost per
// element. slope multiplies d by the activation's slope; v is the activation's input or
// output, whichever package op passes to the gradient.
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

// lowerActivation applies an activation; in and out may be the same memory.
func lowerActivation(l *lowering, a op.Activation, out, in []float32) func() {
	f := activations[a].apply
	return l.pool.forRanges(len(out), activations[a].cost, func(from, to int, _ *worker) { f(out[from:to], in[from:to]) })
}

// lowerActivationGrad multiplies a gradient by the activation's slope.
func lowerActivationGrad(l *lowering, a op.Activation, k call) func() {
	f := activations[a].slope
	out, v, d := k.out, k.in[0], k.in[1]
	return l.pool.forRanges(len(out), activations[a].slopeCost, func(from, to int, _ *worker) { f(out[from:to], d[from:to], v[from:to]) })
}

// Package simd has no kernels for the activations below. The out of silu, siluGrad and
// softplusGrad must not overlap their inputs.

func leakyReLU(out, x []float32) {
	out = out[:len(x)]
	for i, v := range x {
		if v < 0 {
			v *= 0.01
		}
		out[i] = v
	}
}

func leakyReLUGrad(out, d, y []float32) {
	out, d = out[:len(y)], d[:len(y)]
	for i, v := range y {
		g := d[i]
		if v <= 0 {
			g *= 0.01
		}
		out[i] = g
	}
}

func elu(out, x []float32) {
	out = out[:len(x)]
	for i, v := range x {
		if v < 0 {
			v = float32(math.Expm1(float64(v)))
		}
		out[i] = v
	}
}

func eluGrad(out, d, y []float32) {
	out, d = out[:len(y)], d[:len(y)]
	for i, v := range y {
		g := d[i]
		if v <= 0 {
			g *= v + 1
		}
		out[i] = g
	}
}

func silu(out, x []float32) {
	simd.Sigmoid(out, x)
	simd.Mul(out, out, x)
}

func siluGrad(out, d, x []float32) {
	simd.Sigmoid(out, x)
	d, x = d[:len(out)], x[:len(out)]
	for i, s := range out {
		out[i] = d[i] * s * (1 + x[i]*(1-s))
	}
}

func softplus(out, x []float32) {
	out = out[:len(x)]
	for i, v := range x {
		w := float64(v)
		out[i] = float32(math.Max(w, 0) + math.Log1p(math.Exp(-math.Abs(w))))
	}
}

// softplusGrad is d·(1 − e⁻ʸ).
func softplusGrad(out, d, y []float32) {
	simd.Scale(out, y, -1)
	simd.Exp(out, out)
	d = d[:len(out)]
	for i, e := range out {
		out[i] = d[i] * (1 - e)
	}
}
