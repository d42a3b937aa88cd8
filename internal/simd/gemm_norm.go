package simd

// SumSquares is the squared Frobenius norm of op(A)·op(B), which is computed
// tile by tile and kept nowhere: the norm of one record's gradient where the
// gradient is larger than the rows that it comes from. LDC, Accumulate, the
// biases and ReLU must be unset. Elements have the bits that Run gives them;
// their squares are added in float64.
func (g *Gemm) SumSquares(a, b []float32, ws *Workspace) float64 {
	return g.sumSquares(active, a, b, ws)
}

func (g *Gemm) sumSquares(k *kernels, a, b []float32, ws *Workspace) float64 {
	if g.LDC != 0 || g.Accumulate || g.ColBias != nil || g.RowBias != nil || g.ReLU {
		panic("simd: the norm of a product takes no bias, no ReLU and no C")
	}
	t := *g
	t.LDC = g.N
	t.check(max(0, g.M*g.N), len(a), len(b))
	// Two panels of rows at a time, of as many columns as the scratch holds.
	rows := 2 * k.mr
	cols := len(ws.c) / rows / k.nr * k.nr
	t.LDC = cols
	p := product{Gemm: t, k: k, ws: ws, a: a, b: b, c: ws.c}
	total := 0.0
	for j := 0; j < g.N; j += cols {
		n := min(cols, g.N-j)
		for i := 0; i < g.M; i += rows {
			m := min(rows, g.M-i)
			p.c0 = i*cols + j
			p.blocked(rect{i, i + m, j, j + n}, nil)
			for r := range m {
				total += k.sumSquares(&ws.c[r*cols], n)
			}
		}
	}
	return total
}
