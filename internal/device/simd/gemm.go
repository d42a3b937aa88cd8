package simd

import (
	"fmt"
	"unsafe"

	"github.com/dptrain/dptrain/internal/half"
)

// Chain is the number of steps of k that a product adds in one chain.
const Chain = kBlock

// Gemm describes the product C = op(A)·op(B), or C += op(A)·op(B), of matrices
// stored by rows: op(A) is M×K, op(B) is K×N, C is M×N.
//
// The bits of C[i][j] depend only on row i of op(A), column j of op(B), and C[i][j]: k is
// cut into blocks of 256, each block is one chain of multiply-adds from zero in the order of
// k, the blocks are added in order (to C if Accumulate), then the bias. The bits do not
// depend on M, on N, on the element's position, on the number of threads that share the
// product, or (except for the sign of a zero) on zeros appended along k. AVX2, AVX-512 and
// NEON give the same bits; pure Go rounds each product before it adds it and gives
// different bits.
type Gemm struct {
	// TransA means that A is stored K×M, TransB that B is stored N×K.
	TransA, TransB bool
	M, N, K        int
	// LDA, LDB and LDC are the floats from one stored row to the next.
	LDA, LDB, LDC int
	// Accumulate adds to C instead of overwriting it.
	Accumulate bool
	// ColBias, of length N, is added to every row; RowBias, of length M, to every column.
	// Only one of them may be set.
	ColBias, RowBias []float32
	// ReLU stores max(0, x); NaN stays NaN.
	ReLU bool
	// Factors, of length K, multiplies row k of B. Where the factor is 0, row k of A and of
	// B count as zeros, so that NaN and infinities in them do not reach a sum. It requires
	// TransA without TransB: the shape of a weight gradient, where k runs over the rows of a
	// batch.
	Factors []float32
}

// product is the execution of a Gemm on one thread.
type product struct {
	Gemm
	k       *kernels
	ws      *Workspace
	a, b, c []float32
	half    half.Numbers // in place of b, if it has any
	// The block of steps of k that is being computed.
	k0, k1 int
}

// Run computes one of several shares of the product. Together the shares write every
// element of C once; no share writes memory that another reads or writes. C must not overlap
// A or B. ws belongs to the calling thread.
func (g *Gemm) Run(c, a, b []float32, ws *Workspace, share, shares int) {
	g.run(active, c, a, b, ws, share, shares)
}

func (g *Gemm) run(k *kernels, c, a, b []float32, ws *Workspace, share, shares int) {
	g.check(len(c), len(a), len(b))
	p := product{Gemm: *g, k: k, ws: ws, a: a, b: b, c: c}
	p.run(share, shares)
}

// RunHalf is Run for a matrix B of 16-bit numbers, which it widens while it packs B. The bits are those of the widened
// matrix. A must not be stored transposed.
func (g *Gemm) RunHalf(c, a []float32, b half.Numbers, ws *Workspace, share, shares int) {
	g.runHalf(active, c, a, b, ws, share, shares)
}

func (g *Gemm) runHalf(k *kernels, c, a []float32, b half.Numbers, ws *Workspace, share, shares int) {
	if g.TransA || g.Factors != nil {
		panic("simd: a product with 16-bit numbers requires A stored by rows and no factors")
	}
	g.check(len(c), len(a), len(b.Bits))
	p := product{Gemm: *g, k: k, ws: ws, a: a, half: b, c: c}
	p.run(share, shares)
}

func (p *product) run(share, shares int) {
	if uint(share) >= uint(shares) {
		panic(fmt.Sprintf("simd: share %d must be below the number of shares, %d", share, shares))
	}
	if p.M == 0 || p.N == 0 {
		return
	}
	r := p.shareOf(p.k, share, shares)
	switch {
	case r.i0 == r.i1 || r.j0 == r.j1:
	case p.isSkinny():
		p.runSkinny(r)
	default:
		p.runBlocked(r, nil)
	}
}

