package onnx

import (
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/internal/device/op"
	"gorgonia.org/tensor"
)

// translate writes the ONNX nodes of an operation and returns the name of the result.
func (s operation) translate(spec op.Operation) (string, error) {
	switch o := spec.(type) {
	case op.LSTM:
		return s.lstm(o)
	case op.GRU:
		return s.gru(o)
	case op.Dropout: // identity in inference
		return s.writeOperand(0)
	case nil:
		return "", fmt.Errorf("the operation %v has no ONNX translation", s.n.Op())
	}
	in, err := s.writeOperands()
	if err != nil {
		return "", err
	}
	switch o := spec.(type) {
	case op.Linear:
		return s.activate(s.emit("Gemm", in), o.Act)
	case op.MatMul:
		return s.emit("Gemm", in, attribute{"transA", flag(o.TransA)}, attribute{"transB", flag(o.TransB)}), nil
	case op.Conv2D:
		return s.activate(s.emit("Conv", in, append(window(o.Window), dilations(o.Window), attribute{"group", o.Groups})...), o.Act)
	case op.MaxPool2D:
		return s.emit("MaxPool", in, append(window(o.Window), dilations(o.Window))...), nil
	case op.AvgPool2D:
		if o.DilationH != 1 || o.DilationW != 1 {
			return "", fmt.Errorf("%v has no ONNX translation: opset %d has no dilated average pooling", o, opset)
		}
		return s.emit("AveragePool", in, append(window(o.Window), attribute{"count_include_pad", 1})...), nil
	case op.Activate:
		return s.activate(in[0], o.Act)
	case op.Add:
		return s.emit("Add", in), nil
	case op.Binary:
		if kind := arithmetic[o.Kind]; kind != "" {
			return s.emit(kind, in), nil
		}
		if kind := comparisons[o.Kind]; kind != "" {
			return s.castToFloat(s.emit(kind, in)), nil
		}
	case op.Unary:
		if kind := functions[o.Kind]; kind != "" {
			return s.emit(kind, in), nil
		}
	case op.Normalize:
		return s.normalize(o, in[0])
	case op.ScaleShift:
		return s.channels(o.Channels, o.Inner, in[0], []string{"Mul", "Add"}, in[1:])
	case op.ChannelScale:
		return s.channels(o.Channels, o.Inner, in[0], []string{"Mul"}, in[1:])
	case op.ChannelShift:
		return s.channels(o.Channels, o.Inner, in[0], []string{"Add"}, in[1:])
	case op.Reshape:
		to, err := openBatchShape(s.n, s.other)
		return s.reshape(in[0], to...), err
	case op.Slice:
		switch {
		case o.Axis == 0 && o.Count == s.shape(0)[0]: // all examples
			return in[0], nil
		case o.Axis > 0:
			end := o.From + (o.Count-1)*o.Step + 1
			return s.emit("Slice", []string{in[0], s.integers(o.From), s.integers(end), s.integers(o.Axis), s.integers(o.Step)}), nil
		}
	case op.Permute:
		return s.emit("Transpose", in, attribute{"perm", o.Order.List()}), nil
	case op.Join:
		return s.emit("Concat", in, attribute{"axis", -1}), nil
	case op.ScaleRows:
		return s.scaleRows(in)
	case op.Embed:
		return s.embed(in)
	case op.EmbedBag:
		return s.embedBag(o, in)
	case op.Attention:
		return s.attention(o, in)
	}
	return "", fmt.Errorf("the operation %v has no ONNX translation", spec)
}

var (
	arithmetic  = map[string]string{"+": "Add", "-": "Sub", "*": "Mul", "/": "Div"}
	functions   = map[string]string{"sqrt": "Sqrt", "inv": "Reciprocal", "neg": "Neg", "cos": "Cos"}
	comparisons = map[string]string{"<": "Less", ">": "Greater", "<=": "LessOrEqual", ">=": "GreaterOrEqual", "==": "Equal"}
)

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

func window(w op.Window) []attribute {
	return []attribute{
		{"kernel_shape", []int{w.KernelH, w.KernelW}},
		{"strides", []int{w.StrideH, w.StrideW}},
		{"pads", []int{w.PadH, w.PadW, w.PadH, w.PadW}},
	}
}

