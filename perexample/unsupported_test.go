package perexample_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// refusals are networks that cannot be trained privately, with what the message must
// contain: the node or the operation, and what to do.
var refusals = []struct {
	name     string
	make     func(m *maker) *G.Node
	contains []string
}{
	{"loss is no scalar", func(m *maker) *G.Node {
		return must(G.Mul(m.input("x", 3), m.param("W", 3, 2)))
	}, []string{"is not a scalar", "gorgonia.Sum"}},
	{"no inputs", func(m *maker) *G.Node {
		m.param("W", 3, 2)
		return must(G.Sum(m.net.Params[0]))
	}, []string{"no inputs"}},
	{"a label that is no input", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 2)))
		m.net.Label = h
		return squares(h)
	}, []string{"is set as Label", "Inputs"}},
	{"a target that is no input", func(m *maker) *G.Node {
		m.net.Target = m.param("W", 3, 2)
		return squares(must(G.Mul(m.input("x", 3), m.net.Target)))
	}, []string{"W is set as Target", "Inputs"}},
	{"mean over the batch", func(m *maker) *G.Node {
		return must(G.Mean(must(G.Square(must(G.Mul(m.input("x", 3), m.param("W", 3, 2)))))))
	}, []string{"scales by the size of the batch", "gorgonia.Sum, not Mean"}},
	{"each loss over the batch", func(m *maker) *G.Node {
		l := must(G.Square(must(G.Mul(m.input("x", 3), m.param("w", 3)))))
		return must(G.Sum(must(G.HadamardDiv(l, must(G.SizeOf(0, l))))))
	}, []string{"scales by the size of the batch"}},
	{"one over the batch as a constant", func(m *maker) *G.Node {
		return must(G.HadamardProd(squares(must(G.Mul(m.input("x", 3), m.param("W", 3, 2)))), number(1/float32(m.batch))))
	}, []string{"scales by the size of the batch"}},
	{"one over the batch in a constant tensor", func(m *maker) *G.Node {
		l := must(G.Square(must(G.Mul(m.input("x", 3), m.param("w", 3)))))
		return must(G.Sum(must(G.HadamardProd(l, m.filled("share", 1/float32(m.batch), m.batch)))))
	}, []string{"share", "depends on the size of the batch"}},
	{"one over the batch in the scale of Total", func(m *maker) *G.Node {
		return apply(op.Total{Scale: 1 / float64(m.batch)}, must(G.Square(must(G.Mul(m.input("x", 3), m.param("w", 3))))))
	}, []string{"different networks", "total"}},
	{"batch normalisation", func(m *maker) *G.Node {
		x := must(G.Mul(m.input("x", 3), m.param("W", 3, 2)))
		y, _, _, _, err := G.BatchNorm(x, m.param("gamma", 1, 2), m.param("beta", 1, 2), 0.9, 1e-5)
		return squares(must(y, err))
	}, []string{"mixes the examples", "layer.GroupNorm"}},
	{"batch normalisation whose scale and shift Gorgonia makes", func(m *maker) *G.Node {
		x := must(G.Mul(m.input("x", 3), m.param("W", 3, 2)))
		y, _, _, _, err := G.BatchNorm(x, nil, nil, 0.9, 1e-5)
		return squares(must(y, err))
	}, []string{"mixes the examples", "layer.GroupNorm"}},
	{"the largest loss of the batch", func(m *maker) *G.Node {
		return must(G.Max(must(G.Square(must(G.Mul(m.input("x", 3), m.param("w", 3)))))))
	}, []string{"mixes examples", "is not a sum"}},
	{"Gorgonia's dropout", func(m *maker) *G.Node {
		return squares(must(G.Dropout(must(G.Mul(m.input("x", 3), m.param("W", 3, 2))), 0.5)))
	}, []string{"depend on how many records came before", "layer.Dropout"}},
	{"Gorgonia's random numbers", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 2)))
		return squares(must(G.HadamardProd(h, G.GaussianRandomNode(m.graph, tensor.Float32, 0, 1, m.batch, 2))))
	}, []string{"depend on how many records came before", "layer.Dropout"}},
	{"mask seed of another shape", func(m *maker) *G.Node {
		m.net.MaskSeed = G.NewMatrix(m.graph, tensor.Float32, G.WithShape(m.batch, 3), G.WithName("t"))
		return squares(must(G.Mul(m.input("x", 3), m.param("W", 3, 2))))
	}, []string{"mask seed t", "(", "must be (", "4)"}},
	{"mask seed among the inputs", func(m *maker) *G.Node {
		m.net.MaskSeed = m.input("x", 4)
		return squares(must(G.Mul(m.net.MaskSeed, m.param("W", 4, 2))))
	}, []string{"listed as MaskSeed and in Inputs"}},
	{"product over the batch axis", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 2)))
		return squares(must(G.Mul(must(G.Transpose(h, 1, 0)), h)))
	}, []string{"mixes examples", "both factors", "gorgonia.BatchedMatMul"}},
	{"rows of several examples", func(m *maker) *G.Node {
		x := must(G.Transpose(m.input("x", 2, 3), 1, 0, 2))
		return squares(must(G.Mul(m.reshape(x, m.batch, 6), m.param("W", 6, 2))))
	}, []string{"mixes examples"}},
	{"rows of several examples on the right", func(m *maker) *G.Node {
		x := must(G.Transpose(m.input("x", 2, 3), 1, 0, 2))
		return squares(apply(op.MatMul{TransB: true}, m.param("W", 2, 6), m.reshape(x, m.batch, 6)))
	}, []string{"mixes examples"}},
	{"columns taken for rows", func(m *maker) *G.Node {
		x := must(G.Transpose(m.input("x", 6), 1, 0))
		return squares(must(G.Mul(m.reshape(x, m.batch, 6), m.param("W", 6, 2))))
	}, []string{"mixes examples"}},
	{"columns taken for rows on the right", func(m *maker) *G.Node {
		x := must(G.Transpose(m.input("x", 6), 1, 0))
		return squares(apply(op.MatMul{TransB: true}, m.param("W", 2, 6), m.reshape(x, m.batch, 6)))
	}, []string{"mixes examples"}},
	{"rows of several examples and a turned weight", func(m *maker) *G.Node {
		x := must(G.Transpose(m.input("x", 2, 3), 1, 0, 2))
		return squares(apply(op.MatMul{TransB: true}, m.reshape(x, m.batch, 6), m.param("W", 2, 6)))
	}, []string{"mixes examples"}},
	{"columns of several examples", func(m *maker) *G.Node {
		return squares(must(G.Mul(m.param("W", 3, 2), m.reshape(m.input("x", 2), 2, m.batch))))
	}, []string{"mixes examples"}},
	{"columns of several examples on the left", func(m *maker) *G.Node {
		return squares(apply(op.MatMul{TransA: true}, m.reshape(m.input("x", 2), 2, m.batch), m.param("W", 2, 3)))
	}, []string{"mixes examples"}},
	{"weights over the batch axis", func(m *maker) *G.Node {
		h := must(G.Transpose(must(G.Mul(m.input("x", 3), m.param("W", 3, 2))), 1, 0))
		return squares(must(G.Mul(h, m.filled("ones", 1, m.batch, 2))))
	}, []string{"mixes examples"}},
	{"sum over the batch before a function", func(m *maker) *G.Node {
		return squares(must(G.Sum(must(G.Mul(m.input("x", 3), m.param("W", 3, 2))), 0)))
	}, []string{"mixes examples", "sums over the batch axis"}},
	{"a function of the loss", func(m *maker) *G.Node {
		return must(G.Square(squares(must(G.Mul(m.input("x", 3), m.param("W", 3, 2))))))
	}, []string{"mixes examples", "not a fixed multiple"}},
	{"a product of two sums", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 2)))
		return must(G.HadamardProd(squares(h), must(G.Sum(h))))
	}, []string{"mixes examples", "not a fixed multiple"}},
	{"one over the loss", func(m *maker) *G.Node {
		return must(G.HadamardDiv(number(1), squares(must(G.Mul(m.input("x", 3), m.param("W", 3, 2))))))
	}, []string{"mixes examples", "not a fixed multiple"}},
	{"the loss next to single examples", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("w", 3)))
		return must(G.Sum(must(G.HadamardProd(h, must(G.Sum(h))))))
	}, []string{"mixes examples", "combines a sum"}},
	{"softmax over axis 0", func(m *maker) *G.Node {
		return squares(must(G.SoftMax(must(G.Mul(m.input("x", 3), m.param("W", 3, 2))), 0)))
	}, []string{"mixes examples", "softmax runs over the batch"}},
	{"softmax of one number an example", func(m *maker) *G.Node {
		return squares(must(G.SoftMax(must(G.Mul(m.input("x", 3), m.param("w", 3))))))
	}, []string{"mixes examples", "softmax runs over the batch"}},
	{"softmax of a column", func(m *maker) *G.Node {
		return squares(must(G.SoftMax(must(G.Mul(m.input("x", 3), m.param("W", 3, 1))))))
	}, []string{"mixes examples", "softmax runs over the batch"}},
	{"slice of the batch axis", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 2)))
		return squares(must(G.Slice(h, G.S(0))))
	}, []string{"mixes examples", "cuts the batch axis"}},
	{"weight decay in the loss", func(m *maker) *G.Node {
		w := m.param("W", 3, 2)
		return must(G.Add(squares(must(G.Mul(m.input("x", 3), w))), squares(w)))
	}, []string{"a term to the loss that belongs to no example", "adamw"}},
	{"Log2", func(m *maker) *G.Node {
		return must(G.Sum(must(G.Log2(must(G.Square(must(G.Mul(m.input("x", 3), m.param("W", 3, 2)))))))))
	}, []string{"Log2", "use Log"}},
	{"InverseSqrt", func(m *maker) *G.Node {
		return must(G.Sum(must(G.InverseSqrt(must(G.Square(must(G.Mul(m.input("x", 3), m.param("W", 3, 2)))))))))
	}, []string{"InverseSqrt", "use Inverse of Sqrt"}},
	{"GlobalAveragePool2D", func(m *maker) *G.Node {
		h := must(G.Conv2d(m.input("x", 1, 4, 4), m.param("K", 2, 1, 3, 3), tensor.Shape{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1}))
		return squares(must(G.GlobalAveragePool2D(h)))
	}, []string{"layer.GlobalAvgPool"}},
	{"AveragePool2D", func(m *maker) *G.Node {
		h := must(G.Conv2d(m.input("x", 1, 4, 4), m.param("K", 2, 1, 3, 3), tensor.Shape{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1}))
		return squares(must(G.AveragePool2D(h, tensor.Shape{2, 2}, []int{0, 0}, []int{2, 2})))
	}, []string{"layer.AvgPool"}},
	{"GroupNorm", func(m *maker) *G.Node {
		h := must(G.Conv2d(m.input("x", 1, 4, 4), m.param("K", 2, 1, 3, 3), tensor.Shape{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1}))
		return squares(must(G.GroupNorm(h, m.param("gamma", 1, 2, 1, 1), m.param("beta", 1, 2, 1, 1), 2, 2, 1e-5)))
	}, []string{"prints the gradients", "layer.GroupNorm"}},
	{"OuterProd", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("w", 3)))
		return squares(must(G.OuterProd(h, m.param("v", 2))))
	}, []string{"OuterProd", "Mul of a column and a row"}},
	{"LogSumExp", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("w", 3)))
		return must(G.LogSumExp(h, 0))
	}, []string{"LogSumExp", "layer.CrossEntropy"}},
	{"Norm with p = 1", func(m *maker) *G.Node {
		return must(G.Sum(must(G.Norm(must(G.Mul(m.input("x", 3), m.param("W", 3, 4))), 1, 1))))
	}, []string{"computes Norm without absolute values", "gorgonia.Abs"}},
	{"Norm with p = 3", func(m *maker) *G.Node {
		return must(G.Sum(must(G.Norm(must(G.Mul(m.input("x", 3), m.param("W", 3, 4))), 1, 3))))
	}, []string{"computes Norm without absolute values", "gorgonia.Abs"}},
	{"Norm with p = -1", func(m *maker) *G.Node {
		return must(G.Sum(must(G.Norm(must(G.Mul(m.input("x", 3), m.param("W", 3, 4))), 1, -1))))
	}, []string{"Norm"}},
	{"Norm with p = 0", func(m *maker) *G.Node {
		return must(G.Sum(must(G.Norm(must(G.Abs(must(G.Mul(m.input("x", 3), m.param("W", 3, 4))))), 1, 0))))
	}, []string{"Norm"}},
	{"Norm of a weight", func(m *maker) *G.Node {
		w := m.param("W", 3, 4)
		return squares(must(G.BroadcastHadamardProd(must(G.Mul(m.input("x", 3), w)), m.reshape(must(G.Norm(w, 0, 3)), 1, 4), nil, []byte{0})))
	}, []string{"Norm", "gorgonia.Abs"}},
	{"a slice whose step does not divide its length", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 7)))
		return squares(must(G.Slice(h, nil, G.S(0, 7, 2))))
	}, []string{"T[:, 0:7:2...]", "step does not divide its length", "gorgonia.Concat"}},
	{"a slice of the batch axis whose step does not divide its length", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 7)))
		return squares(must(G.Slice(m.reshape(h, m.batch*7), G.S(0, m.batch*7-(m.batch*7+1)%2, 2))))
	}, []string{"step does not divide its length"}},
	{"a constant without elements", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 6)))
		return squares(must(G.Mul(h, G.NewConstant(tensor.New(tensor.WithShape(6, 0), tensor.Of(tensor.Float32))))))
	}, []string{"constant of shape (6, 0)", "no elements", "at least 1"}},
	{"an input without elements", func(m *maker) *G.Node {
		m.net.Inputs = append(m.net.Inputs, G.NewMatrix(m.graph, tensor.Float32, G.WithShape(m.batch, 0), G.WithName("empty")))
		return squares(must(G.Mul(m.input("x", 3), m.param("W", 3, 6))))
	}, []string{"node empty", "no elements"}},
	{"a parameter without elements", func(m *maker) *G.Node {
		w := G.NewMatrix(m.graph, tensor.Float32, G.WithShape(3, 0), G.WithName("W"), G.WithValue(tensor.New(tensor.WithShape(3, 0), tensor.Of(tensor.Float32))))
		m.net.Params = append(m.net.Params, w)
		return squares(must(G.Mul(m.input("x", 3), w)))
	}, []string{"node W", "no elements"}},
	{"a variable without elements", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 6)))
		return squares(must(G.Mul(h, G.NewMatrix(m.graph, tensor.Float32, G.WithShape(6, 0), G.WithName("A")))))
	}, []string{"no elements"}},
	{"an output without elements", func(m *maker) *G.Node {
		m.net.Output = G.NewMatrix(m.graph, tensor.Float32, G.WithShape(m.batch, 0), G.WithName("out"))
		return squares(must(G.Mul(m.input("x", 3), m.param("W", 3, 6))))
	}, []string{"node out", "no elements"}},
	{"an LSTM, time first", func(m *maker) *G.Node {
		x := must(G.Transpose(m.input("x", 5, 8), 1, 0, 2))
		w := m.param("W", 2, 8)
		return squares(apply(op.LSTM{}, x, w, apply(op.LSTMTrace{}, x, w)))
	}, []string{"lstm", "mixes examples", "axis 0", "gorgonia.Transpose", "[batch, time, features]"}},
	{"a GRU after a dense layer, time first", func(m *maker) *G.Node {
		x := must(G.Transpose(m.input("x", 5, 3), 1, 0, 2))
		x = apply(op.Linear{}, m.reshape(x, 5*m.batch, 3), m.param("V", 3, 6), m.param("c", 6))
		x = m.reshape(x, 5, m.batch, 6)
		w, b := m.param("W", 2, 6), m.param("b", 2)
		return squares(apply(op.GRU{}, x, w, b, apply(op.GRUTrace{}, x, w, b)))
	}, []string{"gru", "mixes examples", "axis 0", "gorgonia.Transpose"}},
	{"an LSTM after an embedding, time first", func(m *maker) *G.Node {
		x := apply(op.Embed{}, m.param("E", 9, 8), must(G.Transpose(m.input("ids", 5), 1, 0)))
		w := m.param("W", 2, 8)
		return squares(apply(op.LSTM{}, x, w, apply(op.LSTMTrace{}, x, w)))
	}, []string{"lstm", "mixes examples", "axis 0", "gorgonia.Transpose"}},
	{"causal attention, time first", func(m *maker) *G.Node {
		x := apply(op.Normalize{Chunk: 6, Eps: 1e-3, Center: true}, must(G.Transpose(m.input("x", 5, 6), 1, 0, 2)))
		h := must(G.Tanh(must(G.HadamardProd(x, m.param("s")))))
		return squares(apply(op.Attention{Heads: 2, Causal: true}, h))
	}, []string{"attention", "mixes examples", "axis 0", "gorgonia.Transpose"}},
	{"attention from example to example", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 4), m.param("W", 4, 6)))
		return squares(apply(op.Attention{Heads: 1}, m.reshape(h, 1, m.batch, 6)))
	}, []string{"attention", "mixes examples", "axis 0"}},
	{"a convolution over the batch", func(m *maker) *G.Node {
		x := must(G.Transpose(m.input("x", 2, 4, 3), 1, 2, 0, 3))
		return squares(apply(op.Conv2D{Window: op.Window{KernelH: 3, KernelW: 1, StrideH: 1, StrideW: 1, PadH: 1, DilationH: 1, DilationW: 1}, Groups: 1}, x, m.param("K", 2, 4, 3, 1), m.param("b", 2)))
	}, []string{"conv", "mixes examples", "axis 0", "[batch, channels, height, width]"}},
	{"Gorgonia's convolution over the batch", func(m *maker) *G.Node {
		x := must(G.Transpose(m.input("x", 2, 4, 3), 1, 2, 0, 3))
		return squares(must(G.Conv2d(x, m.param("K", 2, 4, 3, 1), tensor.Shape{3, 1}, []int{1, 0}, []int{1, 1}, []int{1, 1})))
	}, []string{"im2col", "mixes examples", "axis 0"}},
	{"pooling over the batch", func(m *maker) *G.Node {
		x := must(G.Transpose(must(G.HadamardProd(m.input("x", 2, 4, 3), m.param("s"))), 1, 2, 0, 3))
		return squares(must(G.MaxPool2D(x, tensor.Shape{3, 1}, []int{1, 0}, []int{1, 1})))
	}, []string{"mixes examples", "axis 0"}},
	{"a maximum along an axis between others", func(m *maker) *G.Node {
		return squares(must(G.Max(must(G.HadamardProd(m.input("x", 2, 3, 2), m.param("s"))), 2)))
	}, []string{"computes Max wrongly", "Transpose"}},
	{"slices that Gorgonia takes for one", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 512)))
		return squares(must(G.HadamardProd(must(G.Slice(h, nil, G.S(0, 256))), must(G.Slice(h, nil, G.S(256, 512))))))
	}, []string{"merges two slices", "reshape"}},
	{"slices of the shortest axis that Gorgonia takes for one", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 257)))
		return squares(must(G.HadamardProd(must(G.Slice(h, nil, G.S(0, 1))), must(G.Slice(h, nil, G.S(256, 257))))))
	}, []string{"merges two slices", "reshape"}},
	{"a join whose gradient Gorgonia confuses", func(m *maker) *G.Node {
		x := m.input("x", 3)
		return squares(must(G.Concat(1, must(G.Mul(x, m.param("A", 3, 256))), must(G.Mul(x, m.param("B", 3, 256))))))
	}, []string{"merges two slices", "reshape"}},
	{"a softmax and its logarithm, which Gorgonia takes for one", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 4)))
		return must(G.Sum(must(G.HadamardProd(must(G.SoftMax(h)), must(G.LogSoftMax(h))))))
	}, []string{"SoftMax and LogSoftMax of one node", "as its Exp"}},
	{"convolutions of two dilations, which Gorgonia takes for one", func(m *maker) *G.Node {
		x := m.input("x", 1, 9, 1)
		dilated := func(name string, by int) *G.Node {
			return must(G.Conv2d(x, m.param(name, 2, 1, 3, 1), tensor.Shape{3, 1}, []int{2, 0}, []int{4, 1}, []int{by, 1}))
		}
		return squares(must(G.Add(dilated("a", 1), dilated("b", 2))))
	}, []string{"differ in their dilation only", "layer.Conv2D"}},
	{"constants that Gorgonia takes for one", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 11)))
		return must(G.Add(squares(must(G.Mul(h, one(4, 11, 1)))), must(G.Sum(must(G.Mul(must(G.Tanh(h)), one(5, 11, 1)))))))
	}, []string{"constant of shape (11, 1)", "prints alike", "gorgonia.NodeFromAny"}},
	{"products that Gorgonia takes for one, as their constants are", func(m *maker) *G.Node {
		w, x := m.param("W", 3, 11), m.input("x", 3)
		a, b := must(G.Mul(x, must(G.HadamardProd(w, one(15, 3, 11))))), must(G.Mul(x, must(G.HadamardProd(w, one(16, 3, 11)))))
		return squares(must(G.HadamardProd(a, b)))
	}, []string{"constant of shape (3, 11)", "prints alike"}},
	{"a parameter and a mask of no name, which Gorgonia takes for one", func(m *maker) *G.Node {
		value := G.WithValue(tensor.New(tensor.WithShape(3), tensor.WithBacking(m.value(1, 3))))
		w := G.NewVector(m.graph, tensor.Float32, G.WithShape(3), value)
		mask := G.NewVector(m.graph, tensor.Float32, G.WithShape(3), value)
		m.net.Params = append(m.net.Params, w)
		return squares(must(G.Mul(m.input("x", 3), must(G.HadamardProd(w, mask)))))
	}, []string{"a variable of shape (3) has no name", "gorgonia.WithName"}},
	{"a constant of many rows that differs from example to example", func(m *maker) *G.Node {
		return squares(must(G.Mul(must(G.HadamardProd(m.input("x", 3), one(1, m.batch, 3))), m.param("W", 3, 2))))
	}, []string{"constant of shape (", "differs from example to example"}},
	{"batch normalisation whose parameters are as large as the batch", func(m *maker) *G.Node {
		y, scale, shift, _, err := G.BatchNorm(m.input("x", 2, 1, 1), nil, nil, 0.9, 1e-5)
		if err != nil {
			panic(err)
		}
		m.net.Params = append(m.net.Params, scale, shift)
		return squares(y)
	}, []string{"mixes the examples", "layer.GroupNorm"}},
	{"examples stacked as channels", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 4)))
		h = apply(op.Normalize{Chunk: 4 * m.batch, Eps: 1e-3, Center: true}, m.reshape(h, 1, 4*m.batch))
		return squares(h)
	}, []string{"different networks", "normalize"}},
	{"a weight computed from the examples", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 4)))
		return squares(apply(op.Linear{}, h, must(G.Transpose(h, 1, 0)), must(G.Sum(must(G.Transpose(h, 1, 0)), 0))))
	}, []string{"mixes examples", "shared by all examples"}},
	{"an inner product over the batch", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 4)))
		return squares(must(G.Mul(must(G.Transpose(h, 1, 0)), must(G.Sum(h, 1)))))
	}, []string{"mixes examples", "both factors"}},
	{"an inner product with a parameter repeated over the batch", func(m *maker) *G.Node {
		return must(G.Mul(must(G.Mul(m.input("x", 3), m.param("W", 3))), m.reshape(repeated(m, m.param("w", 1, 1)), m.batch)))
	}, []string{"mixes examples", "sums over the batch axis"}},
	{"no loss", func(m *maker) *G.Node {
		squares(must(G.Mul(m.input("x", 3), m.param("W", 3, 2))))
		return nil
	}, []string{"no loss"}},
	{"a missing input", func(m *maker) *G.Node {
		l := squares(must(G.Mul(m.input("x", 3), m.param("W", 3, 2))))
		m.net.Inputs = append(m.net.Inputs, nil)
		return l
	}, []string{"input 1 is nil"}},
	{"a parameter that is computed", func(m *maker) *G.Node {
		w := must(G.Square(m.param("W", 3, 2)))
		m.net.Params = G.Nodes{w}
		return squares(must(G.Mul(m.input("x", 3), w)))
	}, []string{"is computed or constant", "gorgonia.NewMatrix"}},
	{"a parameter of another graph", func(m *maker) *G.Node {
		l := squares(must(G.Mul(m.input("x", 3), m.param("W", 3, 2))))
		m.graph = G.NewGraph()
		m.param("stray", 2)
		return l
	}, []string{"stray belongs to another graph"}},
	{"another number of layers for each batch", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 3)))
		for range m.batch {
			h = must(G.Tanh(h))
		}
		return squares(h)
	}, []string{"different networks"}},
	{"another number of parameters for each batch", func(m *maker) *G.Node {
		h := m.input("x", 3)
		for i := range m.batch {
			h = must(G.Mul(h, m.param(string(rune('a'+i)), 3, 3)))
		}
		return squares(h)
	}, []string{"different networks"}},
	{"answers for some batches only", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 2)))
		if m.batch%2 == 0 {
			m.net.Output = h
		}
		return squares(h)
	}, []string{"different networks", "output is set for one"}},
	{"losses for some batches only", func(m *maker) *G.Node {
		l := apply(op.SquaredError{}, m.input("x", 3), must(G.Mul(m.input("y", 3), m.param("W", 3, 3))))
		if m.batch%2 == 0 {
			m.net.Losses = l
		}
		return must(G.Sum(l))
	}, []string{"different networks", "losses is set for one"}},
	{"a mask seed for some batches only", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 2)))
		if m.drop(h, 0.5, 1); m.batch%2 == 0 {
			m.net.MaskSeed = nil
		}
		return squares(h)
	}, []string{"different networks", "mask seed is set for one"}},
	{"an input for some batches only", func(m *maker) *G.Node {
		l := squares(must(G.Mul(m.input("x", 3), m.param("W", 3, 2))))
		if m.batch%2 == 0 {
			m.input("spare")
		}
		return l
	}, []string{"different networks", "inputs"}},
	{"parameters in another order", func(m *maker) *G.Node {
		l := squares(bias(bias(m.input("x", 3), m.param("a", 1, 3)), m.param("b", 1, 3)))
		if m.batch%2 == 0 {
			m.net.Params[0], m.net.Params[1] = m.net.Params[1], m.net.Params[0]
		}
		return l
	}, []string{"different networks", "parameter 0 is"}},
	{"loss of a parameter alone", func(m *maker) *G.Node {
		m.input("x", 3)
		return squares(m.param("W", 3, 2))
	}, []string{"is not a sum over the examples"}},
	{"parameter with no path", func(m *maker) *G.Node {
		m.param("unused", 2)
		return squares(must(G.Mul(m.input("x", 3), m.param("W", 3, 2))))
	}, []string{"unused", "no gradient path", "remove it from Params"}},
	{"parameter only compared", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 2)))
		return squares(must(G.HadamardProd(h, must(G.Gt(h, m.param("t"), true)))))
	}, []string{"parameter t", "no gradient path"}},
	{"parameter without value", func(m *maker) *G.Node {
		w := G.NewMatrix(m.graph, tensor.Float32, G.WithShape(3, 2), G.WithName("W"))
		m.net.Params = append(m.net.Params, w)
		return squares(must(G.Mul(m.input("x", 3), w)))
	}, []string{"W", "no initial value", "gorgonia.WithInit"}},
	{"variable without value", func(m *maker) *G.Node {
		w := G.NewMatrix(m.graph, tensor.Float32, G.WithShape(2, 2), G.WithName("A"))
		return squares(must(G.Mul(must(G.Mul(m.input("x", 3), m.param("W", 3, 2))), w)))
	}, []string{"node A has no value", "Inputs or Params"}},
	{"two parameters of one name", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 2)))
		return squares(must(G.Mul(h, m.param("W", 2, 4))))
	}, []string{"two parameters are named W"}},
	{"parameter listed as input", func(m *maker) *G.Node {
		x := m.input("x", 3)
		m.net.Params = append(m.net.Params, x)
		must(0, G.Let(x, tensor.New(tensor.WithShape(m.batch, 3), tensor.WithBacking(make([]float32, 3*m.batch)))))
		return squares(must(G.Mul(x, m.param("W", 3, 2))))
	}, []string{"Inputs and in Params"}},
	{"nothing to train", func(m *maker) *G.Node {
		return squares(must(G.Mul(m.input("x", 3), m.frozen("W", 3, 2))))
	}, []string{"no parameters"}},
	{"wrong batch", func(m *maker) *G.Node {
		m.net.Batch = 4
		return squares(must(G.Mul(m.input("x", 3), m.param("W", 3, 2))))
	}, []string{"built for 4 examples when asked for"}},
	{"a panic", func(m *maker) *G.Node {
		panic(errors.New("first\nsecond"))
	}, []string{"building the network", "first second"}},
	{"float64", func(m *maker) *G.Node {
		x := G.NewMatrix(m.graph, tensor.Float64, G.WithShape(m.batch, 2), G.WithName("x"))
		w := G.NewMatrix(m.graph, tensor.Float64, G.WithShape(2, 2), G.WithName("W"), G.WithInit(G.Zeroes()))
		m.net.Inputs, m.net.Params = G.Nodes{x}, G.Nodes{w}
		return squares(must(G.Mul(x, w)))
	}, []string{"x has type float64", "float32"}},
	{"input without a batch axis", func(m *maker) *G.Node {
		x := G.NewMatrix(m.graph, tensor.Float32, G.WithShape(99, 3), G.WithName("x"))
		m.net.Inputs = G.Nodes{x}
		return squares(must(G.Mul(x, m.param("W", 3, 2))))
	}, []string{"input x", "axis 0 must be the microbatch"}},
	{"constant that differs between examples", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("w", 3)))
		v := make([]float32, m.batch)
		for i := range v {
			v[i] = float32(i)
		}
		places := G.NewVector(m.graph, tensor.Float32, G.WithShape(m.batch), G.WithName("places"), G.WithValue(tensor.New(tensor.WithShape(m.batch), tensor.WithBacking(v))))
		return squares(must(G.Add(h, places)))
	}, []string{"constant places differs from example to example", "make it an input"}},
	{"constant that differs between examples at the second step", func(m *maker) *G.Node {
		v := make([]float32, 2*m.batch)
		v[len(v)-1] = 1
		places := G.NewMatrix(m.graph, tensor.Float32, G.WithShape(2, m.batch), G.WithName("places"), G.WithValue(tensor.New(tensor.WithShape(2, m.batch), tensor.WithBacking(v))))
		return squares(must(G.Add(must(G.Transpose(must(G.Mul(m.input("x", 3), m.param("W", 3, 2))), 1, 0)), places)))
	}, []string{"constant places differs from example to example"}},
	{"constant of whole numbers", func(m *maker) *G.Node {
		places := G.NewConstant(tensor.New(tensor.WithShape(2), tensor.WithBacking([]int{0, 1})), G.WithName("places"))
		return squares(must(G.ByIndices(must(G.Mul(m.input("x", 3), m.param("W", 3, 2))), places, 1)))
	}, []string{"constant places has type int", "float32"}},
	{"constant drawn again", func(m *maker) *G.Node {
		a := G.NewMatrix(m.graph, tensor.Float32, G.WithShape(3, 3), G.WithName("A"), G.WithInit(func(tensor.Dtype, ...int) any {
			x := make([]float32, 9)
			for i := range x {
				x[i] = rand.Float32()
			}
			return x
		}))
		return squares(must(G.Mul(must(G.Mul(m.input("x", 3), a)), m.param("W", 3, 2))))
	}, []string{"constant A", "must not draw random ones"}},
	{"parameter as large as the batch", func(m *maker) *G.Node {
		return squares(must(G.Add(m.input("x", 3), m.param("W", m.batch, 3))))
	}, []string{"different networks", "parameter 0 is W"}},
	{"differentiated by the builder", func(m *maker) *G.Node {
		loss := squares(must(G.Mul(m.input("x", 3), m.param("W", 3, 2))))
		must(G.Grad(loss, m.net.Params...))
		return loss
	}, []string{"remove the call of gorgonia.Grad"}},
	{"losses that are no losses", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 2)))
		m.net.Losses = h
		return squares(h)
	}, []string{"Losses", "must have one number for each"}},
	{"answers without a batch axis", func(m *maker) *G.Node {
		h := must(G.Mul(m.input("x", 3), m.param("W", 3, 2)))
		m.net.Output = must(G.Transpose(h, 1, 0))
		return squares(h)
	}, []string{"Output", "axis 0"}},
}

func TestCompile_Refuses(t *testing.T) {
	for _, c := range refusals {
		t.Run(c.name, func(t *testing.T) {
			for _, records := range []int{1, 7} {
				p, err := perexample.Compile(design{make: c.make}.build(1), records, 1)
				if err == nil {
					t.Fatalf("microbatch of %d: compiled, warning %q", records, p.Warning)
				}
				message := err.Error()
				for _, s := range c.contains {
					if !strings.Contains(message, s) {
						t.Errorf("microbatch of %d: %q does not contain %q", records, message, s)
					}
				}
				if strings.Contains(message, "\n") || len(message) > 400 {
					t.Errorf("microbatch of %d: not one line: %q", records, message)
				}
			}
		})
	}
}