func (g *Gemm) check(c, a, b int) {
	need := func(name string, rows, cols, ld, have int) {
		if rows < 0 || cols < 0 || ld < cols || rows > 0 && cols > 0 && have < (rows-1)*ld+cols {
			panic(fmt.Sprintf("simd: matrix %s of %d×%d, with rows %d floats apart, does not fit a slice of %d", name, rows, cols, ld, have))
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
		panic("simd: the length of a product's bias must be the width or the height of C")
	case g.Factors != nil && (len(g.Factors) != g.K || !g.TransA || g.TransB):
		panic("simd: factors require the product AᵀB and one factor for each of its K rows")
	}
}

// rect is the part C[i0:i1, j0:j1].
type rect struct{ i0, i1, j0, j1 int }

// shareOf returns one share of C. It chooses the grid of shares whose largest share has the
// fewest tiles.
func (g *Gemm) shareOf(k *kernels, share, shares int) rect {
	if shares == 1 {
		return rect{0, g.M, 0, g.N}
	}
	// A skinny product is computed transposed: its vectors run along M.
	tileRows, tileCols := k.mr, k.nr
	if g.isSkinny() {
		tileRows, tileCols = k.nr, skinny
	}
	rows, cols := ceilDiv(g.M, tileRows), ceilDiv(g.N, tileCols)
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
		min(i*rows/down*tileRows, g.M), min((i+1)*rows/down*tileRows, g.M),
		min(j*cols/across*tileCols, g.N), min((j+1)*cols/across*tileCols, g.N),
	}
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// GemmPair is two weight gradients with the same B and the same factors, such as those of
// an LSTM's two weights. B is packed once for both. Their K, N, LDB and Factors must agree,
// and Factors must not be nil.
type GemmPair [2]Gemm

// Run computes one of several shares of both products, cs[i] from as[i] and b. The bits are
// those of Gemm.
func (g *GemmPair) Run(cs, as *[2][]float32, b []float32, ws *Workspace, share, shares int) {
	g.run(active, cs, as, b, ws, share, shares)
}

func (g *GemmPair) run(k *kernels, cs, as *[2][]float32, b []float32, ws *Workspace, share, shares int) {
	x, y := &g[0], &g[1]
	if x.K != y.K || x.N != y.N || x.LDB != y.LDB || len(x.Factors) != x.K || len(y.Factors) != y.K ||
		x.K > 0 && &x.Factors[0] != &y.Factors[0] {
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
	second.Factors = nil // the packed B is already multiplied by them
	first := product{Gemm: *x, k: k, ws: ws, a: as[0], b: b, c: cs[0]}
	first.runBlocked(rect{0, x.M, from, to}, &second)
}

// Sizes of the blocks of a product. kBlock is part of the definition of a product's bits,
// see Gemm. The others are chosen for the caches: a block of B takes 256 KiB, a block of A
// 144 KiB.
const (
	kBlock = 256
	mBlock = 144
	nBlock = 256

	paddedRows = mBlock * 4 / 3 // rows of A when panels of 6 or 12 are padded to 8 or 16
	rowPad     = 16             // floats between packed rows, which avoid cache conflicts
	packedRows = 16             // rows of B packed at a time
	skinny     = 16             // the most columns of a skinny product
	strip      = 512            // columns of a skinny product's transposed result in the workspace
	aligned    = 64             // bytes
)

// Workspace is the scratch memory of one thread. Only one product at a time may use it.
type Workspace struct {
	a, b    []float32
	c       []float32 // a skinny product's transposed result
	nonzero []float32 // 1 where a factor is not 0, else 0
}

// NewWorkspace allocates the scratch memory for products of any shape, about half a MiB.
func NewWorkspace() *Workspace {
	sizes := []int{
		paddedRows * (kBlock + rowPad),
		kBlock * nBlock,
		skinny * strip,
		kBlock,
	}
	total := aligned / 4
	for _, n := range sizes {
		total += n
	}
	mem := make([]float32, total)
	skip := int(-uintptr(unsafe.Pointer(&mem[0]))%aligned) / 4
	mem = mem[skip:]
	cut := func(n int) []float32 {
		part := mem[:n:n]
		mem = mem[n:]
		return part
	}
	return &Workspace{a: cut(sizes[0]), b: cut(sizes[1]), c: cut(sizes[2]), nonzero: cut(sizes[3])}
}