func dilations(w op.Window) attribute {
	return attribute{"dilations", []int{w.DilationH, w.DilationW}}
}

func (s operation) activate(x string, act op.Activation) (string, error) {
	switch in := []string{x}; act {
	case op.Identity:
		return x, nil
	case op.ReLU:
		return s.emit("Relu", in), nil
	case op.Tanh:
		return s.emit("Tanh", in), nil
	case op.Sigmoid:
		return s.emit("Sigmoid", in), nil
	case op.LeakyReLU:
		return s.emit("LeakyRelu", in, attribute{"alpha", 0.01}), nil
	case op.ELU:
		return s.emit("Elu", in, attribute{"alpha", 1.0}), nil
	case op.Softplus:
		return s.emit("Softplus", in), nil
	case op.SiLU:
		return s.emit("Mul", []string{x, s.emit("Sigmoid", in)}), nil
	case op.GELU: // x·(1 + erf(x/√2))/2
		erf := s.emit("Erf", []string{s.emit("Mul", []string{x, s.scalar(1 / math.Sqrt2)})})
		half := s.emit("Mul", []string{x, s.scalar(0.5)})
		return s.emit("Mul", []string{half, s.emit("Add", []string{erf, s.scalar(1)})}), nil
	}
	return "", fmt.Errorf("the activation %v has no ONNX translation", act)
}

// normalize reshapes the chunks into rows of a matrix.
func (s operation) normalize(o op.Normalize, x string) (string, error) {
	to, err := openBatchShape(s.n, s.other)
	if err != nil {
		return "", err
	}
	last := attribute{"axes", []int{-1}}
	x = s.reshape(x, -1, o.Chunk)
	if o.Center {
		x = s.emit("Sub", []string{x, s.emit("ReduceMean", []string{x}, last)})
	}
	square := s.emit("ReduceMean", []string{s.emit("Mul", []string{x, x})}, last)
	deviation := s.emit("Sqrt", []string{s.emit("Add", []string{square, s.scalar(o.Eps)})})
	return s.reshape(s.emit("Div", []string{x, deviation}), to...), nil
}

// channels applies operators with one number per channel. It reshapes the numbers so that ONNX's
// broadcasting aligns them with the channels.
func (s operation) channels(channels, inner int, x string, kinds, numbers []string) (string, error) {
	dims, ok := broadcastShape(s.shape(0), channels, inner)
	if !ok {
		return "", fmt.Errorf("%v on shape %v has no ONNX translation: its channels are not whole axes", op.Canonical(s.n), s.shape(0))
	}
	for i, kind := range kinds {
		number := numbers[i]
		if !s.shape(i + 1).Eq(tensor.Shape(dims)) {
			number = s.reshape(number, dims...)
		}
		x = s.emit(kind, []string{x, number})
	}
	return x, nil
}

// broadcastShape returns the trailing axes of x that contain the channels, with 1 for the axes inside
// a channel.
func broadcastShape(x tensor.Shape, channels, inner int) ([]int, bool) {
	at := len(x)
	take := func(size int) (axes []int, ok bool) {
		for n := 1; n < size; n *= x[at] {
			if at--; at < 1 {
				return nil, false
			}
			axes = append([]int{x[at]}, axes...)
		}
		return axes, tensor.ProdInts(axes) == size || size == 1
	}
	within, ok := take(inner)
	if !ok {
		return nil, false
	}
	for i := range within {
		within[i] = 1
	}
	dims, ok := take(channels)
	if len(dims)+len(within) == 0 {
		dims = []int{1}
	}
	return append(dims, within...), ok
}

// scaleRows multiplies by one weight per position of the leading axes. A weight of 0 gives 0, also
// for infinite values.
func (s operation) scaleRows(in []string) (string, error) {
	x, weights := s.shape(0), s.shape(1)
	if len(weights) > len(x) || !slices.Equal(weights, x[:len(weights)]) {
		return "", fmt.Errorf("%v of shape %v by weights of shape %v has no ONNX translation", op.Canonical(s.n), x, weights)
	}
	within := make([]int, len(x)-len(weights))
	for i := range within {
		within[i] = len(weights) + i
	}
	weight, zero := in[1], s.scalar(0)
	if len(within) > 0 {
		weight = s.emit("Unsqueeze", []string{weight, s.integers(within...)})
	}
	return s.emit("Where", []string{s.emit("Equal", []string{weight, zero}), zero, s.emit("Mul", []string{in[0], weight})}), nil
}

