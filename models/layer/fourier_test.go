package layer

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The product of the features of x and y is an estimate of norm²·exp(-frequency²·|x-y|²/2) (Rahimi and
// Recht 2007, claim 1). Its deviation with D features is below norm²/√D; the features are constants, so
// the test fails always or never.
func TestFourierFeatures_AreThoseOfTheGaussianKernel(t *testing.T) {
	const units, frequency, norm, points, width = 4000, 0.7, 1.5, 12, 3
	b := NewBuilder(points, 1)
	x := b.Input("x", width)
	h := FourierFeatures(b, x, "fourier", units, frequency, norm)
	if b.err != nil {
		t.Fatal(b.err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	values := make([]float32, points*width)
	for i := range values {
		values[i] = float32(2*r.Float64() - 1)
	}
	features := evaluate(t, b.net.Inputs, [][]float32{values}, h)[0]
	for i := range points {
		for j := range i + 1 {
			distance, product := 0.0, 0.0
			for k := range width {
				d := float64(values[i*width+k] - values[j*width+k])
				distance += d * d
			}
			for k := range units {
				product += float64(features[i*units+k]) * float64(features[j*units+k])
			}
			want := norm * norm * math.Exp(-frequency*frequency*distance/2)
			if math.Abs(product-want) > 4*norm*norm/math.Sqrt(units) {
				t.Errorf("points %d and %d: product %v, kernel %v", i, j, product, want)
			}
		}
	}
}

// The features do not depend on the seed, so a model that is loaded has those of its training.
func TestFourierFeatures_SameForEachSeed(t *testing.T) {
	var got [2][]float32
	for seed := range got {
		b := NewBuilder(1, uint64(seed))
		x := b.Input("x", 2)
		h := FourierFeatures(b, x, "fourier", 5, 1, 1)
		got[seed] = evaluate(t, b.net.Inputs, [][]float32{{0.5, -0.25}}, h)[0]
	}
	for i, v := range got[0] {
		if v != got[1][i] {
			t.Fatalf("features %v and %v of two seeds", got[0], got[1])
		}
	}
}
