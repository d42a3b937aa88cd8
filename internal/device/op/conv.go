package op

import (
	"fmt"
	"slices"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Conv2D is act(x ∗ W + b) for pictures x [B, C, H, W], weights W [O, C/Groups, KernelH,
// KernelW] and biases b [O]. The result is [B, O, OH, OW]. As usual in deep learning, the
// kernel is not flipped. Act's derivative must be a function of its output
// (Activation.FromOutput).
type Conv2D struct {
	Window
	Groups int
	Act    Activation
}

func (c Conv2D) String() string { return fmt.Sprintf("conv2d{%v,g%d,%v}", c.Window, c.Groups, c.Act) }

func (c Conv2D) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 3); err != nil {
		return nil, err
	}
	if !c.Act.FromOutput() {
		return nil, fmt.Errorf("%v cannot be fused: its derivative needs the input", c.Act)
	}
	x, w, b := in[0], in[1], in[2]
	oh, ow, err := c.checkPicture(x)
	if err != nil {
		return nil, err
	}
	if err := checkGroups(c.Groups, x[1], w, c.Window); err != nil {
		return nil, err
	}
	if b.Dims() != 1 || b[0] != w[0] {
		return nil, fmt.Errorf("bias of shape %v for %d channels", b, w[0])
	}
	return tensor.Shape{x[0], w[0], oh, ow}, nil
}

// checkGroups checks that weights w fit pictures with the given number of channels.
func checkGroups(groups, channels int, w tensor.Shape, win Window) error {
	if w.Dims() != 4 || w[2] != win.KernelH || w[3] != win.KernelW {
		return fmt.Errorf("weight of shape %v for a kernel of %d by %d", w, win.KernelH, win.KernelW)
	}
	if groups < 1 || channels%groups != 0 || w[0]%groups != 0 || w[1] != channels/groups {
		return fmt.Errorf("weight of shape %v for %d channels in %d groups", w, channels, groups)
	}
	return nil
}

// forEachProduct calls f with the indices in y, x and W of every product that the
// convolution of b pictures adds up.
func (g ConvWeight) forEachProduct(b int, f func(y, x, w int)) {
	oh, ow, _ := g.OutputSize(g.H, g.W)
	taps := g.taps(g.H, g.W)
	cg, og := g.C/g.Groups, g.O/g.Groups
	for n := range b {
		for o := range g.O {
			for c := range cg {
				y := (n*g.O + o) * oh * ow
				x := (n*g.C + o/og*cg + c) * g.H * g.W
				w := (o*cg + c) * g.KernelH * g.KernelW
				for _, t := range taps {
					f(y+t.Out, x+t.Picture, w+t.Kernel)
				}
			}
		}
	}
}

func (c Conv2D) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	x, w, b := in[0], in[1], in[2]
	n := len(out) / shapes[0][0] / len(b)
	for i := range out {
		out[i] = b[i/n%len(b)]
	}
	c.weight(shapes[0], shapes[1]).forEachProduct(shapes[0][0], func(oi, xi, wi int) { out[oi] += x[xi] * w[wi] })
	for i, v := range out {
		out[i] = c.Act.apply(v)
	}
}

// weight is the form of the weight's gradient for the given operands.
func (c Conv2D) weight(x, w tensor.Shape) ConvWeight {
	return ConvWeight{Window: c.Window, Groups: c.Groups, C: x[1], H: x[2], W: x[3], O: w[0]}
}

func (c Conv2D) Rows(int) []bool { return []bool{true, false, false} }
func (c Conv2D) Wrt(int) []bool  { return allTrue(3) }

// shift is the form of the bias's gradient for a result of the given shape.
func (c Conv2D) shift(out tensor.Shape) Shift {
	return Shift{Channels: out[1], Inner: out[2] * out[3]}
}

func (c Conv2D) Diff(in G.Nodes, out, grad *G.Node) (G.Nodes, error) {
	d, err := c.Act.preActivationGrad(out, grad)
	if err != nil {
		return nil, err
	}
	form := c.weight(in[0].Shape(), in[1].Shape())
	dx, err := Apply(ConvGradInput(form), d, in[1])
	if err != nil {
		return nil, err
	}
	dw, err := Apply(ConvGradWeight(form), in[0], d)
	if err != nil {
		return nil, err
	}
	db, err := Apply(ChannelSum(c.shift(out.Shape())), d)
	return G.Nodes{dx, dw, db}, err
}

func (c Conv2D) Use(i int, in G.Nodes, out, grad *G.Node) (Use, error) {
	d, err := c.Act.preActivationGrad(out, grad)
	if err != nil {
		return Use{}, err
	}
	if i == 1 {
		return Use{Form: c.weight(in[0].Shape(), in[1].Shape()), A: in[0], Delta: d}, nil
	}
	return Use{Form: c.shift(out.Shape()), Delta: d}, nil
}

// ConvWeight is x ∗ W for pictures [C, H, W] and O kernels, the form of the weight's
// gradient [O, C/Groups, KernelH, KernelW]. It is a product whose rows are the windows of
// the pictures.
type ConvWeight struct {
	Window
	Groups     int
	C, H, W, O int
}

