package simd

import "fmt"

// Chain is how many steps of k a product adds up in one chain.
const Chain = kBlock

// Gemm describes the product C = op(A)·op(B), or C += op(A)·op(B), of matrices
// stored by rows: op(A) is M×K, op(B) is K×N, C is M×N.
//
// The bits of C[i][j] depend on row i of op(A), column j of op(B), and C[i][j]
// alone: k is cut into blocks of 256, each block is one chain of multiply-adds
// from zero in the order of k, the blocks are added in order (to C if
// Accumulate), then the bias. They do not depend on M, on N, on where the
// element stands, on how many threads share the product, or (but for the sign of
// a zero) on zeros appended along k. AVX2, AVX-512 and NEON give the same bits;
// pure Go, which rounds each product before adding it, gives others.
type Gemm struct {
	// TransA says that A is stored K×M, TransB that B is stored N×K.
	TransA, TransB bool
	M, N, K        int
	// LDA, LDB and LDC count the floats from one stored row to the next.
	LDA, LDB, LDC int
	// Accumulate adds to C instead of overwriting it.
	Accumulate bool
	// ColBias, of length N, is added to every row; RowBias, of length M, to
	// every column. At most one of them may be set.
	ColBias, RowBias []float32
	// ReLU stores max(0, x); NaN stays NaN.
	ReLU bool
	// Factors, of length K, multiplies row k of B. Where the factor is 0, row k
	// of A and of B count as zeros, so that NaN and Inf there reach no sum. It
	// needs TransA and not TransB: the shape of a weight gradient, where k runs
	// over the rows of a batch.
	Factors []float32
}

// product is a Gemm under way on one thread.
type product struct {
	Gemm
	k       *kernels
	ws      *Workspace
	a, b, c []float32
	// The steps of k under way.
	k0, k1 int
}

// Run computes one share out of shares of the product; together the shares
// write every element of C once, and none writes what another reads or writes.
// C must not overlap A or B. ws belongs to the calling thread.
func (g *Gemm) Run(c, a, b []float32, ws *Workspace, share, shares int) {
	g.run(active, c, a, b, ws, share, shares)
}

func (g *Gemm) run(k *kernels, c, a, b []float32, ws *Workspace, share, shares int) {
	g.check(len(c), len(a), len(b))
	if uint(share) >= uint(shares) {
		panic(fmt.Sprintf("simd: share %d of %d", share, shares))
	}
	if g.M == 0 || g.N == 0 {
		return
	}
	p := product{Gemm: *g, k: k, ws: ws, a: a, b: b, c: c}
	r := g.cut(k, share, shares)
	switch {
	case r.i0 == r.i1 || r.j0 == r.j1:
	case p.isSkinny():
		p.skinny(r)
	default:
		p.blocked(r, nil)
	}
}

func (g *Gemm) check(c, a, b int) {
	need := func(name string, rows, cols, ld, have int) {
		if rows < 0 || cols < 0 || ld < cols || rows > 0 && cols > 0 && have < (rows-1)*ld+cols {
			panic(fmt.Sprintf("simd: matrix %s is %d×%d, %d floats a row, in a slice of %d", name, rows, cols, ld, have))
		}
	}
	if g.TransA {
		need("A", g.K, g.M, g.LDA, a)
	} else {
		need("A", g.M, g.K, g.LDA, a)
	}
	if g.TransB {
		need("B", g.N, g.K, g.LDB, b)
	} else {
		need("B", g.K, g.N, g.LDB, b)
	}
	need("C", g.M, g.N, g.LDC, c)
	switch {
	case g.ColBias != nil && g.RowBias != nil:
		panic("simd: a product takes a bias per column or per row, not both")
	case g.ColBias != nil && len(g.ColBias) != g.N, g.RowBias != nil && len(g.RowBias) != g.M:
		panic("simd: the bias of a product is not as long as C is wide or high")
	case g.Factors != nil && (len(g.Factors) != g.K || !g.TransA || g.TransB):
		panic("simd: factors need the product AᵀB and one factor for each of its K rows")
	}
}

// rect is the part C[i0:i1, j0:j1].
type rect struct{ i0, i1, j0, j1 int }

// cut gives one share of C. The grid of shares is the one whose largest share
// has the fewest tiles.
func (g *Gemm) cut(k *kernels, share, shares int) rect {
	if shares == 1 {
		return rect{0, g.M, 0, g.N}
	}
	// A skinny product is computed transposed: its vectors run along M.
	high, wide := k.mr, k.nr
	if g.isSkinny() {
		high, wide = k.nr, skinny
	}
	rows, cols := ceilDiv(g.M, high), ceilDiv(g.N, wide)
	best, down := -1, 1
	for d := 1; d <= shares; d++ {
		if shares%d != 0 {
			continue
		}
		if cost := ceilDiv(rows, d) * ceilDiv(cols, shares/d); best < 0 || cost < best {
			best, down = cost, d
		}
	}
	across := shares / down
	i, j := share/across, share%across
	return rect{
		min(i*rows/down*high, g.M), min((i+1)*rows/down*high, g.M),
		min(j*cols/across*wide, g.N), min((j+1)*cols/across*wide, g.N),
	}
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
