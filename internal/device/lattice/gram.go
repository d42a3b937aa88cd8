package lattice

import (
	"fmt"

	"github.com/dptrain/dptrain/internal/device/simd"
)

// Gram sets out[t*T+u] to the inner product of rows t and u of T rows of n elements. It is
// computed modulo 2^32 and exact if the norms of all rows are at most MaxRowNorm: by the
// inequality of Cauchy and Schwarz no inner product then exceeds 2^28.
func Gram(out []int32, rows []int16, T, n int, ws *Workspace) { active.gram(out, rows, T, n, ws) }

func (k *kernels) gram(out []int32, rows []int16, T, n int, ws *Workspace) {
	if T < 0 || n < 0 || len(out) < T*T || len(rows) < T*n {
		panic(fmt.Sprintf("lattice: the Gram matrix of %d rows of %d elements does not fit slices of %d and %d elements", T, n, len(out), len(rows)))
	}
	if n == 0 || T == 0 {
		clear(out[:T*T])
		return
	}
	g := gramMatrix{k, ws, out, rows, T, n}
	for u := 0; u < T; u += nBlock {
		for t := u; t < T; t += mBlock {
			g.multiply(rect{t, min(t+mBlock, T), u, min(u+nBlock, T)})
		}
	}
	mirror(out, T)
}

// mirror copies the elements below the diagonal of a T×T matrix to those above it, in blocks that
// stay in the first-level cache.
func mirror(out []int32, T int) {
	const size = 32
	floats := asFloats(out[:T*T])
	for t := 0; t < T; t += size {
		end := min(t+size, T)
		for u := 0; u < t; u += size {
			simd.Transpose(floats[u*T+t:], T, floats[t*T+u:], T, end-t, size)
		}
		for v := t; v < end; v++ {
			for u := t; u < v; u++ {
				out[u*T+v] = out[v*T+u]
			}
		}
	}
}

// gramMatrix is the computation of a Gram matrix on one thread.
type gramMatrix struct {
	k    *kernels
	ws   *Workspace
	out  []int32
	rows []int16
	T, n int
}

// multiply computes a block of the matrix, except for tiles above the diagonal. Both operands are
// the transposed rows; they share memory if the block contains its own diagonal.
func (g *gramMatrix) multiply(c rect) {
	depth := g.k.depth
	for from := 0; from < g.n; from += kBlock {
		to, flags := min(from+kBlock, g.n), 0
		if from > 0 {
			flags = flagAdd
		}
		if from > 0 || c.i0 == c.j0 || g.n > kBlock { // else they are packed already
			g.pack(g.ws.d, dStride, c.j0, c.j1, from, to)
		}
		a, lda := g.ws.d[(min(c.i0, c.j1)-c.j0)*depth:], dStride
		if c.i1 > c.j1 {
			a, lda = g.ws.a, aStride
			g.pack(a, lda, c.i0, c.i1, from, to)
		}
		rows, panels := c.i1-c.i0, ceilDiv(c.i1-c.i0, g.k.mr)
		for q := range panels {
			i := q * rows / panels
			m := (q+1)*rows/panels - i
			for j := c.j0; j < min(c.j1, c.i0+i+m); j += g.k.nr {
				n := min(g.k.nr, c.j1-j)
				g.tile(m, n, ceilDiv(to-from, depth), &a[i*depth], lda, &g.ws.d[(j-c.j0)*depth], (c.i0+i)*g.T+j, flags)
			}
		}
	}
}

// tile computes m×n inner products from element at of the matrix on.
func (g *gramMatrix) tile(m, n, steps int, a *int16, lda int, d *int16, at, flags int) {
	if n%g.k.lanes == 0 {
		g.k.tile(m, n, steps, a, lda, d, dStride, &g.out[at], g.T, flags)
		return
	}
	g.k.tile(m, roundUp(n, g.k.lanes), steps, a, lda, d, dStride, &g.ws.edges[0], g.k.nr, 0)
	storeEdge(g.ws.edges, g.k.nr, m, n, g.out[at:], g.T, flags)
}

// pack transposes elements from … to-1 of rows t0 … t1-1.
func (g *gramMatrix) pack(dst []int16, ld, t0, t1, from, to int) {
	k, count, steps := g.k, t1-t0, (to-from)/g.k.depth
	src := g.rows[t0*g.n+from:]
	if k.columns != nil && count >= columnsTile && steps >= columnsTile {
		// The last tile of a row or column starts earlier, so that it is complete.
		for t := 0; t < count; t += columnsTile {
			t = min(t, count-columnsTile)
			for p := 0; p < steps; p += columnsTile {
				p = min(p, steps-columnsTile)
				k.columns(&dst[(p*ld+t)*k.depth], ld, &src[t*g.n+p*k.depth], g.n)
			}
		}
	} else {
		for t := range count {
			for i, v := range src[t*g.n:][:steps*k.depth] {
				dst[(i/k.depth*ld+t)*k.depth+i%k.depth] = v
			}
		}
	}
	if steps*k.depth < to-from { // the last element has no partner
		for t := range count {
			dst[(steps*ld+t)*2], dst[(steps*ld+t)*2+1] = src[t*g.n+to-from-1], 0
		}
	}
}

// InnerProduct returns Σ_{t,u} a[t*T+u]·d[t*T+u] for two symmetric T×T matrices modulo 2^64. It
// is exact if Σ|a||d| < 2^63. For Gram matrices of rows â_t and δ̂_t, Σ|a||d| is at most
// (Σ_t ‖â_t‖‖δ̂_t‖)², which the caller bounds.
//
// If a and d are the Gram matrices of the rows of one record, the result is the squared norm of
// Σ_t â_t ⊗ δ̂_t (Goodfellow 2015, "Efficient per-example gradient computations").
func InnerProduct(a, d []int32, T int) int64 {
	if checkSquare(a, d, T); T == 0 {
		return 0
	}
	return active.innerProduct(&a[0], &d[0], T*T)
}

func checkSquare(a, d []int32, T int) {
	if T < 0 || len(a) < T*T || len(d) < T*T {
		panic(fmt.Sprintf("lattice: matrices of %d×%d elements do not fit slices of %d and %d elements", T, T, len(a), len(d)))
	}
}
