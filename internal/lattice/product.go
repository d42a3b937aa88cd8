package lattice

import (
	"fmt"
	"unsafe"

	"github.com/dptrain/dptrain/internal/simd"
)

// MaxRecords is the number of records whose contributions may be added modulo 2^32 before the sum
// is read: MaxRecords·Bound ≤ 2^31−1, and (MaxRecords+1)·Bound = 2^31 is read as −2^31.
const MaxRecords = (1<<31 - 1) / Bound

// Product is the integer product AᵀD of the rows a_k of A and d_k of D: the sum over rows of
// a_k ⊗ d_k. RowsPerRecord rows, one after the other, are one record's contribution.
//
// Elements of a and d are in [-2^14, 2^14]. The caller has checked in integers that the
// contribution of each record has a norm of at most Bound. Then every element of the sum over
// MaxRecords records is in the range of int32. Sums of them modulo 2^32 are therefore read
// right even if it wraps on the way: the result is exact, and its bits do not depend on the order
// of the rows, on the shape of the blocks or on the number of shares.
type Product struct {
	// A is K×M, D is K×N, both stored by rows without gaps.
	M, N, K       int
	RowsPerRecord int
	// LDC is the distance between rows of the M×N sum.
	LDC int
}

// Run adds one of several shares of AᵀD to sum. It adds the products of at most MaxRecords
// records modulo 2^32, extends their signs and adds them to sum. Together the shares update
// every element once; no share accesses memory that another writes. ws belongs to the calling
// thread.
func (p *Product) Run(sum []int64, a, d []int16, ws *Workspace, share, shares int) {
	p.run(active, sum, a, d, ws, share, shares)
}

// run is Run with an implementation.
func (p *Product) run(k *kernels, sum []int64, a, d []int16, ws *Workspace, share, shares int) {
	p.check(len(sum), len(a), len(d), share, shares)
	if p.M == 0 || p.N == 0 {
		return
	}
	r := p.shareOf(k, share, shares)
	if r.i0 == r.i1 || r.j0 == r.j1 {
		return
	}
	rows := MaxRecords * p.RowsPerRecord
	for from := 0; from < p.K; from += rows {
		b := block{p, k, ws, sum, a, d, from, min(from+rows, p.K)}
		if p.isSkinny() {
			b.runSkinny(r)
		} else {
			b.runBlocked(r)
		}
	}
}

