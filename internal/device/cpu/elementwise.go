package cpu

import (
	"math"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/simd"
)

// lowerElementwiseOp makes the step of operations that compute each element by itself, and the sum of all.
func lowerElementwiseOp(l *lowering, spec op.Operation, k call) func() {
	switch s := spec.(type) {
	case op.Activate:
		return lowerActivation(l, s.Act, k.out, k.in[0])
	case op.ActivationGrad:
		return lowerActivationGrad(l, s.Act, k)
	case op.Dropout:
		return lowerDropout(l, s, k)
	case op.Total:
		return lowerTotal(s, k)
	case op.Spread:
		return lowerSpread(l, s, k)
	case op.Add:
		return lowerBinary(l, op.Binary{Kind: "+"}, k)
	case op.Binary:
		return lowerBinary(l, s, k)
	case op.Unary:
		return lowerUnary(l, s, k)
	}
	return nil
}

// lowerBinary applies an operator to two tensors of one shape, or to a tensor and a
// scalar. The result may share the memory of an operand.
func lowerBinary(l *lowering, s op.Binary, k call) func() {
	f, ok := operators[s.Kind]
	if !ok {
		return nil
	}
	out, x, y := k.out, k.in[0], k.in[1]
	n := len(out)
	scalarX, scalarY := len(x) < n, len(y) < n
	if scalarX || scalarY {
		l.pool.reserve(longestRange(n, f.cost), 0)
	}
	return l.pool.forRanges(n, f.cost, func(from, to int, w *worker) {
		switch {
		case scalarX:
			f.apply(out[from:to], filled(w, to-from, x[0]), y[from:to])
		case scalarY:
			f.apply(out[from:to], x[from:to], filled(w, to-from, y[0]))
		default:
			f.apply(out[from:to], x[from:to], y[from:to])
		}
	})
}

// filled returns n copies of a number in the worker's scratch memory.
func filled(w *worker, n int, v float32) []float32 {
	x := w.floats(n)
	for i := range x {
		x[i] = v
	}
	return x
}

// operator is the kernel of a binary operator and its cost per element.
type operator struct {
	apply func(out, x, y []float32)
	cost  int
}

var operators = map[string]operator{
	"+": {simd.Add, 1},
	"-": {differences, 1},
	"*": {simd.Mul, 1},
	"/": {quotients, 4},
	"^": {func(out, x, y []float32) {
		for i, v := range x {
			out[i] = float32(math.Pow(float64(v), float64(y[i])))
		}
	}, 32},
	"<":  comparison(func(x, y float32) bool { return x < y }),
	">":  comparison(func(x, y float32) bool { return x > y }),
	"<=": comparison(func(x, y float32) bool { return x <= y }),
	">=": comparison(func(x, y float32) bool { return x >= y }),
	"==": comparison(func(x, y float32) bool { return x == y }),
	"!=": comparison(func(x, y float32) bool { return x != y }),
}

func differences(out, x, y []float32) {
	x, y = x[:len(out)], y[:len(out)]
	for i := range out {
		out[i] = x[i] - y[i]
	}
}

func quotients(out, x, y []float32) {
	x, y = x[:len(out)], y[:len(out)]
	for i := range out {
		out[i] = x[i] / y[i]
	}
}

// comparison is an operator that gives 1 where a predicate is true and 0 elsewhere.
func comparison(predicate func(x, y float32) bool) operator {
	return operator{func(out, x, y []float32) {
		for i, v := range x {
			if predicate(v, y[i]) {
				out[i] = 1
			} else {
				out[i] = 0
			}
		}
	}, 2}
}

func lowerUnary(l *lowering, s op.Unary, k call) func() {
	f, cost := unaryFunction(s.Kind)
	if f == nil {
		return nil
	}
	out, x := k.out, k.in[0]
	return l.pool.forRanges(len(out), cost, func(from, to int, _ *worker) { f(out[from:to], x[from:to]) })
}

