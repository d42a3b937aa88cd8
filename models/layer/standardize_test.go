package layer

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Each output's weights have mean 0, and the sum of their squares is 1, for any initial value.
// The parameter itself does not change.
func TestStandardizeWeight_MatchesDefinition(t *testing.T) {
	b := NewBuilder(1, 3)
	b.StandardizeConvWeights()
	w := b.Parameter("w", func(r *rand.Rand) float64 { return 5 + 0.01*r.NormFloat64() }, 4, 2, 3, 3)
	v := StandardizeWeight(b, w)
	x := b.Input("x", 2, 5, 5)
	y := Conv2D(b, x, "conv", 3, Window{Size: 3}, Identity)
	b.SetLoss(SquaredError(b, y, b.Input("target", 3, 3, 3)), y)
	net, err := b.Network()
	if err != nil {
		t.Fatal(err)
	}
	if got := describeNodes(net.Params); got != "w[4 2 3 3] conv.weight[3 2 3 3] conv.bias[3]" {
		t.Errorf("parameters %s", got)
	}
	picture := make([]float32, 50)
	for i := range picture {
		picture[i] = float32(math.Sin(float64(i * i)))
	}
	got := evaluate(t, net.Inputs, [][]float32{picture, make([]float32, 27)}, v, y)
	for o := range 4 {
		var sum, square float64
		for _, a := range got[0][o*18 : (o+1)*18] {
			sum += float64(a)
			square += float64(a) * float64(a)
		}
		if !(math.Abs(sum) <= 1e-3) || !(math.Abs(square-1) <= 1e-3) {
			t.Errorf("output %d: the weights' sum is %g, that of their squares %g", o, sum, square)
		}
	}

	// The reference convolution.
	kernel, bias := net.Params[1].Value().Data().([]float32), net.Params[2].Value().Data().([]float32)
	for i, a := range got[1] {
		o, row, column := i/9, i/3%3, i%3
		own := kernel[o*18 : (o+1)*18]
		var mean, variance, want float64
		for _, k := range own {
			mean += float64(k) / 18
		}
		for _, k := range own {
			variance += (float64(k) - mean) * (float64(k) - mean) / 18
		}
		for j, k := range own {
			c, r, s := j/9, j/3%3, j%3
			want += (float64(k) - mean) / math.Sqrt(18*variance) * float64(picture[c*25+(row+r)*5+column+s])
		}
		if want += float64(bias[o]); !(math.Abs(want-float64(a)) <= 1e-5) {
			t.Fatalf("element %d of the convolution is %g, want %g", i, a, want)
		}
	}
}