func (p *Product) check(sum, a, d, share, shares int) {
	switch {
	case p.M < 0 || p.N < 0 || p.K < 0 || p.LDC < p.N:
		panic(fmt.Sprintf("lattice: invalid product %+v", *p))
	case p.RowsPerRecord < 1 || p.K%p.RowsPerRecord != 0:
		panic(fmt.Sprintf("lattice: %d rows are not whole records of %d rows", p.K, p.RowsPerRecord))
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

	blockSums = 1 << 16 // sums in the workspace, at least skinny·strip
	maxTile   = 12 * 32 // elements of the largest tile
)

// Workspace is the scratch memory of one thread. Only one call at a time may use it.
type Workspace struct {
	a, d  []int16 // packed blocks
	sums  []int32 // of a block, or of a strip
	turn  []int32 // the sums of a strip, transposed
	edges []int32 // a tile that does not fit the sum
}

// NewWorkspace allocates the scratch memory for products and Gram matrices of any shape, about
// 600 KiB.
func NewWorkspace() *Workspace {
	return &Workspace{
		a:     make([]int16, kBlock*aStride),
		d:     make([]int16, kBlock*dStride),
		sums:  make([]int32, blockSums),
		turn:  make([]int32, skinny*strip),
		edges: make([]int32, maxTile),
	}
}

// block is the product of rows from … to-1 on one thread.
type block struct {
	*Product
	k        *kernels
	ws       *Workspace
	sum      []int64
	a, d     []int16
	from, to int
}

// runBlocked adds the product over r in blocks that fit the caches. Several blocks of k need the
// sums of a block of the result in the workspace.
func (b *block) runBlocked(r rect) {
	for j := r.j0; j < r.j1; j += nBlock {
		j1 := min(j+nBlock, r.j1)
		stored := b.to-b.from > kBlock
		ldp, height := roundUp(j1-j, b.k.lanes)+rowPad, r.i1-r.i0
		if stored {
			height = len(b.ws.sums) / ldp / mBlock * mBlock
		}
		for i := r.i0; i < r.i1; i += height {
			for from := b.from; from < b.to; from += kBlock {
				to, i1 := min(from+kBlock, b.to), min(i+height, r.i1)
				b.pack(b.ws.d, dStride, b.d, b.N, j, j1, from, to)
				for at := i; at < i1; at += mBlock {
					c, start := rect{at, min(at+mBlock, i1), j, j1}, 0
					if stored {
						start = (at - i) * ldp
					}
					b.pack(b.ws.a, aStride, b.a, b.M, c.i0, c.i1, from, to)
					b.multiply(c, start, ldp, ceilDiv(to-from, b.k.depth), from == b.from, to == b.to)
				}
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

// multiply adds the products of packed operands to a block of the result. Sums of other blocks of
// k are in the workspace, from element start on.
func (b *block) multiply(c rect, start, ldp, steps int, first, last bool) {
	flags, part := 0, b.ws.sums[start:]
	if !first {
		flags |= flagAdd
	}
	if last {
		flags |= flagWiden
	}
	rows, panels, depth := c.i1-c.i0, ceilDiv(c.i1-c.i0, b.k.mr), b.k.depth
	for j := c.j0; j < c.j1; j += b.k.nr {
		n := min(b.k.nr, c.j1-j)
		for q := range panels {
			i := q * rows / panels
			m := (q+1)*rows/panels - i
			at := i*ldp + j - c.j0
			sum := &b.sum[(c.i0+i)*b.LDC+j]
			x, y := &b.ws.a[i*depth], &b.ws.d[(j-c.j0)*depth]
			if n%b.k.lanes == 0 {
				b.k.tile(m, n, steps, x, aStride, y, dStride, &part[at], ldp, sum, b.LDC, flags)
				continue
			}
			b.k.tile(m, roundUp(n, b.k.lanes), steps, x, aStride, y, dStride, &b.ws.edges[0], b.k.nr, nil, 0, 0)
			b.addEdge(m, n, part[at:], ldp, (c.i0+i)*b.LDC+j, flags)
		}
	}
}

func roundUp(n, to int) int { return ceilDiv(n, to) * to }

// addEdge finishes a tile in ws.edges as tile would, for n columns.
func (b *block) addEdge(m, n int, part []int32, ldp, at, flags int) {
	for i := range m {
		edge := b.ws.edges[i*b.k.nr:][:n]
		if flags&flagAdd != 0 {
			for j, v := range part[i*ldp:][:n] {
				edge[j] += v
			}
		}
		if flags&flagWiden == 0 {
			copy(part[i*ldp:], edge)
			continue
		}
		sum := b.sum[at+i*b.LDC:][:n]
		for j, v := range edge {
			sum[j] += int64(v)
		}
	}
}

// isSkinny reports whether one operand is so narrow that packing the other would cost much of the
// time.
func (p *Product) isSkinny() bool { return min(p.M, p.N) <= skinny }

// runSkinny adds the product over r in strips of the wide operand, whose rows are read as they
// are. The narrow operand is packed. The sums of a strip have one row for each column of the
// narrow operand.
func (b *block) runSkinny(r rect) {
	narrow, n, wide, w, c0, c1 := b.a, b.M, b.d, b.N, r.j0, r.j1
	if b.M > b.N {
		narrow, n, wide, w, c0, c1 = b.d, b.N, b.a, b.M, r.i0, r.i1
	}
	for c := c0; c < c1; c += strip {
		end := min(c+strip, c1)
		for from := b.from; from < b.to; from += kBlock {
			to := min(from+kBlock, b.to)
			if c == c0 || b.to-b.from > kBlock {
				b.pack(b.ws.a, aStride, narrow, n, 0, n, from, to)
			}
			b.multiplyStrip(wide, w, n, c, end, from, to)
		}
		if b.M > b.N {
			b.addTransposed(c, end)
		} else {
			b.addRows(b.ws.sums, strip, 0, b.M, c, end)
		}
	}
}

// multiplyStrip multiplies columns c0 … c1-1 of the wide operand, of width w, with the n packed
// columns of the narrow one, over rows from … to-1.
func (b *block) multiplyStrip(wide []int16, w, n, c0, c1, from, to int) {
	flags := 0
	if from > b.from {
		flags = flagAdd
	}
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
			x, sums := &b.ws.a[i*k.depth], &b.ws.sums[i*strip+c-c0]
			switch {
			case packed:
				k.tile(m, roundUp(width, k.lanes), steps, x, aStride, &b.ws.d[0], k.nr, sums, strip, nil, 0, flags)
			case k.depth == 1:
				k.tile(m, k.nr, steps, x, aStride, &wide[from*w+c], w, sums, strip, nil, 0, flags)
			default:
				k.direct(m, to-from, x, aStride, &wide[from*w+c], w, sums, strip, flags)
			}
		}
	}
}

// addTransposed adds the sums of a strip to rows i0 … i1-1 of the result.
func (b *block) addTransposed(i0, i1 int) {
	simd.Transpose(asFloats(b.ws.turn), b.N, asFloats(b.ws.sums), strip, b.N, i1-i0)
	b.addRows(b.ws.turn, b.N, i0, i1, 0, b.N)
}

// asFloats returns the same memory as floats, to copy it.
func asFloats(x []int32) []float32 { return unsafe.Slice((*float32)(unsafe.Pointer(&x[0])), len(x)) }

// addRows adds rows, ld elements apart, to the part [i0:i1, j0:j1] of the sum.
func (b *block) addRows(rows []int32, ld, i0, i1, j0, j1 int) {
	count, n := i1-i0, j1-j0
	if n == ld && n == b.LDC { // without gaps: one long row
		count, n = 1, count*n
	}
	for i := range count {
		at := (i0+i)*b.LDC + j0
		b.k.widen(&b.sum[at:][:n][0], &rows[i*ld:][:n][0], n)
	}
}
