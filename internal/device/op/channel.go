package op

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// checkChannels checks that a tensor of this shape is [rows, c, inner] in memory, and
// that axis 0 does not cut a row.
func checkChannels(s tensor.Shape, c, inner int) error {
	if n := s.TotalSize(); s.Dims() == 0 || n == 0 || c <= 0 || inner <= 0 || n%(c*inner) != 0 {
		return fmt.Errorf("shape %v is not a stack of %d channels of %d elements", s, c, inner)
	}
	return nil
}

// checkChannelsPerRow also checks that a row of axis 0 consists of whole stacks of
// channels, so that an element's channel does not depend on its row.
func checkChannelsPerRow(s tensor.Shape, c, inner int) error {
	if err := checkChannels(s, c, inner); err != nil {
		return err
	}
	if s.TotalSize()/s[0]%(c*inner) != 0 {
		return fmt.Errorf("a row of shape %v is not a stack of %d channels of %d elements", s, c, inner)
	}
	return nil
}

// ScaleShift is x⊙γ + β with one γ and β per channel; x is [rows, Channels, Inner] in
// memory. Normalize and ScaleShift together are layer, group or instance normalization.
type ScaleShift struct{ Channels, Inner int }

func (s ScaleShift) String() string { return fmt.Sprintf("scaleShift{%d,%d}", s.Channels, s.Inner) }

func (s ScaleShift) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 3); err != nil {
		return nil, err
	}
	if in[1].TotalSize() != s.Channels || in[2].TotalSize() != s.Channels {
		return nil, fmt.Errorf("scale %v and shift %v for %d channels", in[1], in[2], s.Channels)
	}
	return in[0].Clone(), checkChannelsPerRow(in[0], s.Channels, s.Inner)
}

func (s ScaleShift) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	for i, x := range in[0] {
		c := i / s.Inner % s.Channels
		out[i] = x*in[1][c] + in[2][c]
	}
}

func (s ScaleShift) Rows(int) []bool { return []bool{true, false, false} }
func (s ScaleShift) Wrt(int) []bool  { return allTrue(3) }

func (s ScaleShift) Diff(in G.Nodes, _, grad *G.Node) (G.Nodes, error) {
	dx, err := Apply(ChannelScale(s), grad, in[1])
	if err != nil {
		return nil, err
	}
	dg, err := Apply(ChannelDot(s), in[0], grad)
	if err != nil {
		return nil, err
	}
	db, err := Apply(ChannelSum(s), grad)
	return G.Nodes{dx, dg, db}, err
}

func (s ScaleShift) Use(i int, in G.Nodes, _, grad *G.Node) (Use, error) {
	if i == 1 {
		return Use{Form: Scale(s), A: in[0], Delta: grad}, nil
	}
	return Use{Form: Shift(s), Delta: grad}, nil
}

// ChannelSum sums each channel over rows and inner elements.
type ChannelSum struct{ Channels, Inner int }

func (s ChannelSum) String() string { return fmt.Sprintf("channelSum{%d,%d}", s.Channels, s.Inner) }

func (s ChannelSum) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 1); err != nil {
		return nil, err
	}
	return tensor.Shape{s.Channels}, checkChannels(in[0], s.Channels, s.Inner)
}

func (s ChannelSum) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	clear(out)
	for i, x := range in[0] {
		out[i/s.Inner%s.Channels] += x
	}
}

// ChannelDot sums the products of two tensors over each channel.
type ChannelDot struct{ Channels, Inner int }

func (s ChannelDot) String() string { return fmt.Sprintf("channelDot{%d,%d}", s.Channels, s.Inner) }

func (s ChannelDot) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if _, err := commonShape(in, 2); err != nil {
		return nil, err
	}
	return tensor.Shape{s.Channels}, checkChannels(in[0], s.Channels, s.Inner)
}

func (s ChannelDot) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	clear(out)
	for i, x := range in[0] {
		out[i/s.Inner%s.Channels] += x * in[1][i]
	}
}

// ChannelScale multiplies each channel of x by its own factor: a scale without shift.
type ChannelScale struct{ Channels, Inner int }

func (s ChannelScale) String() string {
	return fmt.Sprintf("channelScale{%d,%d}", s.Channels, s.Inner)
}

func (s ChannelScale) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 2); err != nil {
		return nil, err
	}
	if in[1].TotalSize() != s.Channels {
		return nil, fmt.Errorf("scale %v for %d channels", in[1], s.Channels)
	}
	return in[0].Clone(), checkChannelsPerRow(in[0], s.Channels, s.Inner)
}

func (s ChannelScale) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	for i, x := range in[0] {
		out[i] = x * in[1][i/s.Inner%s.Channels]
	}
}

func (s ChannelScale) Rows(int) []bool { return []bool{true, false} }
func (s ChannelScale) Wrt(int) []bool  { return allTrue(2) }

func (s ChannelScale) Diff(in G.Nodes, _, grad *G.Node) (G.Nodes, error) {
	dx, err := Apply(s, grad, in[1])
	if err != nil {
		return nil, err
	}
	dg, err := Apply(ChannelDot(s), in[0], grad)
	return G.Nodes{dx, dg}, err
}

func (s ChannelScale) Use(_ int, in G.Nodes, _, grad *G.Node) (Use, error) {
	return Use{Form: Scale(s), A: in[0], Delta: grad}, nil
}

// ChannelShift adds to each channel of x, [rows, Channels, Inner] in memory, its own
// number: a bias. With as many channels as an example has elements it adds the same
// tensor to every example, such as learned positions.
type ChannelShift struct{ Channels, Inner int }

func (s ChannelShift) String() string {
	return fmt.Sprintf("channelShift{%d,%d}", s.Channels, s.Inner)
}

func (s ChannelShift) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 2); err != nil {
		return nil, err
	}
	if in[1].TotalSize() != s.Channels {
		return nil, fmt.Errorf("shift %v for %d channels", in[1], s.Channels)
	}
	return in[0].Clone(), checkChannelsPerRow(in[0], s.Channels, s.Inner)
}

func (s ChannelShift) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	for i, x := range in[0] {
		out[i] = x + in[1][i/s.Inner%s.Channels]
	}
}

func (s ChannelShift) Rows(int) []bool { return []bool{true, false} }
func (s ChannelShift) Wrt(int) []bool  { return allTrue(2) }

// gradient is the gradient of the shift: the sums over channels, in the shape of the
// parameter, which may have several axes.
func (s ChannelShift) gradient(shift, grad *G.Node) (*G.Node, error) {
	d, err := Apply(ChannelSum(s), grad)
	if err != nil || shift.Dims() == 1 {
		return d, err
	}
	return Apply(Reshape{To: AxesOf(shift.Shape()...)}, d)
}

func (s ChannelShift) Diff(in G.Nodes, _, grad *G.Node) (G.Nodes, error) {
	d, err := s.gradient(in[1], grad)
	return G.Nodes{grad, d}, err
}

func (s ChannelShift) Use(_ int, _ G.Nodes, _, grad *G.Node) (Use, error) {
	return Use{Form: Shift(s), Delta: grad}, nil
}
