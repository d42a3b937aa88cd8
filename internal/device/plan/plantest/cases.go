package plantest

import (
	"math"
	"math/rand/v2"

	"github.com/dptrain/dptrain/internal/device/op"
	"gorgonia.org/tensor"
)

// trials collects the trials that a generator draws.
type trials struct {
	r    *rand.Rand
	b    int // records
	list []trial
}

// apart adds an operation that treats each record separately.
func (ts *trials) apart(tolerance float64, s op.Operation, in ...operand) {
	ts.list = append(ts.list, trial{spec: fixed(s), in: in, records: ts.b, apart: true, tolerance: tolerance})
}

// joint adds an operation whose result belongs to several records.
func (ts *trials) joint(tolerance float64, s op.Operation, in ...operand) {
	ts.list = append(ts.list, trial{spec: fixed(s), in: in, records: ts.b, tolerance: tolerance})
}

func fixed(s op.Operation) func(int) op.Operation { return func(int) op.Operation { return s } }

// size draws 1, small and prime numbers, numbers near the widths of SIMD vectors, and
// numbers larger than a block of the matrix product. Few are large, so that the suite is
// fast.
func size(r *rand.Rand) int {
	switch r.IntN(8) {
	case 0:
		return 1
	case 1:
		return []int{15, 16, 17, 31, 32, 33, 64}[r.IntN(7)]
	case 2:
		return []int{127, 130, 257, 263}[r.IntN(4)]
	}
	return between(r, 2, 13)
}

// draw draws one trial of every operation.
func draw(r *rand.Rand) []trial {
	ts := &trials{r: r, b: []int{1, 2, 3, 5, 7, 16, 19}[r.IntN(7)]}
	ts.products()
	ts.elementwise()
	ts.channels()
	ts.pictures()
	ts.losses()
	ts.embeddings()
	ts.moves()
	ts.recurrences()
	ts.attentions()
	ts.private()
	return ts.list
}

func (ts *trials) products() {
	r := ts.r
	n, p, d := ts.b*between(r, 1, 3), size(r), size(r)
	for _, a := range []op.Activation{op.Identity, op.ReLU, op.Tanh, op.Sigmoid} {
		ts.apart(1e-5, op.Linear{Act: a}, normal(r, n, p), weight(normal(r, p, d)), weight(normal(r, d)))
	}
	ts.apart(1e-5, op.MatMul{}, normal(r, n, p), weight(normal(r, p, d)))
	ts.apart(1e-5, op.MatMul{TransB: true}, normal(r, n, p), weight(normal(r, d, p)))
	ts.joint(1e-5, op.MatMul{TransA: true}, normal(r, n, p), normal(r, n, d))
	ts.apart(1e-5, op.MatVec{}, normal(r, n, p), weight(normal(r, p)))
	ts.joint(1e-5, op.MatVec{Trans: true}, normal(r, n, p), normal(r, n))
	ts.joint(1e-5, op.Dot{}, normal(r, n), normal(r, n))
	ts.joint(1e-5, op.MatMul{TransA: true, TransB: true}, weight(normal(r, n, p)), normal(r, d, n))
}

