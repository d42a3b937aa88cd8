package layer

import (
	"math"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Normalizations match PyTorch's documentation. The numbers are so small that the epsilon
// affects the result, and each channel has a different scale and shift.
func TestNorms_MatchDefinitions(t *testing.T) {
	const batch, channels, area = 2, 4, 6
	for name, c := range map[string]struct {
		layer           func(b *Builder, x *G.Node) *G.Node
		chunk, repeated int // number of elements that are normalized together, and that share a scale
	}{
		"group":    {func(b *Builder, x *G.Node) *G.Node { return GroupNorm(b, x, "norm", 2) }, 2 * area, area},
		"instance": {func(b *Builder, x *G.Node) *G.Node { return InstanceNorm(b, x, "norm") }, area, area},
		"layer":    {func(b *Builder, x *G.Node) *G.Node { return LayerNorm(b, x, "norm") }, 3, 1},
	} {
		b := NewBuilder(batch, 1)
		y := c.layer(b, b.Input("x", channels, 2, 3))
		b.SetLoss(SquaredError(b, y, b.Input("target", channels, 2, 3)), y)
		net, err := b.Network()
		if err != nil {
			t.Fatal(err)
		}
		size := net.Params[0].Shape()[0]
		scale, shift := make([]float32, size), make([]float32, size)
		for i := range size {
			scale[i], shift[i] = 1+float32(i), float32(i*i)/10
		}
		for i, v := range [][]float32{scale, shift} {
			if err := G.Let(net.Params[i], tensor.New(tensor.WithShape(size), tensor.WithBacking(v))); err != nil {
				t.Fatal(err)
			}
		}
		x := make([]float32, batch*channels*area)
		for i := range x {
			x[i] = float32(i*i%17) / 2000
		}
		got := evaluate(t, net.Inputs, [][]float32{x, make([]float32, len(x))}, y)[0]
		for from := 0; from < len(x); from += c.chunk {
			var mean, variance float64
			for _, v := range x[from : from+c.chunk] {
				mean += float64(v) / float64(c.chunk)
			}
			for _, v := range x[from : from+c.chunk] {
				variance += (float64(v) - mean) * (float64(v) - mean) / float64(c.chunk)
			}
			for i := from; i < from+c.chunk; i++ {
				k := i / c.repeated % size
				want := (float64(x[i])-mean)/math.Sqrt(variance+1e-5)*float64(scale[k]) + float64(shift[k])
				if !(math.Abs(float64(got[i])-want) <= 1e-4) {
					t.Fatalf("%s: element %d is %v, want %v", name, i, got[i], want)
				}
			}
		}
	}
}
