package layer

import (
	"math"
	"slices"
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

// BatchNorm computes with its running statistics, and what it observes of an example are the means of
// the standardized channels and of their squares. They depend on no other example.
func TestBatchNorm_ComputesWithRunningStatistics(t *testing.T) {
	for _, shape := range [][]int{{3, 2, 2}, {3}} {
		b := NewBuilder(2, 1)
		x := b.Input("x", shape...)
		y := BatchNorm(b, x, "norm")
		b.SetLoss(SquaredError(b, y, b.Input("target", shape...)), y)
		net, err := b.Network()
		if err != nil {
			t.Fatal(err)
		}
		n := net.BatchNorms[0]
		var names []string
		for _, p := range net.Trained() {
			names = append(names, p.Name())
		}
		if len(net.Params) != 4 || !slices.Equal(names, []string{"norm.weight", "norm.bias"}) || n.Mean.Name() != "norm.running_mean" || n.Variance.Name() != "norm.running_var" {
			t.Fatalf("%v: parameters %v, trained %v", shape, net.Params, names)
		}
		values := map[*G.Node][]float32{n.Mean: {1, -1, 0.5}, n.Variance: {4, 0.25, 0}, net.Trained()[0]: {1, 2, 3}, net.Trained()[1]: {0, -1, 0.25}}
		for p, v := range values {
			if err := G.Let(p, tensor.New(tensor.WithShape(3), tensor.WithBacking(v))); err != nil {
				t.Fatal(err)
			}
		}
		area := x.Shape().TotalSize() / 6
		in := make([]float32, 6*area)
		for i := range in {
			in[i] = float32(i*i%11) / 7
		}
		got := evaluate(t, net.Inputs, [][]float32{in, make([]float32, len(in))}, y, n.Observed[0], n.Observed[1])
		observed := [2][]float64{make([]float64, 6), make([]float64, 6)}
		for i, v := range in {
			row, c := i/area, i/area%3
			standardized := (float64(v) - float64(values[n.Mean][c])) / math.Sqrt(float64(values[n.Variance][c])+1e-5)
			observed[0][row] += standardized / float64(area)
			observed[1][row] += standardized * standardized / float64(area)
			want := standardized*float64(values[net.Trained()[0]][c]) + float64(values[net.Trained()[1]][c])
			if math.Abs(float64(got[0][i])-want) > 1e-4*(1+math.Abs(want)) {
				t.Errorf("%v: element %d is %v, want %v", shape, i, got[0][i], want)
			}
		}
		for k := range observed {
			for i, want := range observed[k] {
				if math.Abs(float64(got[1+k][i])-want) > 1e-4*(1+math.Abs(want)) {
					t.Errorf("%v: observed %d of channel %d is %v, want %v", shape, k, i, got[1+k][i], want)
				}
			}
		}
	}
}