func (ts *trials) elementwise() {
	r, n, d := ts.r, ts.b*between(ts.r, 1, 3), size(ts.r)
	for _, a := range []op.Activation{op.Identity, op.ReLU, op.Tanh, op.Sigmoid, op.GELU, op.LeakyReLU, op.ELU, op.SiLU, op.Softplus} {
		ts.apart(1e-6, op.Activate{Act: a}, normal(r, n, d))
		ts.apart(1e-6, op.ActivationGrad{Act: a}, normal(r, n, d), normal(r, n, d))
	}
	ts.apart(1e-6, op.Add{}, normal(r, n, d), normal(r, n, d))
	for _, k := range []string{"+", "-", "*", "/", "<", ">", "<=", ">=", "==", "!="} {
		ts.apart(1e-6, op.Binary{Kind: k}, whole(r, 1, 4, n, d), whole(r, 1, 4, n, d))
		ts.apart(1e-6, op.Binary{Kind: k}, whole(r, 1, 4, n, d), weight(whole(r, 1, 4)))
		ts.apart(1e-6, op.Binary{Kind: k}, weight(whole(r, 1, 4)), whole(r, 1, 4, n, d))
	}
	positive := normal(r, n, d)
	for i, v := range positive.values {
		positive.values[i] = v*v + 0.1
	}
	ts.apart(1e-6, op.Binary{Kind: "^"}, positive, normal(r, n, d))
	for _, k := range []string{"abs", "sign", "ceil", "floor", "sin", "cos", "exp", "ln", "neg", "square", "sqrt",
		"inv", "cube", "tanh", "sigmoid", "log1p", "expm1", "softplus"} {
		ts.apart(1e-6, op.Unary{Kind: k}, positive)
	}
	ts.apart(1e-6, op.Dropout{Rate: 0.3, Seed: 5<<32 + 1, Layer: 7}, normal(r, n, d, 3), whole(r, 0, 1<<24, n, op.MaskSeedWidth))
	ts.joint(1e-5, op.Total{Scale: 0.25}, normal(r, n, d))
	ts.list = append(ts.list, trial{
		spec:    func(b int) op.Operation { return op.Spread{To: op.AxesOf(b, d), Scale: 3} },
		in:      []operand{weight(normal(r))},
		records: ts.b, apart: true, tolerance: 1e-6,
	})
}

func (ts *trials) channels() {
	r, n := ts.r, ts.b*between(ts.r, 1, 3)
	for _, inner := range []int{1, between(r, 2, 40)} {
		c := size(r)
		x, y := normal(r, n, c, inner), normal(r, n, c, inner)
		ts.apart(1e-6, op.ScaleShift{Channels: c, Inner: inner}, x, weight(normal(r, c)), weight(normal(r, c)))
		ts.apart(1e-6, op.ChannelScale{Channels: c, Inner: inner}, x, weight(normal(r, c)))
		ts.joint(1e-5, op.ChannelSum{Channels: c, Inner: inner}, x)
		ts.joint(1e-5, op.ChannelDot{Channels: c, Inner: inner}, x, y)
		// In chunks of one or two elements the gradient is entirely cancellation.
		c += 4
		x, y = normal(r, n, c, inner), normal(r, n, c, inner)
		far := normal(r, n, c, inner)
		for i := range far.values {
			far.values[i] += 30
		}
		for _, center := range []bool{true, false} {
			s := op.Normalize{Chunk: c * inner, Eps: 1e-2, Center: center}
			ts.apart(2e-5, s, far)
			ts.apart(2e-5, op.NormalizeGrad(s), x, y)
			ts.apart(2e-5, op.NormalizeGrad(s), far, y)
		}
	}
}

// window draws a window and pictures that it fits. The padding is small enough that every
// position covers the picture.
func window(r *rand.Rand) (w op.Window, height, width int) {
	axis := func() (size, k, s, p, d int) {
		k, s, d = between(r, 1, 5), between(r, 1, 3), between(r, 1, 2)
		p = r.IntN((k-1)*d/2 + 1)
		return (k-1)*d + 1 + r.IntN(12), k, s, p, d
	}
	height, w.KernelH, w.StrideH, w.PadH, w.DilationH = axis()
	width, w.KernelW, w.StrideW, w.PadW, w.DilationW = axis()
	return w, height, width
}

// convolution draws the form of a convolution, and pictures for it.
func (ts *trials) convolution(pictures int) (f op.ConvWeight, x, y operand) {
	r := ts.r
	w, height, width := window(r)
	if r.IntN(4) == 0 {
		w = op.Window{KernelH: 1, KernelW: 1, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1}
	}
	groups := between(r, 1, 2)
	f = op.ConvWeight{
		Window: w, Groups: groups, C: groups * between(r, 1, 3), H: height, W: width, O: groups * between(r, 1, 9),
	}
	if r.IntN(4) == 0 { // a shape and size for which devices have kernels of their own
		side := 3 + 2*r.IntN(2)
		w = op.Window{KernelH: side, KernelW: side, StrideH: 1, StrideW: 1, PadH: r.IntN(side - 1),
			PadW: r.IntN(side - 1), DilationH: 1, DilationW: 1}
		height, width = between(r, side, 13), between(r, side, 13)
		f = op.ConvWeight{Window: w, Groups: 1, C: between(r, 16, 19), H: height, W: width, O: between(r, 16, 19)}
	}
	oh, ow, err := w.OutputSize(height, width)
	if err != nil {
		panic(err)
	}
	return f, normal(r, pictures, f.C, height, width), normal(r, pictures, f.O, oh, ow)
}

