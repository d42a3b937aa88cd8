package op

import (
	"math"
	"math/rand/v2"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Conv2D with one group is Gorgonia's Conv2d. With several groups it is the convolution
// of each group's channels.
func TestConv2D_AgreesWithGorgonia(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 5))
		w, h, wd := someWindow(r)
		b, groups := between(r, 1, 3), between(r, 1, 3)
		cg, og := between(r, 1, 3), between(r, 1, 3)
		x := normal(r, b, groups*cg, h, wd)
		kernel := normal(r, groups*og, cg, w.KernelH, w.KernelW)
		bias := normal(r, groups*og)
		got := trial{Conv2D{w, groups, Identity}, []operand{x, kernel, bias}}.do(t)

		places := got.shape[2] * got.shape[3]
		for k := range groups {
			g := G.NewGraph()
			part := operand{tensor.Shape{b, cg, h, wd}, nil}
			for n := range b {
				part.values = append(part.values, cut(cut(x.values, b, n), groups, k)...)
			}
			own := operand{tensor.Shape{og, cg, w.KernelH, w.KernelW}, cut(kernel.values, groups, k)}
			y, err := G.Conv2d(part.node(t, g, "x"), own.node(t, g, "w"), tensor.Shape{w.KernelH, w.KernelW},
				[]int{w.PadH, w.PadW}, []int{w.StrideH, w.StrideW}, []int{w.DilationH, w.DilationW})
			if err != nil {
				t.Fatal(err)
			}
			want := run(t, y)[0]
			for i := range want {
				want[i] += bias.values[k*og+i/places%og]
			}
			var mine []float64
			for n := range b {
				mine = append(mine, cut(cut(got.values, b, n), groups, k)...)
			}
			same(t, trial{Conv2D{w, groups, Identity}, nil}.spec.String(), mine, want, 1e-12)
		}
	}
}

// A convolution of one picture with one kernel, computed by hand.
func TestConv2D_ByHand(t *testing.T) {
	y := trial{Conv2D{Window{2, 2, 1, 1, 0, 0, 1, 1}, 1, Identity}, []operand{
		{tensor.Shape{1, 1, 2, 3}, []float64{1, 2, 3, 4, 5, 6}},
		{tensor.Shape{1, 1, 2, 2}, []float64{1, 10, 100, 1000}},
		{tensor.Shape{1}, []float64{0.5}},
	}}.do(t)
	same(t, "convolution", y.values, []float64{5421.5, 6532.5}, 0)
}

func TestMaxPool2D_AgreesWithGorgonia(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 7))
		w, h, wd := someWindow(r)
		w.DilationH, w.DilationW = 1, 1 // Gorgonia has no dilation
		w.PadH, w.PadW = r.IntN(w.KernelH/2+1), r.IntN(w.KernelW/2+1)
		x := normal(r, between(r, 1, 3), between(r, 1, 3), h, wd)
		g := G.NewGraph()
		y, err := G.MaxPool2D(x.node(t, g, "x"), tensor.Shape{w.KernelH, w.KernelW}, []int{w.PadH, w.PadW}, []int{w.StrideH, w.StrideW})
		if err != nil {
			t.Fatal(err)
		}
		same(t, w.String(), trial{MaxPool2D{w}, []operand{x}}.do(t).values, run(t, y)[0], 0)
	}
}

// Padding is not the maximum, even of negative numbers. The first of equal numbers wins.
// A NaN propagates.
func TestMaxPool2D_AtTheEdge(t *testing.T) {
	w := Window{2, 2, 1, 1, 1, 1, 1, 1}
	x := operand{tensor.Shape{1, 1, 2, 2}, []float64{-4, -3, -2, -2}}
	y := trial{MaxPool2D{w}, []operand{x}}.do(t)
	same(t, "maxima", y.values, []float64{-4, -3, -3, -2, -2, -2, -2, -2, -2}, 0)

	dy := operand{y.shape, []float64{1, 10, 100, 1000, 1e4, 1e5, 1e6, 1e7, 1e8}}
	dx := trial{MaxPoolGrad{w}, []operand{x, dy}}.do(t)
	same(t, "gradient", dx.values, []float64{1, 110, 11011000, 100100000}, 0)

	x.values[1] = math.NaN()
	if y := (trial{MaxPool2D{w}, []operand{x}}).do(t).values; !math.IsNaN(y[4]) || y[3] != -2 {
		t.Errorf("a NaN in a corner gives %v", y)
	}
}