func (g ConvWeight) geometry() string {
	return fmt.Sprintf("%v,g%d,%dx%dx%d,%d", g.Window, g.Groups, g.C, g.H, g.W, g.O)
}

func (g ConvWeight) String() string { return "convWeight{" + g.geometry() + "}" }
func (g ConvWeight) Size() int      { return g.O * g.C / g.Groups * g.KernelH * g.KernelW }

func (g ConvWeight) AddGradient(dst, a, delta []float64) {
	g.forEachProduct(len(a)/(g.C*g.H*g.W), func(yi, xi, wi int) { dst[wi] += a[xi] * delta[yi] })
}

// BuildsGradient reports whether building a record's gradient in float32 from this many windows is less
// work for a CPU than its Gram matrices. The clipped sum then adds exactly the gradients whose norms
// were computed. In exact arithmetic a GPU makes the same choice: the gradients of other
// convolutions are not built, their rows are rounded.
func (g ConvWeight) BuildsGradient(windows int) bool {
	return 4*g.Size() <= 5*windows*(g.C/g.Groups*g.KernelH*g.KernelW+g.O)
}

// result checks the shape of the result's gradient and returns the number of pictures.
func (g ConvWeight) result(dy tensor.Shape) (int, error) {
	oh, ow, err := g.OutputSize(g.H, g.W)
	if err != nil {
		return 0, err
	}
	if dy.Dims() != 4 || dy[1] != g.O || dy[2] != oh || dy[3] != ow {
		return 0, fmt.Errorf("gradient of shape %v where [batch, %d, %d, %d] is needed", dy, g.O, oh, ow)
	}
	return dy[0], nil
}

// ConvGradInput is the gradient in the pictures, from the gradient of the result and the
// weight.
type ConvGradInput ConvWeight

func (g ConvGradInput) String() string { return "convGradInput{" + ConvWeight(g).geometry() + "}" }

func (g ConvGradInput) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 2); err != nil {
		return nil, err
	}
	b, err := ConvWeight(g).result(in[0])
	if err != nil {
		return nil, err
	}
	if err := checkGroups(g.Groups, g.C, in[1], g.Window); err != nil {
		return nil, err
	}
	if in[1][0] != g.O {
		return nil, fmt.Errorf("weight of shape %v for %d channels of the result", in[1], g.O)
	}
	return tensor.Shape{b, g.C, g.H, g.W}, nil
}

func (g ConvGradInput) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	clear(out)
	ConvWeight(g).forEachProduct(shapes[0][0], func(yi, xi, wi int) { out[xi] += in[0][yi] * in[1][wi] })
}

// ConvGradWeight is the gradient in the weight, from the pictures and the gradient of the
// result.
type ConvGradWeight ConvWeight

func (g ConvGradWeight) String() string { return "convGradWeight{" + ConvWeight(g).geometry() + "}" }

func (g ConvGradWeight) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 2); err != nil {
		return nil, err
	}
	b, err := ConvWeight(g).result(in[1])
	if err != nil {
		return nil, err
	}
	if !slices.Equal(in[0], tensor.Shape{b, g.C, g.H, g.W}) {
		return nil, fmt.Errorf("pictures of shape %v where %v is needed", in[0], tensor.Shape{b, g.C, g.H, g.W})
	}
	w := tensor.Shape{g.O, g.C / max(g.Groups, 1), g.KernelH, g.KernelW}
	return w, checkGroups(g.Groups, g.C, w, g.Window)
}

func (g ConvGradWeight) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	clear(out)
	ConvWeight(g).AddGradient(out, in[0], in[1])
}

// ConvGradInput is also a layer, the transposed convolution: it scatters pictures [B, O,
// OH, OW] over [B, C, H, W], where Conv2D gathers. Its derivative is therefore Conv2D,
// and in the form of its weight the two tensors swap roles.

func (g ConvGradInput) Rows(int) []bool { return []bool{true, false} }
func (g ConvGradInput) Wrt(int) []bool  { return allTrue(2) }

func (g ConvGradInput) Diff(in G.Nodes, _, grad *G.Node) (G.Nodes, error) {
	// Gorgonia merges constants that it prints alike, and it prints only the ends of long
	// ones. The name makes this constant distinct.
	none := G.NewVector(grad.Graph(), grad.Dtype(), G.WithShape(g.O), G.WithName(fmt.Sprintf("dptrain: no bias of %d", g.O)),
		G.WithValue(tensor.New(tensor.Of(grad.Dtype()), tensor.WithShape(g.O))))
	dx, err := Apply(Conv2D{Window: g.Window, Groups: g.Groups}, grad, in[1], none)
	if err != nil {
		return nil, err
	}
	dw, err := Apply(ConvGradWeight(g), grad, in[0])
	return G.Nodes{dx, dw}, err
}

func (g ConvGradInput) Use(_ int, in G.Nodes, _, grad *G.Node) (Use, error) {
	return Use{Form: ConvWeight(g), A: grad, Delta: in[0]}, nil
}