func (ts *trials) pictures() {
	r := ts.r
	for _, a := range []op.Activation{op.Identity, op.ReLU, op.Tanh, op.Sigmoid} {
		f, x, y := ts.convolution(ts.b)
		weights := weight(normal(r, f.O, f.C/f.Groups, f.KernelH, f.KernelW))
		for i := range weights.values { // of the size that networks have, so that saturated sigmoids do not hide the inputs
			weights.values[i] /= float32(math.Sqrt(float64(f.Size() / f.O)))
		}
		ts.apart(1e-5, op.Conv2D{Window: f.Window, Groups: f.Groups, Act: a}, x, weights, weight(normal(r, f.O)))
		ts.apart(1e-5, op.ConvGradInput(f), y, weights)
		ts.joint(1e-5, op.ConvGradWeight(f), x, y)
	}
	w, height, width := window(r)
	x := whole(r, 0, 6, ts.b, between(r, 1, 4), height, width)
	for _, w := range []op.Window{w, {KernelH: height, KernelW: width, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1}} {
		oh, ow, err := w.OutputSize(height, width)
		if err != nil {
			panic(err)
		}
		y := normal(r, ts.b, x.shape[1], oh, ow)
		ts.apart(1e-6, op.MaxPool2D{Window: w}, x)
		ts.apart(1e-6, op.MaxPoolGrad{Window: w}, x, y)
		ts.apart(1e-6, op.AvgPool2D{Window: w}, x)
		ts.apart(1e-6, op.AvgPoolGrad{Window: w, H: height, W: width}, y)
		ts.apart(0, op.Im2Col{Window: w}, x)
		rows := normal(r, ts.b, oh, ow, x.shape[1]*w.KernelH*w.KernelW)
		ts.apart(1e-6, op.Col2Im{Window: w, C: x.shape[1], H: height, W: width}, rows)
	}
}

// vocabularyLosses has numbers of its own, so that the other trials keep theirs.
func (ts *trials) vocabularyLosses(labels operand, classes int) {
	r, n := rand.New(rand.NewPCG(uint64(classes), 5)), len(labels.values)
	width := between(r, 1, 20)
	rows, slopes, bias := normal(r, n, width), normal(r, n), weight(normal(r, classes))
	table, matrix := weight(normal(r, classes, width)), weight(normal(r, width, classes))
	ts.apart(1e-5, op.VocabularyLoss{Trans: true}, rows, table, labels)
	ts.apart(1e-5, op.VocabularyLossGrad{Trans: true}, rows, table, labels, slopes)
	ts.apart(1e-5, op.VocabularyLoss{}, rows, matrix, labels)
	ts.apart(1e-5, op.VocabularyLossGrad{}, rows, matrix, labels, slopes)
	ts.apart(1e-5, op.VocabularyLoss{Bias: true}, rows, matrix, bias, labels)
	ts.apart(1e-5, op.VocabularyLossGrad{Bias: true}, rows, matrix, bias, labels, slopes)
}

