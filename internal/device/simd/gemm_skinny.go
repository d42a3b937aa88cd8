package simd

// isSkinny reports whether the product is computed as Cᵀ = op(B)ᵀ·op(A)ᵀ: C is narrow, and
// the stored rows of A are vectors along M.
func (g *Gemm) isSkinny() bool { return g.TransA && g.N <= skinny && g.M > g.N }

// runSkinny computes C over r transposed, in the workspace, and copies it back.
// The bits are those of runBlocked: multiplication commutes.
func (p *product) runSkinny(r rect) {
	t := product{
		Gemm: Gemm{
			TransA: !p.TransB, M: p.N, N: p.M, K: p.K, LDA: p.LDB, LDB: p.LDA,
			Accumulate: p.Accumulate, ColBias: p.RowBias, RowBias: p.ColBias, ReLU: p.ReLU, Factors: p.Factors,
		},
		k: p.k, ws: p.ws, a: p.b, b: p.a,
	}
	for i0 := r.i0; i0 < r.i1; i0 += strip {
		i1 := min(i0+strip, r.i1)
		c := p.c[i0*p.LDC+r.j0:]
		if p.Accumulate {
			t.k.transpose(t.ws.c, strip, c, p.LDC, i1-i0, r.j1-r.j0)
		}
		for t.k0, t.k1 = 0, min(kBlock, t.K); ; t.k0, t.k1 = t.k1, min(t.k1+kBlock, t.K) {
			t.multiplySkinnyBlock(rect{r.j0, r.j1, i0, i1})
			if t.k1 == t.K {
				break
			}
		}
		t.k.transpose(c, p.LDC, t.ws.c, strip, r.j1-r.j0, i1-i0)
	}
}

// multiplySkinnyBlock computes a strip of Cᵀ over the current block of k. B, the wide
// operand, is packed only if its last panel is too narrow or some of its rows count as
// zeros. A is packed only to multiply it by the factors.
func (t *product) multiplySkinnyBlock(r rect) {
	steps := t.k1 - t.k0
	a := panel{pointerTo(t.a, t.k0*t.LDA+r.i0), t.LDA}
	if !t.TransA {
		a.p = pointerTo(t.a, r.i0*t.LDA+t.k0)
	}
	zeros := t.markZeroFactors()
	if t.Factors != nil && steps > 0 {
		t.k.packRows(&t.ws.a[0], skinny, a.p, a.ld, steps, r.i1-r.i0, &t.Factors[t.k0])
		a = panel{&t.ws.a[0], skinny}
	}
	rows, panels := r.i1-r.i0, ceilDiv(r.i1-r.i0, t.k.mr)
	for j := r.j0; j < r.j1; j += t.k.nr {
		n := min(t.k.nr, r.j1-j)
		b := panel{pointerTo(t.b, t.k0*t.LDB+j), t.LDB}
		if steps > 0 && (zeros || n < t.k.nr && !t.k.exactRead) {
			var keep *float32
			if zeros {
				keep = &t.ws.nonzero[0]
			}
			t.k.packRows(&t.ws.b[0], t.k.nr, b.p, b.ld, steps, n, keep)
			b = panel{&t.ws.b[0], t.k.nr}
		}
		for q := range panels {
			i := q * rows / panels
			m := (q+1)*rows/panels - i
			t.tile(m, n, a.skip(i, t.TransA), b, &t.ws.c[i*strip+j-r.j0], strip, r.i0+i, j)
		}
	}
}
