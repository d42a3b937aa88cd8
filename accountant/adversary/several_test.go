package adversary

import (
	"math"
	"testing"
)

// n contributions of randomized response whose answers the adversary counts: the
// bound covers the exact ε and advantage of the binomial distributions, and is exact for one.
func TestSeveral_CoversRandomizedResponse(t *testing.T) {
	const epsilon = 0.7
	profile := NewLaplace(epsilon).profile
	p := math.Exp(epsilon) / (1 + math.Exp(epsilon))
	for _, n := range []int{1, 2, 5} {
		exact := func(at float64) (delta float64) {
			for k := range n + 1 {
				ways := 1.0
				for i := range k {
					ways *= float64(n-i) / float64(i+1)
				}
				a := ways * math.Pow(p, float64(k)) * math.Pow(1-p, float64(n-k))
				b := ways * math.Pow(1-p, float64(k)) * math.Pow(p, float64(n-k))
				delta += max(0, a-math.Exp(at)*b)
			}
			return delta
		}
		s := Several{n, profile}
		if s.Advantage() < exact(0)-1e-12 || n == 1 && math.Abs(s.Advantage()-exact(0)) > 1e-12 {
			t.Errorf("%d contributions: an advantage of %v, exact %v", n, s.Advantage(), exact(0))
		}
		for _, delta := range []float64{1e-3, 0.1} {
			least := leastEpsilon(exact, delta, float64(n)*epsilon)
			got := s.Epsilon(delta, epsilon)
			if got < least-1e-9 || n == 1 && got > least+epsilon/4096+1e-9 {
				t.Errorf("%d contributions: ε = %v at δ = %v, exact %v", n, got, delta, least)
			}
			if got > float64(n)*epsilon+1e-9 {
				t.Errorf("%d contributions: ε = %v is above their sum", n, got)
			}
		}
	}
	if got := (Several{3, func(float64) float64 { return 0.5 }}).Epsilon(0.1, 5); !math.IsInf(got, 1) {
		t.Errorf("ε = %v where δ is never reached", got)
	}
}
