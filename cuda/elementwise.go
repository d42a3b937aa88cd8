//go:build gpu

package cuda

import (
	"github.com/dptrain/dptrain/internal/op"
)

// lowerElementwiseOp queues operations that compute each element separately.
func lowerElementwiseOp(c *compiler, spec op.Spec, k call) bool {
	switch s := spec.(type) {
	case op.Add:
		return lowerBinary(c, op.Binary{Kind: "+"}, k)
	case op.Binary:
		return lowerBinary(c, s, k)
	case op.Unary:
		return lowerUnary(c, s, k)
	case op.Activate:
		c.launch("activation", blocks(k.results()), threads, k.out, k.in[0], int32(k.results()), int32(s.Act))
	case op.ActivationGrad:
		c.launch("activation_gradient", blocks(k.results()), threads, k.out, k.in[0], k.in[1], int32(k.results()), int32(s.Act))
	case op.Dropout:
		lowerDropout(c, s, k)
	case op.Spread:
		c.launch("spread", blocks(k.results()), threads, k.out, k.in[0], int32(k.results()), float32(s.Scale))
	case op.Replace:
		c.launch("replace", blocks(k.results()), threads, k.out, k.in[0], int32(k.results()), float32(s.Old), float32(s.New))
	default:
		return false
	}
	return true
}

// lowerBinary applies an operator to two tensors of the same shape, or to a tensor and a
// scalar. The result may overwrite an operand.
func lowerBinary(c *compiler, s op.Binary, k call) bool {
	code, ok := binaryCodes[s.Kind]
	if !ok {
		return false
	}
	n := k.results()
	stride := func(i int) int32 {
		if k.size(i) < n {
			return 0
		}
		return 1
	}
	c.launch("binary", blocks(n), threads, k.out, k.in[0], k.in[1], int32(n), stride(0), stride(1), code)
	return true
}

func lowerUnary(c *compiler, s op.Unary, k call) bool {
	code, ok := unaryCodes[s.Kind]
	if ok {
		c.launch("unary", blocks(k.results()), threads, k.out, k.in[0], int32(k.results()), code)
	}
	return ok
}

// binaryCodes and unaryCodes are the numbers of kernels/elementwise.cu.
var binaryCodes = map[string]int32{
	"+": 0, "-": 1, "*": 2, "/": 3, "^": 4, "<": 5, ">": 6, "<=": 7, ">=": 8, "==": 9, "!=": 10,
}

var unaryCodes = map[string]int32{
	"abs": 0, "sign": 1, "ceil": 2, "floor": 3, "sin": 4, "cos": 5, "exp": 6, "ln": 7, "neg": 8, "square": 9,
	"sqrt": 10, "inv": 11, "cube": 12, "tanh": 13, "sigmoid": 14, "log1p": 15, "expm1": 16, "softplus": 17,
}

// lowerDropout uses one thread per counter of the generator, which gives four elements.
func lowerDropout(c *compiler, s op.Dropout, k call) {
	examples := k.shape[0]
	n := k.results() / examples
	counters := ceil(n, 4)
	k0, k1 := s.Key()
	c.launch("dropout", blocks(examples*counters), threads, k.out, k.in[0], k.in[1],
		int32(examples*counters), newDivider(counters), int32(n), k0, k1, s.Threshold(), float32(s.Scale()))
}