func TestAvgPool2D_CountsPadding(t *testing.T) {
	x := operand{tensor.Shape{1, 1, 2, 2}, []float64{4, 8, 12, 16}}
	y := trial{AvgPool2D{Window{2, 2, 1, 1, 1, 1, 1, 1}}, []operand{x}}.do(t)
	same(t, "means", y.values, []float64{1, 3, 2, 4, 10, 6, 3, 7, 4}, 0)
	y = trial{AvgPool2D{Window{2, 2, 1, 1, 0, 0, 1, 1}}, []operand{x}}.do(t)
	same(t, "global mean", y.values, []float64{10}, 0)
}

func TestNormalize_MeanZeroVarianceOne(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	x := normal(r, 3, 4, 6)
	for i := range x.values {
		x.values[i] = 50 + 7*x.values[i]
	}
	for _, chunk := range []int{6, 12, 24} {
		y := trial{Normalize{chunk, 1e-12, true}, []operand{x}}.do(t)
		for at := 0; at < len(y.values); at += chunk {
			var sum, square float64
			for _, v := range y.values[at : at+chunk] {
				sum += v
				square += v * v
			}
			if !(math.Abs(sum) <= 1e-10) || !(math.Abs(square/float64(chunk)-1) <= 1e-10) {
				t.Errorf("chunk of %d at %d: sum %g, mean square %g", chunk, at, sum, square/float64(chunk))
			}
		}
	}
	y := trial{Normalize{2, 1, false}, []operand{{tensor.Shape{1, 2}, []float64{3, 4}}}}.do(t)
	same(t, "not centred", y.values, []float64{3 / math.Sqrt(13.5), 4 / math.Sqrt(13.5)}, 1e-15)
	y = trial{Normalize{2, 1, true}, []operand{{tensor.Shape{1, 2}, []float64{7, 7}}}}.do(t)
	same(t, "constant", y.values, []float64{0, 0}, 0)
}

func TestActivation_KnownPoints(t *testing.T) {
	for _, c := range []struct {
		act     Activation
		x, want float64
	}{
		{ReLU, -1, 0}, {ReLU, 2, 2}, {Tanh, 0.5, 0.46211715726000975}, {Sigmoid, math.Log(3), 0.75},
		{Sigmoid, -1000, 0}, {GELU, 1, 0.8413447460685429}, {GELU, -1, -0.15865525393145707}, {Identity, 3, 3},
		{LeakyReLU, 2, 2}, {LeakyReLU, -2, -0.02}, {ELU, 2, 2}, {ELU, -math.Ln2, -0.5},
		{SiLU, math.Log(3), 0.75 * math.Log(3)}, {Softplus, math.Log(3), math.Log(4)}, {Softplus, 1000, 1000},
		{Softplus, -1000, 0},
	} {
		if got := c.act.apply(c.x); !(math.Abs(got-c.want) <= 1e-15) {
			t.Errorf("%v(%v) = %v, want %v", c.act, c.x, got, c.want)
		}
		if !math.IsNaN(c.act.apply(math.NaN())) {
			t.Errorf("%v hides a NaN", c.act)
		}
	}
	// At the kink the slope is the left one, as in PyTorch.
	for act, want := range map[Activation]float64{ReLU: 0, LeakyReLU: 0.01, ELU: 1} {
		if got := act.slope(0); got != want {
			t.Errorf("%v has slope %v at 0, want %v", act, got, want)
		}
	}
	if got := ReLU.slope(math.NaN()); got != 1 {
		t.Errorf("a NaN has slope %v: it would be hidden", got)
	}
}

func TestCrossEntropy(t *testing.T) {
	x := operand{tensor.Shape{6, 3}, []float64{
		math.Log(2), math.Log(3), math.Log(5), // softmax 0.2, 0.3, 0.5
		1000, 0, -1000,
		1, 2, 3, // ignored
		1, 2, 3, // not a class
		1, 2, 3, // not a whole number
		1, 2, 3, // neither
	}}
	labels := operand{tensor.Shape{6}, []float64{1, 2, -1, 3, 0.5, -2}}
	loss := trial{CrossEntropy{}, []operand{x, labels}}.do(t).values
	same(t, "losses", loss[:3], []float64{-math.Log(0.3), 2000, 0}, 1e-15)

	dloss := operand{tensor.Shape{6}, []float64{2, 1, 1, 1, 1, 1}}
	dx := trial{CrossEntropyGrad{}, []operand{x, labels, dloss}}.do(t).values
	same(t, "gradient", dx[:9], []float64{0.4, -1.4, 1, 1, 0, -1, 0, 0, 0}, 1e-15)
	for r := 3; r < 6; r++ {
		if !math.IsNaN(loss[r]) || !math.IsNaN(dx[3*r]) {
			t.Errorf("label %v: loss %v, gradient %v; want NaN", labels.values[r], loss[r], dx[3*r:3*r+3])
		}
	}
}