func (ts *trials) losses() {
	r, n, d := ts.r, ts.b*between(ts.r, 1, 3), size(ts.r)
	logits := normal(r, n, d)
	for i := range logits.values {
		logits.values[i] *= 20
	}
	labels := whole(r, -1, d+1, n) // some ignored, some invalid
	ts.apart(1e-5, op.CrossEntropy{}, logits, labels)
	ts.apart(1e-5, op.CrossEntropyGrad{}, logits, labels, normal(r, n))
	ts.apart(1e-5, op.CrossEntropy{Smoothing: 0.1}, logits, labels)
	ts.apart(1e-5, op.CrossEntropyGrad{Smoothing: 0.1}, logits, labels, normal(r, n))
	ts.vocabularyLosses(labels, d)
	ts.apart(0, op.Replace{Old: 0, New: -1}, labels)
	for _, e := range []op.ElementLoss{op.AbsoluteError, op.HuberError, op.PoissonLoss, op.HingeLoss} {
		s := op.ElementLosses{Kind: e, Width: 0.5}
		ts.apart(1e-5, s, normal(r, n, d), whole(r, -1, 2, n, d))
		ts.apart(1e-5, op.ElementLossesGrad(s), normal(r, n, d), whole(r, -1, 2, n, d), normal(r, n))
	}
	for _, log := range []bool{false, true} {
		for axis := range 2 {
			s := op.Softmax{Axis: 1 + axis, Log: log}
			ts.apart(1e-5, s, normal(r, n, d, 3))
			ts.apart(1e-5, op.SoftmaxGrad(s), normal(r, n, d, 3), normal(r, n, d, 3))
		}
	}
	ts.apart(1e-5, op.SigmoidCrossEntropy{}, logits, normal(r, n, d))
	ts.apart(1e-5, op.SigmoidCrossEntropyGrad{}, logits, normal(r, n, d), normal(r, n))
	ts.apart(1e-5, op.SquaredError{}, normal(r, n, d), normal(r, n, d))
	ts.apart(1e-5, op.SquaredErrorGrad{}, normal(r, n, d), normal(r, n, d), normal(r, n))
}

func (ts *trials) embeddings() {
	r, v, d, t := ts.r, between(ts.r, 1, 40), size(ts.r), between(ts.r, 1, 20)
	index := whole(r, -1, v+1, ts.b, t)
	ts.apart(0, op.Embed{}, weight(normal(r, v, d)), index)
	ts.joint(1e-5, op.EmbedGrad{Vocabulary: v, Dim: d, Bag: 1}, index, normal(r, ts.b, t, d))
	ts.joint(1e-5, op.EmbedGrad{Vocabulary: v, Dim: d, Bag: t}, index, normal(r, ts.b, d))
	ts.apart(1e-5, op.EmbedBag{Scale: 0.3}, weight(normal(r, v, d)), index)
}

func (ts *trials) moves() {
	r, a, c, d := ts.r, between(ts.r, 1, 9), between(ts.r, 1, 20), size(ts.r)
	x := normal(r, ts.b, a, c, d)
	ts.list = append(ts.list, trial{
		spec: func(b int) op.Operation { return op.Reshape{To: op.AxesOf(b*a, c*d)} },
		in:   []operand{x}, records: ts.b, apart: true,
	})
	ts.apart(0, op.Permute{Order: op.AxesOf(0, 2, 1, 3)}, x)
	ts.apart(0, op.Permute{Order: op.AxesOf(0, 3, 1, 2)}, x)
	ts.joint(0, op.Permute{Order: op.AxesOf(3, 0, 2, 1)}, x)
	ts.joint(0, op.Permute{Order: op.AxesOf(0, 1, 2, 3)}, x)
	for axis := range 4 {
		ts.joint(0, op.Repeat{Axis: axis, Times: 3}, x)
		n := x.shape[axis]
		s := op.Slice{Axis: axis, From: r.IntN(n), Step: between(r, 1, 3)}
		s.Count = 1 + r.IntN((n-1-s.From)/s.Step+1)
		part, err := s.Shape([]tensor.Shape{x.shape})
		if err != nil {
			panic(err)
		}
		ts.joint(0, s, x)
		ts.joint(0, op.SliceGrad{Slice: s}, x, normal(r, part...))
		more := x.shape.Clone()
		more[axis] = between(r, 1, 5)
		ts.joint(0, op.Concat{Axis: axis}, x, normal(r, more...), x)
	}
	for mask := range 16 {
		var over []int
		for axis := range 4 {
			if mask>>axis&1 == 1 {
				over = append(over, axis)
			}
		}
		ts.joint(1e-5, op.SumAxes{Over: op.AxesOf(over...)}, x)
	}
}