// embed returns zeros for an index outside the table, as op.Embed does.
func (s operation) embed(in []string) (string, error) {
	table, index := in[0], in[1]
	if s.operands[1] != s.feature { // such as positions, which are whole numbers in float32
		index = s.emit("Cast", []string{index}, attribute{"to", int64s})
	}
	zero := s.integers(0)
	inside := s.emit("And", []string{
		s.emit("GreaterOrEqual", []string{index, zero}),
		s.emit("Less", []string{index, s.integers(s.shape(0)[0])}),
	})
	rows := s.emit("Gather", []string{table, s.emit("Where", []string{inside, index, zero})})
	inside = s.emit("Unsqueeze", []string{inside, s.integers(-1)})
	return s.emit("Where", []string{inside, rows, s.scalar(0)}), nil
}

// embedBag sums the rows that embed returns.
func (s operation) embedBag(o op.EmbedBag, in []string) (string, error) {
	rows, err := s.embed(in)
	if err != nil {
		return "", err
	}
	sum := s.emit("ReduceSum", []string{rows, s.integers(1)}, attribute{"keepdims", 0})
	return s.emit("Mul", []string{sum, s.scalar(o.Scale)}), nil
}

// attention writes out scaled dot-product attention. Masked positions get weight zero, so a position
// that attends to nothing returns zeros.
func (s operation) attention(o op.Attention, in []string) (string, error) {
	if o.Window > 0 || o.Cap > 0 || o.Blocks {
		return "", fmt.Errorf("%s: a sliding window, capped scores and blocks have no translation", o)
	}
	x := s.shape(0)
	steps, width := x[1], x[2]/3
	size := width / o.Heads
	part := []string{s.uniqueName("query"), s.uniqueName("key"), s.uniqueName("value")}
	s.emitMany(part, "Split", []string{in[0], s.integers(width, width, width)}, attribute{"axis", 2})
	order := [][]int{{0, 2, 1, 3}, {0, 2, 3, 1}, {0, 2, 1, 3}}
	for i := range part {
		heads := s.reshape(part[i], -1, steps, o.Heads, size)
		part[i] = s.emit("Transpose", []string{heads}, attribute{"perm", order[i]})
	}
	weights := s.emit("MatMul", []string{part[0], part[1]})
	weights = s.emit("Mul", []string{weights, s.scalar(o.ScaleOf(size))})
	mask := s.attentionMask(o, in, steps)
	if mask != "" {
		weights = s.emit("Where", []string{mask, weights, s.scalar(-math.MaxFloat32)})
	}
	weights = s.emit("Softmax", []string{weights}, attribute{"axis", -1})
	if mask != "" {
		weights = s.emit("Where", []string{mask, weights, s.scalar(0)})
	}
	y := s.emit("Transpose", []string{s.emit("MatMul", []string{weights, part[2]})}, attribute{"perm", []int{0, 2, 1, 3}})
	return s.reshape(y, -1, steps, width), nil
}

// attentionMask returns the mask [batch, 1, steps, steps], with axes of length 1 where it is
// constant, or "" if there is no mask.
func (s operation) attentionMask(o op.Attention, in []string, steps int) string {
	var mask string
	if len(in) > 1 {
		zero := s.integers(0)
		if s.operands[1] != s.feature {
			zero = s.scalar(0)
		}
		present := s.emit("Not", []string{s.emit("Less", []string{in[1], zero})})
		mask = s.emit("Unsqueeze", []string{present, s.integers(1, 2)})
	}
	if !o.Causal {
		return mask
	}
	past := make([]byte, steps*steps)
	for t := range steps {
		for u := range t + 1 {
			past[t*steps+u] = 1
		}
	}
	causal := s.uniqueName("past")
	s.graph.bytes(5, tensorProto(causal, bools, []int{1, 1, steps, steps}, past))
	if mask == "" {
		return causal
	}
	return s.emit("And", []string{mask, causal})
}
