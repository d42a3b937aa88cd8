package dpevent

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// The results are the least float64 that are not below the exact ones.
func TestRoundUp_LeastUpperBound(t *testing.T) {
	exact := func(x float64) *big.Float { return new(big.Float).SetPrec(2200).SetFloat64(x) }
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		a, b := math.Exp(80*r.Float64()-40), math.Exp(80*r.Float64()-40)
		if r.IntN(2) == 0 {
			a, b = float64(1+r.IntN(100)), float64(1+r.IntN(100))
		}
		for name, c := range map[string]struct {
			got       float64
			isAtLeast func(x float64) bool
		}{
			"AddUp":      {AddUp(a, b), func(x float64) bool { return exact(x).Cmp(exact(0).Add(exact(a), exact(b))) >= 0 }},
			"MultiplyUp": {MultiplyUp(a, b), func(x float64) bool { return exact(x).Cmp(exact(0).Mul(exact(a), exact(b))) >= 0 }},
			"DivideUp":   {DivideUp(a, b), func(x float64) bool { return exact(0).Mul(exact(x), exact(b)).Cmp(exact(a)) >= 0 }},
			"SqrtUp":     {SqrtUp(a), func(x float64) bool { return exact(0).Mul(exact(x), exact(x)).Cmp(exact(a)) >= 0 }},
		} {
			if !c.isAtLeast(c.got) || c.isAtLeast(math.Nextafter(c.got, 0)) {
				t.Fatalf("%s(%v, %v) = %v", name, a, b, c.got)
			}
		}
	}
}
