package lattice

import (
	"fmt"
	"unsafe"

	"github.com/dptrain/dptrain/internal/device/simd"
)

// MaxRecords is the number of records whose contributions may be added modulo 2^32 before the sum
// is read: MaxRecords·Bound ≤ 2^31−1, and (MaxRecords+1)·Bound = 2^31 is read as −2^31.
const MaxRecords = (1<<31 - 1) / Bound

// Product is the integer product AᵀD of the rows a_k of A and d_k of D: the sum over rows of
// a_k ⊗ d_k, modulo 2^32. Its bits do not depend on the order of the rows, on the shape of the
// blocks or on the number of shares. Elements of a and d are in [-2^14, 2^14].
type Product struct {
	// A is K×M, D is K×N, both stored by rows without gaps.
	M, N, K int
	// LDC is the distance between rows of the M×N sum.
	LDC int
}

// Run adds one of several shares of AᵀD to sum. Together the shares update every element once; no
// share accesses memory that another writes. ws belongs to the calling thread.
func (p *Product) Run(sum []int32, a, d []int16, ws *Workspace, share, shares int) {
	p.run(active, sum, a, d, ws, share, shares)
}

// run is Run with an implementation.
func (p *Product) run(k *kernels, sum []int32, a, d []int16, ws *Workspace, share, shares int) {
	p.check(len(sum), len(a), len(d), share, shares)
	if p.M == 0 || p.N == 0 {
		return
	}
	r := p.shareOf(k, share, shares)
	if r.i0 == r.i1 || r.j0 == r.j1 {
		return
	}
	b := block{p, k, ws, sum, a, d}
	if p.isSkinny() {
		b.runSkinny(r)
	} else {
		b.runBlocked(r)
	}
}

func (p *Product) check(sum, a, d, share, shares int) {
	switch {
	case p.M < 0 || p.N < 0 || p.K < 0 || p.LDC < p.N:
		panic(fmt.Sprintf("lattice: invalid product %+v", *p))
	case uint(share) >= uint(shares):
		panic(fmt.Sprintf("lattice: share %d must be below the number of shares, %d", share, shares))
	case p.M > 0 && p.N > 0 && (sum < (p.M-1)*p.LDC+p.N || a < p.K*p.M || d < p.K*p.N):
		panic(fmt.Sprintf("lattice: the product %+v does not fit slices of %d, %d and %d elements", *p, sum, a, d))
	}
}

// rect is the part [i0:i1, j0:j1] of the sum.
type rect struct{ i0, i1, j0, j1 int }

// shareOf returns one share of the sum. It chooses the grid of shares whose largest share has the
// fewest tiles.
func (p *Product) shareOf(k *kernels, share, shares int) rect {
	tileRows, tileCols := k.mr, k.nr
	if p.isSkinny() { // the wide operand is cut
		tileRows, tileCols = skinny, k.nr
		if p.M > p.N {
			tileRows, tileCols = k.nr, skinny
		}
	}
	rows, cols := ceilDiv(p.M, tileRows), ceilDiv(p.N, tileCols)
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
		min(i*rows/down*tileRows, p.M), min((i+1)*rows/down*tileRows, p.M),
		min(j*cols/across*tileCols, p.N), min((j+1)*cols/across*tileCols, p.N),
	}
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// Sizes of the blocks of a product, chosen for the caches: a packed block of D takes 136 KiB, one
// of A 88 KiB, the sums of a block at most 256 KiB.
const (
	kBlock = 256 // rows
	mBlock = 144
	nBlock = 256

	// Packed rows are an odd number of cache lines apart, so that they fall into different sets.
	rowPad  = 16
	aStride = mBlock + 2*rowPad
	dStride = nBlock + rowPad

	skinny = 16   // the most columns of the narrow operand of a skinny product
	strip  = 2048 // columns of its wide operand at a time

	maxTile = 12 * 32 // elements of the largest tile
)

// Workspace is the scratch memory of one thread. Only one call at a time may use it.
type Workspace struct {
	a, d  []int16 // packed blocks
	sums  []int32 // of a strip
	turn  []int32 // the sums of a strip, transposed
	edges []int32 // a tile that does not fit the sum
}

// NewWorkspace allocates the scratch memory for products and Gram matrices of any shape, about
// 500 KiB.
func NewWorkspace() *Workspace {
	return &Workspace{
		a:     make([]int16, kBlock*aStride),
		d:     make([]int16, kBlock*dStride),
		sums:  make([]int32, skinny*strip),
		turn:  make([]int32, skinny*strip),
		edges: make([]int32, maxTile),
	}
}

// block is a product on one thread.
type block struct {
	*Product
	k    *kernels
	ws   *Workspace
	sum  []int32
	a, d []int16
}

// runBlocked adds the product over r in blocks that fit the caches.
func (b *block) runBlocked(r rect) {
	for j := r.j0; j < r.j1; j += nBlock {
		j1 := min(j+nBlock, r.j1)
		for from := 0; from < b.K; from += kBlock {
			to := min(from+kBlock, b.K)
			b.pack(b.ws.d, dStride, b.d, b.N, j, j1, from, to)
			for i := r.i0; i < r.i1; i += mBlock {
				c := rect{i, min(i+mBlock, r.i1), j, j1}
				b.pack(b.ws.a, aStride, b.a, b.M, c.i0, c.i1, from, to)
				b.multiply(c, ceilDiv(to-from, b.k.depth))
			}
		}
	}
}

