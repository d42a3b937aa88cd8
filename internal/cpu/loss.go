package cpu

import (
	"math"

	"github.com/dptrain/dptrain/internal/op"
)

// perRow makes a step that adds f of each element of two tensors up over the
// rows of axis 0.
func (c compiler) perRow(k call, cost int, f func(x, y float64) float64) func() {
	out, x, y := k.out, k.in[0], k.in[1]
	n := len(x) / len(out)
	return c.over(len(out), cost*n, func(from, to int, _ *worker) {
		for r := from; r < to; r++ {
			var s float64
			for i := r * n; i < (r+1)*n; i++ {
				s += f(float64(x[i]), float64(y[i]))
			}
			out[r] = float32(s)
		}
	})
}

// perRowGrad makes a step that multiplies f of each element of two tensors by
// the number of its row.
func (c compiler) perRowGrad(k call, cost int, f func(x, y float64) float64) func() {
	out, x, y, d := k.out, k.in[0], k.in[1], k.in[2]
	n := len(out) / len(d)
	return c.over(len(d), cost*n, func(from, to int, _ *worker) {
		for r := from; r < to; r++ {
			g := float64(d[r])
			for i := r * n; i < (r+1)*n; i++ {
				out[i] = float32(g * f(float64(x[i]), float64(y[i])))
			}
		}
	})
}

func (c compiler) loss(spec op.Spec, k call) func() {
	switch s := spec.(type) {
	case op.CrossEntropy:
		return c.crossEntropy(s, k)
	case op.CrossEntropyGrad:
		return c.crossEntropyGrad(s, k)
	case op.ElementLosses:
		return c.perRow(k, 16, func(x, target float64) float64 {
			loss, _ := s.Kind.At(x, target, s.Width)
			return loss
		})
	case op.ElementLossesGrad:
		return c.perRowGrad(k, 16, func(x, target float64) float64 {
			_, slope := s.Kind.At(x, target, s.Width)
			return slope
		})
	case op.Replace:
		return c.replace(s, k)
	case op.SigmoidCrossEntropy:
		return c.perRow(k, 32, func(x, target float64) float64 {
			return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) - x*target
		})
	case op.SigmoidCrossEntropyGrad:
		return c.perRowGrad(k, 16, func(x, target float64) float64 { return 1/(1+math.Exp(-x)) - target })
	case op.SquaredError:
		return c.perRow(k, 2, func(x, target float64) float64 { return (x - target) * (x - target) })
	case op.SquaredErrorGrad:
		return c.perRowGrad(k, 2, func(x, target float64) float64 { return 2 * (x - target) })
	}
	return nil
}

func (c compiler) replace(s op.Replace, k call) func() {
	out, x, from, to := k.out, k.in[0], float32(s.Old), float32(s.New)
	return c.over(len(out), 2, func(lo, hi int, _ *worker) {
		for i, v := range x[lo:hi] {
			if v == from {
				v = to
			}
			out[lo+i] = v
		}
	})
}
