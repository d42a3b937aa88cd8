package perexample_test

import (
	"github.com/dptrain/dptrain/internal/device/op"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// designs are the networks that are compared with the oracle. Together they have every
// kind of use and every way to view a parameter.
var designs = []design{
	{name: "logistic", make: func(m *maker) *G.Node {
		x, y := m.input("x", 5), m.input("y", 3)
		return crossEntropy(bias(must(G.Mul(x, m.param("W", 5, 3))), m.param("b", 1, 3)), y)
	}},
	{name: "logistic with a weight vector", make: func(m *maker) *G.Node {
		x, y := m.input("x", 5), m.input("y")
		p := must(G.Sigmoid(must(G.Add(must(G.Mul(x, m.param("w", 5))), m.param("b")))))
		return squares(must(G.Sub(p, y)))
	}},
	{name: "MLP", make: func(m *maker) *G.Node {
		x, y := m.input("x", 6), m.input("y", 3)
		h := must(G.Rectify(bias(must(G.Mul(x, m.param("W1", 6, 5))), m.param("b1", 1, 5))))
		h = must(G.Tanh(bias(must(G.Mul(h, m.param("W2", 5, 4))), m.param("b2", 1, 4))))
		h = must(G.LeakyRelu(h, 0.1))
		return crossEntropy(bias(must(G.Mul(h, m.param("W3", 4, 3))), m.param("b3", 1, 3)), y)
	}},
	{name: "MLP of own operations", whole: map[int]int{1: 4}, make: func(m *maker) *G.Node {
		x, y := m.input("x", 6), m.input("y")
		h := apply(op.Linear{Act: op.ReLU}, x, m.param("W1", 6, 5), m.param("b1", 5))
		h = apply(op.ScaleShift{Channels: 5, Inner: 1}, apply(op.Normalize{Chunk: 5, Eps: 1e-3, Center: true}, h), m.param("gamma", 5), m.param("beta", 5))
		h = apply(op.Activate{Act: op.GELU}, h)
		h = apply(op.Linear{}, h, m.param("W2", 5, 4), m.param("b2", 4))
		m.net.Output = h
		m.net.Losses = apply(op.CrossEntropy{}, h, y)
		return apply(op.Total{Scale: 1}, m.net.Losses)
	}},
	{name: "convolution and max pooling", make: func(m *maker) *G.Node {
		x, y := m.input("x", 2, 6, 6), m.input("y", 3)
		h := must(G.Conv2d(x, m.param("K1", 3, 2, 3, 3), tensor.Shape{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1}))
		h = must(G.BroadcastAdd(h, m.param("c1", 1, 3, 1, 1), nil, []byte{0, 2, 3}))
		h = must(G.MaxPool2D(must(G.Rectify(h)), tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2}))
		h = must(G.Conv2d(h, m.param("K2", 4, 3, 2, 2), tensor.Shape{2, 2}, []int{0, 0}, []int{1, 1}, []int{1, 1}))
		h = must(G.Tanh(h))
		h = m.reshape(h, m.batch, 4*2*2)
		return crossEntropy(must(G.Mul(h, m.param("W", 16, 3))), y)
	}},
	{name: "own convolution, pooling and group norm", whole: map[int]int{1: 3}, make: func(m *maker) *G.Node {
		x, y := m.input("x", 2, 6, 6), m.input("y")
		same := op.Window{KernelH: 3, KernelW: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, DilationH: 1, DilationW: 1}
		half := op.Window{KernelH: 2, KernelW: 2, StrideH: 2, StrideW: 2, DilationH: 1, DilationW: 1}
		h := apply(op.Conv2D{Window: same, Groups: 1, Act: op.ReLU}, x, m.param("K1", 4, 2, 3, 3), m.param("b1", 4))
		h = apply(op.MaxPool2D{Window: half}, h)
		h = apply(op.Normalize{Chunk: 2 * 9, Eps: 1e-3, Center: true}, h)
		h = apply(op.ScaleShift{Channels: 4, Inner: 9}, h, m.param("gamma", 4), m.param("beta", 4))
		skip := h
		h = apply(op.Conv2D{Window: same, Groups: 2, Act: op.Tanh}, h, m.param("K2", 4, 2, 3, 3), m.param("b2", 4))
		h = apply(op.Add{}, skip, h)
		h = apply(op.AvgPool2D{Window: op.Window{KernelH: 3, KernelW: 3, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1}}, h)
		h = apply(op.Linear{}, m.reshape(h, m.batch, 4), m.param("W", 4, 3), m.param("b", 3))
		return apply(op.Total{Scale: 0.5}, apply(op.CrossEntropy{}, h, y))
	}},
	{name: "residual network with shared weights", make: func(m *maker) *G.Node {
		x := m.input("x", 4)
		w, b := m.param("W", 4, 4), m.param("b", 1, 4)
		for range 3 {
			x = must(G.Add(x, must(G.Tanh(bias(must(G.Mul(x, w)), b)))))
		}
		return squares(x)
	}},
	{name: "recurrent network", make: func(m *maker) *G.Node {
		const steps, in, hidden = 5, 3, 4
		x := m.input("x", steps, in)
		w, u, b := m.param("W", in, hidden), m.param("U", hidden, hidden), m.param("b", 1, hidden)
		h := m.filled("h0", 0, m.batch, hidden)
		for t := range steps {
			xt := must(G.Slice(x, nil, G.S(t)))
			h = must(G.Tanh(bias(must(G.Add(must(G.Mul(xt, w)), must(G.Mul(h, u)))), b)))
		}
		return squares(must(G.Mul(h, m.param("V", hidden, 2))))
	}},
	{name: "two gates sliced from one matrix", make: func(m *maker) *G.Node {
		x := m.input("x", 3)
		w, b := m.param("W", 3, 8), m.param("b", 1, 8)
		gate := func(from, to int) *G.Node {
			return bias(must(G.Mul(x, must(G.Slice(w, nil, G.S(from, to))))), must(G.Slice(b, nil, G.S(from, to))))
		}
		return squares(must(G.HadamardProd(must(G.Sigmoid(gate(0, 4))), must(G.Tanh(gate(4, 8))))))
	}},
	{name: "overlapping slices", make: func(m *maker) *G.Node {
		x, w := m.input("x", 3), m.param("W", 3, 6)
		a := must(G.Mul(x, must(G.Slice(w, nil, G.S(0, 4)))))
		b := must(G.Mul(x, must(G.Slice(w, nil, G.S(2, 6)))))
		return squares(must(G.HadamardProd(a, b)))
	}},
	{name: "product and transposed product", make: func(m *maker) *G.Node {
		x, w := m.input("x", 4), m.param("W", 4, 3)
		h := must(G.Tanh(must(G.Mul(x, w))))
		return squares(must(G.Mul(h, must(G.Transpose(w, 1, 0)))))
	}},
	{name: "lookup and product with one table", whole: map[int]int{0: 7}, make: func(m *maker) *G.Node {
		tokens := m.input("tokens", 4)
		table := m.param("E", 7, 3)
		x := m.reshape(apply(op.Embed{}, table, tokens), m.batch*4, 3)
		scores := apply(op.MatMul{TransB: true}, must(G.Tanh(x)), table)
		return squares(scores)
	}},
	{name: "a weight used as matrix and as shift", make: func(m *maker) *G.Node {
		x, w := m.input("x", 4), m.param("W", 4, 1)
		h := must(G.Add(x, must(G.HadamardProd(x, x))))
		h = bias(h, m.reshape(w, 1, 4))
		return squares(must(G.Mul(h, w)))
	}},
	{name: "scale and shift by broadcast", make: func(m *maker) *G.Node {
		x := m.input("x", 2, 3)
		h := must(G.BroadcastHadamardProd(x, m.param("gamma", 1, 2, 1), nil, []byte{0, 2}))
		h = must(G.BroadcastAdd(h, m.param("beta", 1, 1, 3), nil, []byte{0, 1}))
		h = must(G.BroadcastSub(m.param("delta", 1, 2, 3), h, []byte{0}, nil))
		h = must(G.HadamardProd(h, m.param("s")))
		return squares(must(G.Sub(h, m.param("t"))))
	}},
	{name: "a scale and a shift used twice", make: func(m *maker) *G.Node {
		x, gamma, beta := m.input("x", 4), m.param("gamma", 1, 4), m.param("beta", 1, 4)
		for range 2 {
			x = must(G.Tanh(bias(must(G.BroadcastHadamardProd(x, gamma, nil, []byte{0})), beta)))
		}
		return squares(x)
	}},
	{name: "a weight and its shift in one parameter", make: func(m *maker) *G.Node {
		x, w := m.input("x", 3), m.param("W", 4, 5)
		part := func(from, to int) *G.Node { return must(G.Slice(w, G.S(from, to))) }
		return squares(must(G.Tanh(bias(must(G.Mul(x, part(0, 3))), m.reshape(part(3, 4), 1, 5)))))
	}},
	{name: "reshaped, transposed and joined", make: func(m *maker) *G.Node {
		x := m.input("x", 6)
		a := must(G.Transpose(m.reshape(m.param("A", 12), 2, 6), 1, 0))
		b := m.param("B", 6, 3)
		return squares(must(G.Tanh(must(G.Mul(x, must(G.Concat(1, a, b)))))))
	}},
	{name: "two inputs", make: func(m *maker) *G.Node {
		x, y := m.input("x", 3), m.input("y", 2)
		h := must(G.Concat(1, must(G.Mul(x, m.param("A", 3, 4))), must(G.Mul(y, m.param("B", 2, 4)))))
		return squares(must(G.Mul(must(G.Tanh(h)), m.param("C", 8, 2))))
	}},
	{name: "frozen weights", make: func(m *maker) *G.Node {
		x := m.input("x", 3)
		h := must(G.Tanh(bias(must(G.Mul(x, m.frozen("A", 3, 4))), m.frozen("a", 1, 4))))
		return squares(bias(must(G.Mul(h, m.param("B", 4, 2))), m.param("b", 1, 2)))
	}},
	{name: "weight on the left", make: func(m *maker) *G.Node {
		x := m.input("x", 3)
		columns := must(G.Transpose(x, 1, 0))
		h := must(G.Tanh(must(G.Mul(m.param("W", 4, 3), columns))))
		h = must(G.BroadcastAdd(h, m.param("b", 4, 1), nil, []byte{1}))
		return squares(must(G.Mul(m.param("V", 2, 4), h)))
	}},
	{name: "time before batch", make: func(m *maker) *G.Node {
		const steps = 3
		x := must(G.Transpose(m.input("x", steps, 4), 1, 0, 2))
		h := must(G.Mul(m.reshape(x, steps*m.batch, 4), m.param("W", 4, 5)))
		h = must(G.Tanh(bias(h, m.param("b", 1, 5))))
		h = must(G.Transpose(m.reshape(h, steps, m.batch, 5), 1, 0, 2))
		return squares(must(G.Sum(h, 1)))
	}},
	{name: "masked away", make: func(m *maker) *G.Node {
		x := m.input("x", 3)
		dead := must(G.HadamardProd(must(G.Mul(x, m.param("dead", 3, 2))), m.filled("zeros", 0, m.batch, 2)))
		return squares(must(G.Add(must(G.Mul(x, m.param("W", 3, 2))), dead)))
	}},
	{name: "means over features", make: func(m *maker) *G.Node {
		x := m.input("x", 4)
		h := must(G.Mul(x, m.param("W", 4, 6)))
		mean := must(G.Mean(h, 1))
		h = must(G.BroadcastSub(h, m.reshape(mean, m.batch, 1), nil, []byte{1}))
		return must(G.Neg(must(G.HadamardDiv(squares(h), number(4)))))
	}},
	{name: "loss by inner product", make: func(m *maker) *G.Node {
		x := m.input("x", 4)
		h := must(G.Mul(x, m.param("w", 4)))
		return must(G.Add(must(G.Mul(h, h)), must(G.Sum(h))))
	}},
	{name: "multiples of the loss", make: func(m *maker) *G.Node {
		l := squares(must(G.Mul(m.input("x", 4), m.param("W", 4, 2))))
		l = must(G.Sub(number(2), must(G.HadamardProd(l, m.filled("shares", 0.3, 2, 3)))))
		return must(G.Sum(must(G.Sum(m.reshape(l, 3, 2), 0))))
	}},
	{name: "sigmoid losses", make: func(m *maker) *G.Node {
		x, y := m.input("x", 4), m.input("y", 2)
		h := apply(op.Linear{}, x, m.param("W", 4, 2), m.param("b", 2))
		a := apply(op.Total{Scale: 1}, apply(op.SigmoidCrossEntropy{}, h, y))
		return must(G.Add(a, apply(op.Total{Scale: 0.25}, apply(op.SquaredError{}, h, y))))
	}},
	{name: "many rows and a small weight", make: func(m *maker) *G.Node {
		x := m.input("x", 40, 2)
		h := must(G.Mul(m.reshape(x, m.batch*40, 2), m.param("W", 2, 3)))
		return squares(must(G.Tanh(h)))
	}},
	{name: "two rows", make: func(m *maker) *G.Node {
		h := must(G.Mul(m.reshape(m.input("x", 2, 4), m.batch*2, 4), m.param("W", 4, 5)))
		return squares(must(G.Tanh(h)))
	}},
	{name: "few rows and a large weight", make: func(m *maker) *G.Node {
		x := m.input("x", 3, 20)
		h := must(G.Mul(m.reshape(x, m.batch*3, 20), m.param("W", 20, 30)))
		return squares(must(G.Tanh(h)))
	}},
	{name: "attention", make: func(m *maker) *G.Node {
		const steps, d = 3, 4
		x := m.reshape(m.input("x", steps, d), m.batch*steps, d)
		head := func(name string) *G.Node {
			return m.reshape(must(G.Mul(x, m.param(name, d, d))), m.batch, steps, d)
		}
		q, k, v := head("Q"), head("K"), head("V")
		scores := must(G.BatchedMatMul(q, must(G.Transpose(k, 0, 2, 1))))
		weights := m.reshape(must(G.SoftMax(m.reshape(scores, m.batch*steps, steps), 1)), m.batch, steps, steps)
		return squares(must(G.BatchedMatMul(weights, v)))
	}},
	{name: "upsampling by Gorgonia", make: func(m *maker) *G.Node {
		x := m.input("x", 1, 3, 3)
		h := must(G.Conv2d(x, m.param("K", 4, 1, 2, 2), tensor.Shape{2, 2}, []int{0, 0}, []int{1, 1}, []int{1, 1}))
		h = must(G.Upsample2D(h, 2))
		return squares(must(G.Tanh(h)))
	}},
	{name: "lookups in one table", whole: map[int]int{0: 6, 1: 6}, make: func(m *maker) *G.Node {
		table := m.param("E", 6, 3)
		a, b := apply(op.Embed{}, table, m.input("a", 4)), apply(op.Embed{}, table, m.input("b", 4))
		return squares(must(G.HadamardProd(must(G.Tanh(a)), b)))
	}},
	{name: "products with either factor transposed", make: func(m *maker) *G.Node {
		x := m.input("x", 4)
		a := apply(op.MatMul{TransA: true}, must(G.Transpose(x, 1, 0)), m.param("A", 4, 3))
		b := apply(op.MatMul{TransA: true, TransB: true}, m.param("B", 3, 2), a)
		c := apply(op.MatMul{TransA: true, TransB: true}, b, m.param("C", 5, 2))
		return squares(apply(op.MatMul{TransB: true}, m.param("D", 2, 5), must(G.Tanh(c))))
	}},
	{name: "a turned factor of several rows an example", make: func(m *maker) *G.Node {
		columns := must(G.Transpose(m.reshape(m.input("x", 3, 4), m.batch*3, 4), 1, 0))
		h := apply(op.MatMul{TransA: true}, columns, m.param("W", 4, 2))
		return squares(apply(op.MatMul{TransA: true, TransB: true}, m.param("V", 2, 3), must(G.Tanh(h))))
	}},
	{name: "a vector on either side", make: func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 4), m.param("W", 4, 3)))
		a := must(G.Mul(h, m.param("a", 3)))
		b := must(G.Mul(m.param("b", 3), must(G.Transpose(h, 1, 0))))
		return squares(must(G.Add(a, must(G.Sigmoid(b)))))
	}},
	{name: "siblings joined along the batch", make: func(m *maker) *G.Node {
		both := must(G.Concat(0, m.input("x", 3), m.input("y", 3)))
		h := must(G.Tanh(bias(must(G.Mul(both, m.param("W", 3, 4))), m.param("b", 1, 4))))
		h = m.reshape(h, 2, m.batch, 4)
		return squares(must(G.HadamardProd(must(G.Slice(h, G.S(0))), must(G.Slice(h, G.S(1))))))
	}},
	{name: "time first, sliced and repeated", make: func(m *maker) *G.Node {
		x := must(G.Transpose(m.input("x", 4, 3), 1, 0, 2))
		x = must(G.Slice(x, G.S(1, 3)))
		x = must(G.BroadcastAdd(x, m.param("p", 2, 1, 1), nil, []byte{1, 2}))
		mean := m.reshape(must(G.Mean(x, 0)), 1, m.batch, 3)
		x = must(G.BroadcastSub(x, mean, nil, []byte{0}))
		x = must(G.BroadcastHadamardProd(x, m.param("s", 2, 1, 3), nil, []byte{1}))
		return squares(must(G.Tanh(x)))
	}},
	{name: "a large kernel on small pictures", make: func(m *maker) *G.Node {
		x := m.input("x", 16, 2, 2)
		w := op.Window{KernelH: 3, KernelW: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, DilationH: 1, DilationW: 1}
		k, b := m.param("K", 16, 16, 3, 3), m.param("b", 16)
		for range 2 {
			x = apply(op.Conv2D{Window: w, Groups: 1, Act: op.Tanh}, x, k, b)
		}
		return squares(x)
	}},
	{name: "a parameter between constants", make: func(m *maker) *G.Node {
		x := m.input("x", 4)
		w := must(G.Concat(0, m.filled("above", 0.5, 1, 3), m.param("W", 2, 3), m.filled("below", -0.5, 1, 3)))
		b := must(G.Concat(1, m.param("b", 1, 2), m.filled("last", 1, 1, 1)))
		return squares(must(G.Sigmoid(bias(must(G.Mul(x, w)), b))))
	}},
	{name: "a parameter repeated", make: func(m *maker) *G.Node {
		x := m.input("x", 2, 3)
		h := apply(op.Add{}, m.reshape(x, m.batch, 6), must(G.Concat(1, m.reshape(x, m.batch, 6))))
		b := must(G.BroadcastAdd(m.reshape(h, m.batch, 2, 3), m.reshape(m.param("b", 3), 1, 1, 3), nil, []byte{0, 1}))
		return squares(must(G.Tanh(bias(m.reshape(b, m.batch, 6), must(G.Concat(1, m.param("c", 1, 3), m.net.Params[1]))))))
	}},
	{name: "an answer that no gradient reaches", make: func(m *maker) *G.Node {
		x, w := m.input("x", 3), m.param("W", 3, 2)
		h := must(G.Mul(x, w))
		m.net.Output = must(G.Add(must(G.Mul(must(G.Tanh(x)), w)), must(G.Mul(x, must(G.Square(w))))))
		return must(G.Add(squares(h), must(G.Sum(must(G.HadamardProd(h, must(G.Gt(h, m.frozen("t"), true))))))))
	}},
	{name: "one element of a parameter", make: func(m *maker) *G.Node {
		x, p := m.input("x", 3), m.param("p", 4)
		h := must(G.HadamardProd(x, must(G.Slice(p, G.S(2)))))
		return squares(must(G.Tanh(must(G.Add(h, must(G.Slice(p, G.S(3))))))))
	}},
	{name: "a shift that begins again", make: func(m *maker) *G.Node {
		x, b := m.input("x", 5), m.param("b", 1, 3)
		h := bias(x, must(G.Concat(1, b, must(G.Slice(b, nil, G.S(0, 2))))))
		return squares(must(G.Tanh(bias(h, must(G.Slice(must(G.Concat(1, b, b)), nil, G.S(0, 5)))))))
	}},
	{name: "a shift that begins again and goes on", make: func(m *maker) *G.Node {
		x, b := m.input("x", 6), m.param("b", 1, 4)
		return squares(must(G.Tanh(bias(x, must(G.Concat(1, must(G.Slice(b, nil, G.S(0, 2))), b))))))
	}},
	{name: "a number repeated everywhere", make: func(m *maker) *G.Node {
		all, _, err := G.Broadcast(m.param("w", 1, 1), m.filled("places", 1, m.batch, 4), G.NewBroadcastPattern([]byte{0, 1}, nil))
		return squares(apply(op.Add{}, must(G.Tanh(m.input("x", 4))), must(all, err)))
	}},
	{name: "a column summed along the batch", make: func(m *maker) *G.Node {
		h := must(G.Tanh(must(G.Mul(m.input("x", 3), m.param("W", 3, 1)))))
		return m.scalar(must(G.Sum(h, 0)))
	}},
	{name: "a column summed along its rows", make: func(m *maker) *G.Node {
		return squares(must(G.Sum(must(G.Tanh(must(G.Mul(m.input("x", 3), m.param("W", 3, 1))))), 1)))
	}},
	{name: "dropout", make: func(m *maker) *G.Node {
		x := m.drop(m.input("x", 3, 4), 0.25, 1)
		h := m.reshape(must(G.Mul(m.reshape(x, m.batch*3, 4), m.param("W", 4, 5))), m.batch, 3, 5)
		h = m.drop(must(G.Tanh(h)), 0.5, 2)
		return squares(must(G.Mul(m.reshape(h, m.batch, 15), m.param("V", 15, 2))))
	}},
	{name: "an operation without a rule", loop: true, make: func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 4)))
		return squares(must(G.Mul(apply(double{}, h), m.param("V", 4, 2))))
	}},
	// An operation that is not known to keep examples apart is computed one record at a
	// time, which is correct.
	{name: "an own layer over siblings joined along the batch", loop: true, make: func(m *maker) *G.Node {
		both := must(G.Concat(0, m.input("x", 3), m.input("y", 3)))
		return squares(apply(op.Linear{Act: op.Tanh}, both, m.param("W", 3, 4), m.param("b", 4)))
	}},
	{name: "layers on each step alone, time first", loop: true, make: func(m *maker) *G.Node {
		x := apply(op.Normalize{Chunk: 6, Eps: 1e-3, Center: true}, must(G.Transpose(m.input("x", 5, 6), 1, 0, 2)))
		h := apply(op.Linear{Act: op.Tanh}, m.reshape(x, 5*m.batch, 6), m.param("W", 6, 4), m.param("b", 4))
		return squares(apply(op.Activate{Act: op.ReLU}, m.reshape(h, 5, m.batch, 4)))
	}},
	{name: "all pairs of examples", loop: true, make: func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 2)))
		a, b := m.reshape(must(G.Tanh(h)), m.batch, 1, 2), m.reshape(h, 1, m.batch, 2)
		return squares(must(G.BroadcastHadamardProd(a, b, []byte{1}, []byte{0})))
	}},
	{name: "a constant for every pair of examples", loop: true, make: func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 2)))
		return squares(must(G.Mul(m.filled("all", 1, m.batch, m.batch), h)))
	}},
	{name: "upsampling, time first", loop: true, make: func(m *maker) *G.Node {
		x := must(G.Transpose(m.input("x", 2, 2, 2), 1, 0, 2, 3))
		h := must(G.Upsample2D(must(G.HadamardProd(x, m.param("s"))), 2))
		return squares(must(G.BroadcastAdd(h, m.param("p", 2, 1, 1, 1), nil, []byte{1, 2, 3})))
	}},
	{name: "features chosen by the number of examples", loop: true, make: func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 4)))
		return squares(must(G.Slice(h, nil, G.S(m.batch%2, m.batch%2+2))))
	}},
	{name: "siblings joined along the batch, time first", loop: true, make: func(m *maker) *G.Node {
		x := must(G.Transpose(m.input("x", 2, 3), 1, 0, 2))
		x = must(G.BroadcastAdd(x, m.param("p", 2, 1, 1), nil, []byte{1, 2}))
		return squares(must(G.Tanh(must(G.Concat(1, x, must(G.Square(x)))))))
	}},
	{name: "rows repeated as often as there are examples", loop: true, make: func(m *maker) *G.Node {
		h := m.reshape(must(G.Mul(m.input("x", 3), m.param("W", 3, 2))), m.batch, 1, 2)
		h, _, err := G.Broadcast(h, m.filled("places", 1, 1, m.batch, 2), G.NewBroadcastPattern([]byte{1}, nil))
		return squares(must(h, err))
	}},
	{name: "parts that fall between examples for some sizes of the batch", loop: true, make: func(m *maker) *G.Node {
		x := must(G.Mul(m.input("x", 3), m.param("W", 3, 126)))
		return squares(must(G.Sum(m.reshape(x, 63, 2, m.batch), 1)))
	}},
	// These operations act on axes that contain several examples.
	{name: "parts of several examples repeated", loop: true, make: func(m *maker) *G.Node {
		h := m.reshape(must(G.Mul(m.input("x", 3), m.param("W", 3, 6))), 3, 1, 2*m.batch)
		h, _, err := G.Broadcast(h, m.filled("places", 1, 3, 2, 2*m.batch), G.NewBroadcastPattern([]byte{1}, nil))
		return squares(must(G.Mul(m.reshape(must(h, err), m.batch, 12), m.param("V", 12, 2))))
	}},
	{name: "a part of several examples cut out", loop: true, make: func(m *maker) *G.Node {
		h := m.reshape(must(G.Mul(m.input("x", 3), m.param("W", 3, 6))), 3, 2, m.batch)
		h = must(G.Slice(h, nil, G.S(0)))
		return squares(must(G.Mul(m.reshape(h, m.batch, 3), m.param("V", 3, 2))))
	}},
	{name: "parts of one and of several examples joined", loop: true, make: func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 2)))
		both := must(G.Concat(0, must(G.Transpose(h, 1, 0)), m.reshape(must(G.Tanh(h)), 2, m.batch)))
		return squares(must(G.Mul(must(G.Transpose(both, 1, 0)), m.param("V", 4, 2))))
	}},
	{name: "shares among several examples", loop: true, make: func(m *maker) *G.Node {
		h := m.reshape(must(G.Mul(m.input("x", 3), m.param("W", 3, 6))), 2, 3*m.batch)
		return squares(must(G.Mul(m.reshape(must(G.SoftMax(h, 1)), m.batch, 6), m.param("V", 6, 2))))
	}},
	{name: "products whose first factors are parts of several examples", loop: true, make: func(m *maker) *G.Node {
		h := must(G.Transpose(must(G.Mul(m.input("x", 3), m.param("W", 3, 4))), 1, 0))
		k := must(G.Mul(m.input("y", 3), m.param("V", 3, 6)))
		return squares(must(G.BatchedMatMul(m.reshape(h, m.batch, 2, 2), m.reshape(k, m.batch, 2, 3))))
	}},
	{name: "products whose second factors are parts of several examples", loop: true, make: func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 4)))
		k := must(G.Transpose(must(G.Mul(m.input("y", 3), m.param("V", 3, 6))), 1, 0))
		return squares(must(G.BatchedMatMul(m.reshape(h, m.batch, 2, 2), m.reshape(k, m.batch, 2, 3))))
	}},
	{name: "a part of a repeated function of a parameter", loop: true, make: func(m *maker) *G.Node {
		w, _, err := G.Broadcast(must(G.Square(m.param("w", 1, 4))), m.filled("places", 1, m.batch, 4), G.NewBroadcastPattern([]byte{0}, nil))
		part := must(G.Slice(must(w, err), nil, G.S(1, 3)))
		return squares(must(G.Add(must(G.Mul(m.input("x", 3), m.param("W", 3, 2))), part)))
	}},
	{name: "square of a weight", make: func(m *maker) *G.Node {
		x := m.input("x", 3)
		return squares(bias(must(G.Mul(x, must(G.Square(m.param("W", 3, 2))))), m.param("b", 1, 2)))
	}},
	{name: "standardised weight by Gorgonia's operations", make: func(m *maker) *G.Node {
		x, w := m.input("x", 4), m.param("W", 4, 3)
		centred := must(G.BroadcastSub(w, m.reshape(must(G.Mean(w, 0)), 1, 3), nil, []byte{0}))
		square := must(G.Add(must(G.Mean(must(G.Square(centred)), 0)), number(1e-3)))
		v := must(G.BroadcastHadamardDiv(centred, m.reshape(must(G.Sqrt(square)), 1, 3), nil, []byte{0}))
		return squares(must(G.Sigmoid(bias(must(G.Mul(x, v)), m.param("b", 1, 3)))))
	}},
	{name: "standardised convolutions", make: func(m *maker) *G.Node {
		x := m.input("x", 2, 6, 6)
		w := op.Window{KernelH: 3, KernelW: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, DilationH: 1, DilationW: 1}
		standard := func(k *G.Node) *G.Node {
			s := k.Shape()
			k = apply(op.Normalize{Chunk: s[1] * s[2] * s[3], Eps: 1e-4, Center: true}, k)
			return must(G.HadamardProd(k, number(0.3)))
		}
		x = apply(op.Conv2D{Window: w, Groups: 1, Act: op.Tanh}, x, standard(m.param("K1", 4, 2, 3, 3)), m.param("b1", 4))
		x = apply(op.Conv2D{Window: w, Groups: 2, Act: op.Tanh}, x, standard(m.param("K2", 6, 2, 3, 3)), m.param("b2", 6))
		return squares(x)
	}},
	{name: "a large standardised kernel on small pictures", make: func(m *maker) *G.Node {
		x, b := m.input("x", 8, 2, 2), m.param("b", 8)
		w := op.Window{KernelH: 3, KernelW: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, DilationH: 1, DilationW: 1}
		k := apply(op.Normalize{Chunk: 72, Eps: 1e-4, Center: true}, m.param("K", 8, 8, 3, 3))
		for range 2 {
			x = apply(op.Conv2D{Window: w, Groups: 1, Act: op.Tanh}, x, k, b)
		}
		return squares(x)
	}},
	{name: "weight normalised, with a gain of its own", make: func(m *maker) *G.Node {
		// Salimans & Kingma 2016: W = g·V/‖V‖, both trained.
		x, v, g := m.input("x", 4), m.param("V", 4, 3), m.param("g", 1, 3)
		length := m.reshape(must(G.Sqrt(must(G.Sum(must(G.Square(v)), 0)))), 1, 3)
		w := must(G.BroadcastHadamardProd(v, must(G.HadamardDiv(g, length)), nil, []byte{0}))
		return squares(must(G.Tanh(must(G.Mul(x, w)))))
	}},
	{name: "low rank upon a frozen weight", make: func(m *maker) *G.Node {
		// Hu et al. 2022.
		x := m.input("x", 6)
		w := must(G.Add(m.frozen("W", 6, 5), must(G.Mul(m.param("A", 6, 2), m.param("B", 2, 5)))))
		return squares(must(G.Tanh(must(G.Mul(x, w)))))
	}},
	{name: "products of weights in every order", make: func(m *maker) *G.Node {
		x := m.input("x", 4)
		a := apply(op.MatMul{TransA: true}, m.param("A", 3, 4), m.param("B", 3, 5))
		b := apply(op.MatMul{TransB: true}, a, m.param("C", 2, 5))
		c := apply(op.MatMul{TransA: true, TransB: true}, m.param("D", 2, 3), b)
		return squares(must(G.Mul(x, must(G.Transpose(must(G.Tanh(c)), 1, 0)))))
	}},
	{name: "a weight and a function of it", make: func(m *maker) *G.Node {
		x, w := m.input("x", 4), m.param("W", 4, 3)
		a := must(G.Mul(x, must(G.Add(w, must(G.Cube(w))))))
		b := must(G.Mul(x, must(G.Tanh(w))))
		return squares(must(G.Add(must(G.Mul(x, w)), must(G.HadamardProd(a, b)))))
	}},
	{name: "the same sum through two functions", make: func(m *maker) *G.Node {
		// Both gradients are the same node in Gorgonia, and both count.
		h, b := m.input("x", 3), m.param("b", 1, 3)
		return squares(must(G.Sigmoid(bias(bias(h, b), must(G.Add(b, must(G.Exp(b))))))))
	}},
	{name: "gates cut from a function, joined and turned", make: func(m *maker) *G.Node {
		x, w := m.input("x", 3), must(G.Exp(m.param("W", 8, 3)))
		part := func(from, to int) *G.Node { return must(G.Slice(w, G.S(from, to))) }
		v := must(G.Concat(0, part(4, 8), must(G.Neg(part(0, 4)))))
		return squares(must(G.Tanh(must(G.Mul(x, must(G.Transpose(v, 1, 0)))))))
	}},
	{name: "shares of a softmax", make: func(m *maker) *G.Node {
		x := m.input("x", 4)
		h := must(G.Mul(x, must(G.SoftMax(m.param("W", 4, 3), 1))))
		s := must(G.LogSoftMax(m.param("v", 1, 3), 1))
		return squares(must(G.Tanh(bias(must(G.BroadcastHadamardProd(h, must(G.Exp(s)), nil, []byte{0})), s))))
	}},
	{name: "a positive scale", make: func(m *maker) *G.Node {
		x := m.input("x", 2, 3)
		scale := m.reshape(must(G.Softplus(m.param("s", 3))), 1, 1, 3)
		h := must(G.BroadcastHadamardProd(x, scale, nil, []byte{0, 1}))
		return squares(must(G.HadamardProd(h, must(G.Exp(m.param("t"))))))
	}},
	{name: "weights between constants of no name", make: func(m *maker) *G.Node {
		x := m.input("x", 3)
		v := must(G.Mul(must(G.HadamardProd(m.param("W", 3, 9), one(13, 3, 9))), must(G.Transpose(m.param("V", 2, 9), 1, 0))))
		h := bias(must(G.Mul(x, v)), must(G.HadamardProd(m.param("b", 1, 2), one(1, 1, 2))))
		return squares(must(G.Mul(must(G.Tanh(h)), must(G.HadamardProd(m.param("u", 2), one(0, 2))))))
	}},
	{name: "a softmax used twice, and one made of its logarithm", make: func(m *maker) *G.Node {
		x := m.input("x", 3)
		p := must(G.SoftMax(must(G.Mul(x, m.param("W", 3, 4)))))
		l := must(G.LogSoftMax(must(G.Mul(x, m.param("V", 3, 4)))))
		return must(G.Sum(must(G.Sub(must(G.HadamardProd(p, must(G.Log(p)))), must(G.HadamardProd(must(G.Exp(l)), l))))))
	}},
	{name: "norms", make: func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 4)))
		sum := must(G.Sum(must(G.Norm(h, 1, 2))))
		sum = must(G.Add(sum, must(G.Sum(must(G.Norm(h, 1, 4))))))
		sum = must(G.Add(sum, must(G.Sum(must(G.Norm(must(G.Abs(h)), 1, 1))))))
		return must(G.Add(sum, must(G.Sum(must(G.Norm(must(G.Abs(h)), 1, 3))))))
	}},
	{name: "maxima along axes at the ends", loop: true, make: func(m *maker) *G.Node {
		h := must(G.HadamardProd(m.input("x", 2, 3, 2), m.param("s")))
		return squares(must(G.Add(must(G.Max(h, 3, 1)), must(G.Max(must(G.Sum(h, 1)), 2)))))
	}},
	{name: "two convolutions of one input", make: func(m *maker) *G.Node {
		x := m.input("x", 1, 8, 1)
		halved := func(name string) *G.Node {
			return must(G.Conv2d(x, m.param(name, 2, 1, 2, 1), tensor.Shape{2, 1}, []int{0, 0}, []int{2, 1}, []int{1, 1}))
		}
		return squares(must(G.HadamardProd(must(G.Tanh(halved("a"))), halved("b"))))
	}},
	{name: "transposed convolutions of many channels", make: func(m *maker) *G.Node {
		spread := func(x *G.Node, name string, in, out int) *G.Node {
			s := x.Shape()
			w := op.Window{KernelH: 2, KernelW: 1, StrideH: 2, StrideW: 1, DilationH: 1, DilationW: 1}
			return apply(op.ConvGradInput{Window: w, Groups: 1, C: out, H: 2 * s[2], W: s[3], O: in}, x, m.param(name, in, out, 2, 1))
		}
		x := apply(op.Conv2D{Window: op.Window{KernelH: 1, KernelW: 1, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1}, Groups: 1}, m.input("x", 2, 1, 1), m.param("W", 12, 2, 1, 1), m.filled("none", 0, 12))
		return squares(spread(must(G.Tanh(spread(x, "V", 12, 10))), "U", 10, 2))
	}},
	{name: "a weight divided by its mean", make: func(m *maker) *G.Node {
		x, w := m.input("x", 4), m.param("W", 4, 3)
		mean := must(G.Add(must(G.Sum(must(G.Square(w)))), number(0.1)))
		return squares(must(G.Mul(x, must(G.HadamardDiv(w, mean)))))
	}},
	{name: "a vector divided by its length, by an inner product", make: func(m *maker) *G.Node {
		x, w := m.input("x", 4), m.param("w", 4)
		share := must(G.HadamardProd(w, must(G.Mul(w, m.param("u", 4)))))
		return squares(must(G.Mul(x, must(G.HadamardDiv(share, must(G.Sqrt(must(G.Mul(w, w)))))))))
	}},
	{name: "a function of a recurrent weight", make: func(m *maker) *G.Node {
		const steps, in, hidden = 4, 3, 4
		x := m.input("x", steps, in)
		w := m.param("W", in, hidden)
		u := apply(op.Normalize{Chunk: hidden, Eps: 1e-3}, m.param("U", hidden, hidden))
		h := m.filled("h0", 0, m.batch, hidden)
		for t := range steps {
			h = must(G.Tanh(must(G.Add(must(G.Mul(must(G.Slice(x, nil, G.S(t))), w)), must(G.Mul(h, u))))))
		}
		return squares(h)
	}},
	{name: "a table looked up after a function", whole: map[int]int{0: 7}, make: func(m *maker) *G.Node {
		table := apply(op.Normalize{Chunk: 3, Eps: 1e-3}, m.param("E", 7, 3))
		x := m.reshape(apply(op.Embed{}, table, m.input("tokens", 4)), m.batch, 12)
		return squares(must(G.Sigmoid(must(G.Mul(x, m.param("W", 12, 2))))))
	}},
	{name: "scale and shift by one function", make: func(m *maker) *G.Node {
		x, v := m.input("x", 3), must(G.Exp(m.param("b", 1, 3)))
		return squares(must(G.Tanh(bias(must(G.BroadcastHadamardProd(x, v, nil, []byte{0})), v))))
	}},
	{name: "a layer's scale, and a shift that is a function", make: func(m *maker) *G.Node {
		x, shift := m.input("x", 3), must(G.Square(m.param("b", 3)))
		return squares(must(G.Tanh(apply(op.ScaleShift{Channels: 3, Inner: 1}, x, m.param("gamma", 3), shift))))
	}},
	{name: "an LSTM whose weight is turned", make: func(m *maker) *G.Node {
		x := apply(op.Linear{}, m.reshape(m.input("x", 2, 5), m.batch*2, 5), m.param("W", 5, 16), m.param("b", 16))
		x = m.reshape(x, m.batch, 2, 16)
		u := must(G.Transpose(m.param("U", 16, 4), 1, 0))
		h := apply(op.LSTM{}, x, u, apply(op.LSTMTrace{}, x, u))
		return squares(must(G.Mul(m.reshape(h, m.batch, 8), m.param("V", 8, 3))))
	}},
	{name: "signals in rows of two widths", make: func(m *maker) *G.Node {
		a := must(G.Mul(m.reshape(m.input("x", 4, 20), m.batch*4, 20), m.param("W", 20, 64)))
		b := must(G.Mul(m.reshape(m.input("y", 2, 30), m.batch*2, 30), m.param("V", 30, 128)))
		return squares(must(G.Tanh(must(G.Add(m.reshape(a, m.batch*2, 128), b)))))
	}},
	{name: "scores in rows of two widths", whole: map[int]int{1: 3, 2: 6}, make: func(m *maker) *G.Node {
		x, y, z := m.input("x", 5), m.input("y", 2), m.input("z")
		scores := must(G.Mul(x, m.param("W", 5, 6)))
		pairs := apply(op.CrossEntropy{}, m.reshape(scores, m.batch*2, 3), m.reshape(y, m.batch*2))
		return must(G.Add(apply(op.Total{Scale: 1}, pairs), apply(op.Total{Scale: 1}, apply(op.CrossEntropy{}, scores, z))))
	}},
	{name: "labels that are computed", whole: map[int]int{1: 4}, make: func(m *maker) *G.Node {
		x, y := m.input("x", 5), m.input("y", 2)
		h := m.reshape(apply(op.Linear{}, x, m.param("W", 5, 6), m.param("b", 6)), m.batch*2, 3)
		known := apply(op.Binary{Kind: "<"}, m.reshape(y, m.batch*2, 1), number(2))
		labels := apply(op.Replace{Old: 3, New: -1}, m.reshape(y, m.batch*2))
		return apply(op.Total{Scale: 1}, apply(op.CrossEntropy{}, apply(op.ScaleRows{}, h, known), labels))
	}},
	{name: "attention over steps of two widths", make: func(m *maker) *G.Node {
		x := must(G.Mul(m.input("x", 5), m.param("W", 5, 48)))
		long, short := m.reshape(x, m.batch, 4, 12), m.reshape(x, m.batch, 2, 24)
		return squares(must(G.Add(m.reshape(apply(op.Attention{Heads: 1}, long), m.batch, 16), m.reshape(apply(op.Attention{Heads: 1}, short), m.batch, 16))))
	}},
	{name: "an answer of another function", make: func(m *maker) *G.Node {
		x, w := m.input("x", 3), m.param("W", 3, 2)
		m.net.Output = must(G.Mul(x, must(G.Cube(w))))
		return squares(must(G.Mul(x, must(G.Square(w)))))
	}},
	{name: "a batch divided by a function", make: func(m *maker) *G.Node {
		v := must(G.Square(m.param("W", 4, 3)))
		return squares(must(G.HadamardDiv(must(G.Mul(m.input("x", 4), v)), must(G.Sum(v)))))
	}},
	{name: "the largest of a weight", loop: true, make: func(m *maker) *G.Node {
		x, w := m.input("x", 4), m.param("W", 4, 3)
		return squares(must(G.Mul(x, must(G.HadamardProd(w, must(G.Max(w)))))))
	}},
	{name: "division by a parameter", make: func(m *maker) *G.Node {
		x := m.input("x", 3)
		return squares(must(G.HadamardDiv(must(G.Mul(x, m.param("W", 3, 2))), m.param("temperature"))))
	}},
	{name: "division by scales", make: func(m *maker) *G.Node {
		x := m.input("x", 2, 3)
		h := must(G.BroadcastHadamardDiv(x, must(G.Exp(m.param("s", 1, 2, 1))), nil, []byte{0, 2}))
		h = must(G.BroadcastHadamardDiv(must(G.Tanh(h)), m.param("t", 1, 1, 3), nil, []byte{0, 1}))
		return squares(must(G.Transpose(h, 1, 0, 2)))
	}},
	{name: "division by one parameter, time first", make: func(m *maker) *G.Node {
		h := must(G.Transpose(m.input("x", 2, 3), 1, 0, 2))
		return squares(must(G.BroadcastHadamardDiv(h, m.param("s", 2, 1, 1), nil, []byte{1, 2})))
	}},
	{name: "a parameter divided by the batch", loop: true, make: func(m *maker) *G.Node {
		h := must(G.Exp(must(G.Mul(m.input("x", 3), m.param("W", 3, 2)))))
		return squares(must(G.HadamardDiv(m.param("temperature"), h)))
	}},
}

// double is an operation that perexample does not know.
type double struct{}

func (double) String() string                                { return "double" }
func (double) Shape(in []tensor.Shape) (tensor.Shape, error) { return in[0].Clone(), nil }
func (double) Wrt(int) []bool                                { return []bool{true} }
func (double) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	for i, x := range in[0] {
		out[i] = 2 * x
	}
}

func (double) Diff(_ G.Nodes, _, grad *G.Node) (G.Nodes, error) {
	d, err := op.Apply(double{}, grad)
	return G.Nodes{d}, err
}