// unaryFunction returns the kernel for one of Gorgonia's functions, and its cost per
// element.
func unaryFunction(kind string) (f func(out, x []float32), cost int) {
	switch kind {
	case "neg":
		return func(out, x []float32) {
			for i, v := range x {
				out[i] = -v
			}
		}, 1
	case "square":
		return func(out, x []float32) { simd.Mul(out, x, x) }, 1
	case "cube":
		return func(out, x []float32) {
			for i, v := range x {
				out[i] = v * v * v
			}
		}, 1
	case "exp":
		return simd.Exp, 4
	case "inv":
		return func(out, x []float32) {
			for i, v := range x {
				out[i] = 1 / v
			}
		}, 4
	case "sqrt":
		return func(out, x []float32) {
			for i, v := range x {
				out[i] = float32(math.Sqrt(float64(v)))
			}
		}, 4
	case "tanh":
		return activations[op.Tanh].apply, activations[op.Tanh].cost
	case "sigmoid":
		return activations[op.Sigmoid].apply, activations[op.Sigmoid].cost
	}
	g := op.UnaryFunc(kind)
	if g == nil {
		return nil, 0
	}
	return func(out, x []float32) {
		for i, v := range x {
			out[i] = float32(g(float64(v)))
		}
	}, 16
}

// lowerSpread fills a tensor with a multiple of a scalar.
func lowerSpread(l *lowering, s op.Spread, k call) func() {
	out, x, scale := k.out, k.in[0], float32(s.Scale)
	return l.pool.forRanges(len(out), 1, func(from, to int, _ *worker) {
		v := scale * x[0]
		for i := range out[from:to] {
			out[from+i] = v
		}
	})
}

// lowerTotal computes a multiple of the sum of all elements, on one thread.
func lowerTotal(s op.Total, k call) func() {
	out, x := k.out, k.in[0]
	return func() { out[0] = float32(s.Scale * simd.Sum(x)) }
}

// lowerDropout draws the masks of four elements at a time from the generator. It selects
// elements by arithmetic: branches on random words would be mispredicted.
func lowerDropout(l *lowering, s op.Dropout, k call) func() {
	out, in, seeds := k.out, k.in[0], k.in[1]
	examples := k.shape[0]
	n := len(out) / examples
	key0, key1 := s.Key()
	threshold, scale := int64(s.Threshold()), float32(s.Scale())
	keep := func(word uint32, x float32) float32 {
		mask := ^uint32((int64(word) - threshold) >> 63)
		return math.Float32frombits(math.Float32bits(x*scale) & mask)
	}
	const cost = 12
	blocks := (n + 3) / 4
	return l.pool.forRanges(examples*blocks, 4*cost, func(from, to int, _ *worker) {
		for from < to {
			e, first := from/blocks, from%blocks
			last := min(blocks, first+to-from)
			from += last - first
			x, y := in[e*n:(e+1)*n], out[e*n:(e+1)*n]
			c1, c2, c3, ok := op.MaskCounter(seeds[e*op.MaskSeedWidth:][:op.MaskSeedWidth])
			if !ok {
				for i := 4 * first; i < min(4*last, n); i++ {
					y[i] = float32(math.NaN())
				}
				continue
			}
			for b := first; b < last; b++ {
				w0, w1, w2, w3 := op.Philox(uint32(b), c1, c2, c3, key0, key1)
				if i := 4 * b; i+4 <= n {
					u, v := x[i:i+4:i+4], y[i:i+4:i+4]
					v[0], v[1], v[2], v[3] = keep(w0, u[0]), keep(w1, u[1]), keep(w2, u[2]), keep(w3, u[3])
					continue
				}
				words := [4]uint32{w0, w1, w2, w3}
				for i := 4 * b; i < n; i++ {
					y[i] = keep(words[i%4], x[i])
				}
			}
		}
	})
}
