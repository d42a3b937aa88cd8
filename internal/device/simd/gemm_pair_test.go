package simd

import (
	"math/rand/v2"
	"testing"
)

// A GemmPair has the bits of two products.
func TestGemmPair_AgreesWithGemm(t *testing.T) {
	rounds := 30
	if testing.Short() {
		rounds = 10
	}
	rng := rand.New(rand.NewPCG(25, 26))
	for _, k := range supported {
		for range rounds {
			n, rows, shares := 1+rng.IntN(600), 1+rng.IntN(40), 1+rng.IntN(3)
			if rng.IntN(4) == 0 {
				rows += 500
			}
			b, factors := random(rng, rows*(n+3)), random(rng, rows)
			if rng.IntN(2) == 0 {
				factors[rng.IntN(rows)] = 0
			}
			var g GemmPair
			var as, got, want [2][]float32
			for i := range g {
				m := 1 + rng.IntN(200)
				g[i] = Gemm{
					TransA: true, M: m, N: n, K: rows, LDA: m + rng.IntN(9), LDB: n + 3, LDC: n + rng.IntN(9),
					Factors: factors, Accumulate: rng.IntN(2) == 0,
				}
				as[i] = random(rng, rows*g[i].LDA)
				want[i] = random(rng, m*g[i].LDC)
				got[i] = append([]float32(nil), want[i]...)
				g[i].run(k, want[i], as[i], b, NewWorkspace(), 0, 1)
			}
			for share := range shares {
				g.run(k, &got, &as, b, NewWorkspace(), share, shares)
			}
			for i := range g {
				compareBits(t, k.name, got[i], want[i])
			}
		}
	}
}