// pack packs columns c0 … c1-1 of rows from … to-1 of a matrix of the given width.
func (b *block) pack(dst []int16, ld int, x []int16, width, c0, c1, from, to int) {
	n := c1 - c0
	if b.k.depth == 1 {
		for row := from; row < to; row++ {
			copy(dst[(row-from)*ld:], x[row*width+c0:][:n])
		}
		return
	}
	rows := x[from*width+c0:]
	_, _ = dst[((to-from-1)/2*ld+n)*2-1], rows[(to-from-1)*width+n-1]
	b.k.interleave(&dst[0], ld, &rows[0], width, to-from, n)
}

// multiply adds the products of packed operands to a block of the sum.
func (b *block) multiply(c rect, steps int) {
	rows, panels, depth := c.i1-c.i0, ceilDiv(c.i1-c.i0, b.k.mr), b.k.depth
	for j := c.j0; j < c.j1; j += b.k.nr {
		n := min(b.k.nr, c.j1-j)
		for q := range panels {
			i := q * rows / panels
			m := (q+1)*rows/panels - i
			sum := b.sum[(c.i0+i)*b.LDC+j:]
			x, y := &b.ws.a[i*depth], &b.ws.d[(j-c.j0)*depth]
			if n%b.k.lanes == 0 {
				b.k.tile(m, n, steps, x, aStride, y, dStride, &sum[0], b.LDC, flagAdd)
				continue
			}
			b.k.tile(m, roundUp(n, b.k.lanes), steps, x, aStride, y, dStride, &b.ws.edges[0], b.k.nr, 0)
			storeEdge(b.ws.edges, b.k.nr, m, n, sum, b.LDC, flagAdd)
		}
	}
}

func roundUp(n, to int) int { return ceilDiv(n, to) * to }

// storeEdge finishes a tile in edges as tile would, for n columns.
func storeEdge(edges []int32, width, m, n int, part []int32, ldp, flags int) {
	for i := range m {
		edge, row := edges[i*width:][:n], part[i*ldp:][:n]
		if flags&flagAdd == 0 {
			copy(row, edge)
			continue
		}
		for j, v := range edge {
			row[j] += v
		}
	}
}

// isSkinny reports whether one operand is so narrow that packing the other would cost much of the
// time.
func (p *Product) isSkinny() bool { return min(p.M, p.N) <= skinny }

// runSkinny adds the product over r in strips of the wide operand, whose rows are read as they
// are. The narrow operand is packed. If it is A, the rows of a strip's sums are parts of the rows
// of the sum. Otherwise they are its columns.
func (b *block) runSkinny(r rect) {
	narrow, n, wide, w, c0, c1 := b.a, b.M, b.d, b.N, r.j0, r.j1
	if b.M > b.N {
		narrow, n, wide, w, c0, c1 = b.d, b.N, b.a, b.M, r.i0, r.i1
	}
	for c := c0; c < c1; c += strip {
		end := min(c+strip, c1)
		for from := 0; from < b.K; from += kBlock {
			to := min(from+kBlock, b.K)
			if c == c0 || b.K > kBlock {
				b.pack(b.ws.a, aStride, narrow, n, 0, n, from, to)
			}
			switch {
			case b.M <= b.N:
				b.multiplyStrip(wide, w, n, c, end, from, to, b.sum[c:], b.LDC, flagAdd)
			case from == 0:
				b.multiplyStrip(wide, w, n, c, end, from, to, b.ws.sums, strip, 0)
			default:
				b.multiplyStrip(wide, w, n, c, end, from, to, b.ws.sums, strip, flagAdd)
			}
		}
		if b.M > b.N && b.K > 0 {
			b.addTransposed(c, end)
		}
	}
}

// multiplyStrip multiplies columns c0 … c1-1 of the wide operand, of width w, with the n packed
// columns of the narrow one, over rows from … to-1. It stores n rows of sums, ld elements apart.
func (b *block) multiplyStrip(wide []int16, w, n, c0, c1, from, to int, sums []int32, ld, flags int) {
	k, steps, panels := b.k, ceilDiv(to-from, b.k.depth), ceilDiv(n, b.k.mr)
	for c := c0; c < c1; c += k.nr {
		width := min(k.nr, c1-c)
		packed := width < k.nr
		if packed {
			b.pack(b.ws.d, k.nr, wide, w, c, c1, from, to)
		}
		for q := range panels {
			i := q * n / panels
			m := (q+1)*n/panels - i
			x, part := &b.ws.a[i*k.depth], sums[i*ld+c-c0:]
			switch {
			case packed:
				k.tile(m, roundUp(width, k.lanes), steps, x, aStride, &b.ws.d[0], k.nr, &b.ws.edges[0], k.nr, 0)
				storeEdge(b.ws.edges, k.nr, m, width, part, ld, flags)
			case k.depth == 1:
				k.tile(m, k.nr, steps, x, aStride, &wide[from*w+c], w, &part[0], ld, flags)
			default:
				k.direct(m, to-from, x, aStride, &wide[from*w+c], w, &part[0], ld, flags)
			}
		}
	}
}

// addTransposed adds the sums of a strip to rows i0 … i1-1 of the result.
func (b *block) addTransposed(i0, i1 int) {
	simd.Transpose(asFloats(b.ws.turn), b.N, asFloats(b.ws.sums), strip, b.N, i1-i0)
	if b.N == b.LDC {
		b.k.addInts(&b.sum[i0*b.N:][:(i1-i0)*b.N][0], &b.ws.turn[0], (i1-i0)*b.N)
		return
	}
	for i := i0; i < i1; i++ {
		b.k.addInts(&b.sum[i*b.LDC:][:b.N][0], &b.ws.turn[(i-i0)*b.N], b.N)
	}
}

// asFloats returns the same memory as floats, to copy it.
func asFloats(x []int32) []float32 { return unsafe.Slice((*float32)(unsafe.Pointer(&x[0])), len(x)) }