// Smoothing mixes the label with the uniform distribution over all classes.
func TestCrossEntropy_Smoothing(t *testing.T) {
	x := operand{tensor.Shape{2, 3}, []float64{math.Log(2), math.Log(3), math.Log(5), 1, 2, 3}}
	labels := operand{tensor.Shape{2}, []float64{1, -1}}
	loss := trial{CrossEntropy{Smoothing: 0.3}, []operand{x, labels}}.do(t).values
	want := -0.1*math.Log(0.2) - 0.8*math.Log(0.3) - 0.1*math.Log(0.5)
	same(t, "losses", loss, []float64{want, 0}, 1e-15)
}

func TestElementLoss_KnownPoints(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		kind            ElementLoss
		x, target, want float64
	}{
		{AbsoluteError, 1, 3.5, 2.5}, {AbsoluteError, 4, 3.5, 0.5},
		{HuberError, 1, 1.5, 0.125}, {HuberError, 1, 6, 2 * (5 - 1)}, // quadratic up to 2
		{PoissonLoss, math.Log(3), 2, 3 - 2*math.Log(3)},
		{HingeLoss, 0.25, 1, 0.75}, {HingeLoss, 0.25, -1, 1.25}, {HingeLoss, 2, 1, 0},
		{AbsoluteError, nan, 1, nan}, {HuberError, 1, nan, nan}, {PoissonLoss, 1, nan, nan}, {HingeLoss, nan, 1, nan},
	} {
		in := []operand{{tensor.Shape{1, 1}, []float64{c.x}}, {tensor.Shape{1, 1}, []float64{c.target}}}
		spec := ElementLosses{Kind: c.kind, Width: 2}
		got := trial{spec, in}.do(t).values[0]
		slope := trial{ElementLossesGrad(spec), append(in, operand{tensor.Shape{1}, []float64{1}})}.do(t).values[0]
		if math.IsNaN(c.want) {
			if !math.IsNaN(got) || !math.IsNaN(slope) {
				t.Errorf("%v(%v, %v) = %v with slope %v, want NaN", spec, c.x, c.target, got, slope)
			}
		} else if !(math.Abs(got-c.want) <= 1e-15) {
			t.Errorf("%v(%v, %v) = %v, want %v", spec, c.x, c.target, got, c.want)
		}
	}
	for _, kind := range []ElementLoss{AbsoluteError, HuberError, HingeLoss} { // at the kink, or where the loss is 0
		if loss, slope := kind.At(1, 1, 2); loss != 0 || slope != 0 {
			t.Errorf("%v(1, 1) = %v with slope %v, want 0 with 0", kind, loss, slope)
		}
	}
}

func TestReplace(t *testing.T) {
	x := operand{tensor.Shape{2, 2}, []float64{0, 3, 1, 0}}
	same(t, "labels", trial{Replace{Old: 0, New: -1}, []operand{x}}.do(t).values, []float64{-1, 3, 1, -1}, 0)
}

func TestElementLosses_PerRow(t *testing.T) {
	x := operand{tensor.Shape{2, 2}, []float64{0, math.Log(3), 800, -800}}
	target := operand{tensor.Shape{2, 2}, []float64{1, 0.25, 0, 1}}
	sigmoid := trial{SigmoidCrossEntropy{}, []operand{x, target}}.do(t).values
	same(t, "sigmoid cross-entropy", sigmoid, []float64{math.Ln2 + math.Log(4) - math.Log(3)/4, 1600}, 1e-15)

	y := operand{tensor.Shape{2, 2}, []float64{1, 2, 3, 4}}
	squared := trial{SquaredError{}, []operand{y, target}}.do(t).values
	same(t, "squared error", squared, []float64{1.75 * 1.75, 18}, 1e-15)
}

func TestEmbed_ZerosOutsideTable(t *testing.T) {
	table := operand{tensor.Shape{2, 2}, []float64{1, 2, 3, 4}}
	index := operand{tensor.Shape{6}, []float64{1, 0, -1, 2, 0.5, math.NaN()}}
	y := trial{Embed{}, []operand{table, index}}.do(t)
	same(t, "rows", y.values, []float64{3, 4, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0}, 0)
	d := trial{EmbedGrad{2, 2, 1}, []operand{index, y}}.do(t)
	same(t, "gradient", d.values, []float64{1, 2, 3, 4}, 0)
}
