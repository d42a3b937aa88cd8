package simulation

import (
	"math"
	"testing"
)

// averageVariance is the stationary variance of the average of k instances over that of one instance,
// for a quadratic loss: an update sets w_J to (1-a)·w_I + ξ, with a the learning rate times the
// curvature. docs/draw-and-discard.md uses it.
//
// Each instance is an autoregressive process of variance Q = σ²/(1-(1-a)²), for every k. An update
// changes the pairs that contain J. The product of such a pair becomes (1-a)·w_I·w_b: (1-a)Q in
// expectation if I is b, with probability 1/k, and otherwise 1-a times that of another pair. So the
// covariance P satisfies P = (1-a)(Q/k + (1-1/k)P), which gives P = (1-a)Q/(1+a(k-1)). The average
// has the variance Q/k + (1-1/k)P.
func averageVariance(k int, a float64) float64 {
	n := float64(k)
	return 1/n + (1-1/n)*(1-a)/(1+a*(n-1))
}

// The simulated process has this variance. One weight, fixed seed, 4 million updates.
func TestAverageVariance_QuadraticLoss(t *testing.T) {
	random := stream(17, 0, 0)
	for _, k := range []int{1, 3, 20} {
		for _, a := range []float64{0.01, 0.2, 1} {
			w := make([]float64, k)
			sum, square, one := 0.0, 0.0, 0.0
			const updates = 4_000_000
			for range updates {
				i, j := random.IntN(k), random.IntN(k)
				next := (1-a)*w[i] + random.NormFloat64()
				sum += next - w[j]
				w[j] = next
				square += sum * sum / float64(k*k)
				one += next * next
			}
			q := 1 / (1 - (1-a)*(1-a))
			if got := one / updates / q; math.Abs(got-1) > 0.1 {
				t.Errorf("k = %d, a = %v: the variance of an instance is %v of the theory", k, a, got)
			}
			if got, want := square/updates/q, averageVariance(k, a); math.Abs(got-want) > 0.1*want {
				t.Errorf("k = %d, a = %v: the average has %v of the variance of an instance, want %v", k, a, got, want)
			}
		}
	}
	// A batch of B clients has 1/B of the variance: k instances never hide as much as a batch of k.
	for _, k := range []int{2, 20, 100} {
		for _, a := range []float64{0.001, 0.1, 0.99} {
			if v := averageVariance(k, a); v < 1/float64(k) || v > 1 {
				t.Errorf("k = %d, a = %v: variance %v", k, a, v)
			}
		}
	}
}
