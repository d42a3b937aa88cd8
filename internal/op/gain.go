package op

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// ChannelScale multiplies each channel of x by its own factor. It and ChannelShift are
// ScaleShift by halves: the scale of a layer that has no shift, and a bias.
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

// ChannelShift adds to each channel of x, [rows, Channels, Inner] in memory, its
// own number. With as many channels as an example has elements it adds the same
// tensor to every example, such as learnt positions.
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

// gradient lays the sums over the channels out as the parameter, which may have
// several axes.
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
