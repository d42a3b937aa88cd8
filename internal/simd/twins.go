package simd

// GemmPair are two weight gradients with the same B and the same factors, which is
// copied once for both: those of an LSTM's two weights. Their K, N, LDB and Factors
// agree; both have factors.
type GemmPair [2]Gemm

// Run computes one share out of shares of both products, cs[i] of as[i] and b. The
// bits are those of Gemm.
func (g *GemmPair) Run(cs, as *[2][]float32, b []float32, ws *Workspace, share, shares int) {
	g.run(active, cs, as, b, ws, share, shares)
}

func (g *GemmPair) run(k *kernels, cs, as *[2][]float32, b []float32, ws *Workspace, share, shares int) {
	x, y := &g[0], &g[1]
	if x.K != y.K || x.N != y.N || x.LDB != y.LDB || len(x.Factors) != x.K || len(y.Factors) != y.K || x.K > 0 && &x.Factors[0] != &y.Factors[0] {
		panic("simd: the products of a GemmPair must have the same B, K, N and factors")
	}
	for i := range g {
		g[i].check(len(cs[i]), len(as[i]), len(b))
	}
	if x.M == 0 || x.N <= skinny || y.M == 0 {
		x.run(k, cs[0], as[0], b, ws, share, shares)
		y.run(k, cs[1], as[1], b, ws, share, shares)
		return
	}
	panels := ceilDiv(x.N, k.nr)
	from, to := share*panels/shares*k.nr, min((share+1)*panels/shares*k.nr, x.N)
	if from == to {
		return
	}
	second := product{Gemm: *y, k: k, ws: ws, a: as[1], b: b, c: cs[1]}
	second.Factors = nil // B has them
	first := product{Gemm: *x, k: k, ws: ws, a: as[0], b: b, c: cs[0]}
	first.blocked(rect{0, x.M, from, to}, &second)
}
