package lattice

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Constants as in package lattice.
const (
	blockSize = 32
	bound     = 1 << 22
	sumLimit  = 1 << 29 // above MaxRowNorm²; adding two squares of int16 to it does not wrap
)

func quantizeFile(g *generator) {
	g.forEachSet(func() {
		emitQuantize(g)
		emitRound(g)
	})
	g.suffix = "VNNI"
	emitQuantize(g)
}

// dithering is the part that all functions share: x·scale + w/2^32 of the elements of rows, a block
// of elements at a time.
//
// With AVX2 a function handles whole blocks of one row. With AVX-512 it handles rows of any length,
// for which it has arrays of arguments and results.
type dithering struct {
	g              *generator
	dst, x, n      reg.Register
	results        reg.Register // of the next row
	words          []vec        // of the vectors of a block; AVX2: of its first vector
	advance        vec
	scale, unit    vec
	iota           vec
	vectors        int // of a block
	width, rows    reg.Register
	scales, keys   reg.Register
	rest           reg.Register // elements after the last whole block
	tail, tailHigh reg.Register // masks of 32 and of the upper 16 elements
}

// newDithering loads what all rows share. AVX-512 has registers for the words of each vector of a
// block, so that no word waits for the one before.
func newDithering(g *generator) *dithering {
	d := &dithering{g: g, dst: g.param("dst"), x: g.param("x"), vectors: blockSize / g.lanes}
	d.scale, d.iota, d.advance = g.vector(), g.vector(), g.vector()
	d.words = []vec{g.vector()}
	g.load(g.words("iota", 16, func(i int) uint32 { return uint32(i) }), d.iota)
	d.unit = g.constant(math.Float32bits(1.0 / (1 << 32)))
	if g.lanes == 8 {
		d.n = g.param("n")
		return d
	}
	d.words = append(d.words, g.vector())
	d.width, d.rows, d.scales, d.keys, d.results = g.param("width"), g.param("n"), g.param("scales"), g.param("keys"), g.param("squares")
	d.n, d.rest, d.tail, d.tailHigh = g.GP64(), g.GP64(), g.K(), g.K()
	bits := g.GP64()
	g.MOVQ(d.width, d.rest)
	g.ANDQ(U8(blockSize-1), d.rest)
	g.MOVQ(I32(-1), bits)
	g.BZHIQ(d.rest, bits, bits)
	g.KMOVD(bits.As32(), d.tail)
	g.KSHIFTRD(U8(16), d.tail, d.tailHigh)
	return d
}

// begin computes the words of the first elements of a row.
func (d *dithering) begin(scale, start, step Mem) {
	g := d.g
	g.VBROADCASTSS(scale, d.scale)
	distance := g.vector()
	g.VBROADCASTSS(start, d.words[0])
	g.VBROADCASTSS(step, distance)
	places := g.vector()
	g.VPMULLD(d.iota, distance, places)
	g.VPADDD(places, d.words[0], d.words[0])
	if g.lanes == 8 {
		g.VPSLLD(U8(3), distance, d.advance)
		return
	}
	g.VPSLLD(U8(4), distance, d.words[1])
	g.VPADDD(d.words[1], d.words[0], d.words[1])
	g.VPSLLD(U8(5), distance, d.advance)
}

// forEachRow emits the loop over rows; finish stores the result of a row.
func (d *dithering) forEachRow(row, finish func()) {
	g := d.g
	if g.lanes == 8 {
		d.begin(g.argument("scale"), g.argument("start"), g.argument("step"))
		row()
		finish()
		return
	}
	g.repeat(d.rows, func() {
		d.begin(Mem{Base: d.scales}, Mem{Base: d.keys}, Mem{Base: d.keys, Disp: 4})
		g.MOVQ(d.width, d.n)
		row()
		finish()
		g.ADDQ(U8(4), d.scales)
		g.ADDQ(U8(8), d.keys)
		g.ADDQ(U8(8), d.results)
	})
}

// forEachBlock emits a loop that runs body for each block of a row, whose results have a size in bytes.
// next returns vector i of x·scale + w/2^32; body calls it once for each i in order. With AVX-512, body
// is emitted once more for the elements after the last whole block, the tail. Elements outside of it
// are zeros.
func (d *dithering) forEachBlock(size int, body func(next func(i int) vec, tail bool)) {
	g := d.g
	dither := func(i int, load func(from Mem, to vec)) vec {
		words, u, t := d.words[i%len(d.words)], g.vector(), g.vector()
		g.VCVTDQ2PS(words, u)
		g.VPADDD(d.advance, words, words)
		load(Mem{Base: d.x, Disp: 4 * g.lanes * i}, t)
		g.VFMADD231PS(d.unit, u, t) // the product is exact: this is one rounding
		return t
	}
	g.forChunks(d.n, blockSize, func() {
		body(func(i int) vec {
			return dither(i, func(from Mem, to vec) { g.VMULPS(from, d.scale, to) })
		}, false)
		g.ADDQ(I32(4*blockSize), d.x)
		g.ADDQ(I32(size*blockSize), d.dst)
	})
	if g.lanes == 8 {
		return
	}
	done := g.label("whole")
	g.TESTQ(d.rest, d.rest)
	g.JEQ(LabelRef(done))
	body(func(i int) vec {
		return dither(i, func(from Mem, to vec) { g.VMULPS_Z(from, d.scale, d.mask(i), to) })
	}, true)
	g.LEAQ(Mem{Base: d.x, Index: d.rest, Scale: 4}, d.x)
	g.LEAQ(Mem{Base: d.dst, Index: d.rest, Scale: uint8(size)}, d.dst)
	g.Label(done)
}

// mask is that of the 16 elements of vector i of the tail.
func (d *dithering) mask(i int) reg.Register {
	if i == 0 {
		return d.tail
	}
	return d.tailHigh
}

// signature is that of a function for rows of integers.
func (g *generator) signature(integers, results string) string {
	if g.lanes == 16 {
		return "func(dst *" + integers + ", x *float32, width int, scales *float32, keys *uint64, squares *int64, n int)"
	}
	return "func(dst *" + integers + ", x *float32, n int, scale float32, start, step uint32) " + results
}

// emitQuantize emits quantize. The squares of two elements have a sum of at most 2^31, which
// VPMADDWD gives as an unsigned number. The sums of lanes stay at sumLimit once they reach it. VNNI
// has one instruction for all this, with which they stay at 2^31 - 1.
func emitQuantize(g *generator) {
	g.function("quantize", g.signature("int16", "uint64"), "quantizeGo")
	d := newDithering(g)
	limit, sums, order := g.constant(sumLimit), g.vector(), g.vector()
	if g.lanes == 16 {
		g.load(g.words("packOrder", 16, func(i int) uint32 { return uint32([]int{0, 2, 4, 6, 1, 3, 5, 7}[i/2] * (1 - i%2)) }), order)
	}
	d.forEachRow(func() {
		g.clear(sums)
		d.forEachBlock(2, func(next func(i int) vec, tail bool) {
			for i := 0; i < d.vectors; i += 2 {
				a, b := next(i), next(i+1)
				g.VCVTPS2DQ(a, a)
				g.VCVTPS2DQ(b, b)
				g.VPACKSSDW(b, a, a)
				if g.suffix == "VNNI" {
					g.vnni("VPDPWSSDS", a, a, sums)
				} else {
					g.VPMADDWD(a, a, b)
					g.VPADDD(b, sums, sums)
					g.VPMINUD(limit, sums, sums)
				}
				if g.lanes == 16 {
					g.VPERMQ(a, order, a)
				} else {
					g.VPERMQ(U8(0xd8), a, a)
				}
				if to := (Mem{Base: d.dst, Disp: 4 * g.lanes * i / 2}); tail {
					g.VMOVDQU16(a, d.tail, to)
				} else {
					g.store(a, to)
				}
			}
		})
	}, func() {
		even := g.vector()
		g.VPSRLQ(U8(32), sums, even)
		g.VPSLLQ(U8(32), sums, sums)
		g.VPSRLQ(U8(32), sums, sums)
		g.VPADDQ(even, sums, sums)
		if sum := g.sumQuads(sums); g.lanes == 16 {
			g.MOVQ(sum, Mem{Base: d.results})
		} else {
			g.Store(sum, g.ReturnIndex(0))
		}
	})
	g.leave()
}

// emitRound emits round.
func emitRound(g *generator) {
	g.function("round", g.signature("int32", "(sum uint64, largest uint32)"), "roundGo")
	d := newDithering(g)
	sums, largest, size := g.vector(), g.vector(), g.constant(math.MaxInt32)
	d.forEachRow(func() {
		g.clear(sums)
		g.clear(largest)
		d.forEachBlock(4, func(next func(i int) vec, tail bool) {
			short := g.label("short")
			for i := range d.vectors {
				if tail && i == 1 {
					g.CMPQ(d.rest, U8(16))
					g.JLE(LabelRef(short))
				}
				t, abs := next(i), g.vector()
				if g.lanes == 16 {
					g.VPANDD(size, t, abs)
				} else {
					g.VPAND(size, t, abs)
				}
				g.VPMAXUD(abs, largest, largest)
				g.VCVTPS2DQ(t, t)
				if to := (Mem{Base: d.dst, Disp: 4 * g.lanes * i}); tail {
					g.VMOVDQU32(t, d.mask(i), to)
				} else {
					g.store(t, to)
				}
				g.VPSRLQ(U8(32), t, abs)
				g.VPMULDQ(t, t, t)
				g.VPADDQ(t, sums, sums)
				g.VPMULDQ(abs, abs, abs)
				g.VPADDQ(abs, sums, sums)
			}
			if tail {
				g.Label(short)
			}
		})
	}, func() {
		sum := g.sumQuads(sums)
		if g.lanes == 16 {
			high := g.YMM()
			g.VEXTRACTI64X4(U8(1), largest, high)
			g.VPMAXUD(high, largest.AsY(), largest.AsY())
		}
		high, result := g.XMM(), g.GP32()
		g.VEXTRACTI128(U8(1), largest.AsY(), high)
		for _, lanes := range []uint8{0xee, 0x55} {
			g.VPMAXUD(high, largest.AsX(), largest.AsX())
			g.VPSHUFD(U8(lanes), largest.AsX(), high)
		}
		g.VPMAXUD(high, largest.AsX(), largest.AsX())
		g.VMOVD(largest.AsX(), result)
		if g.lanes == 8 {
			g.Store(sum, g.Return("sum"))
			g.Store(result, g.Return("largest"))
			return
		}
		tooLarge := g.GP64()
		g.MOVQ(U64(1<<62), tooLarge)
		g.CMPL(result, U32(math.Float32bits(bound+0.5)))
		g.CMOVQHI(tooLarge, sum)
		g.MOVQ(sum, Mem{Base: d.results})
	})
	g.leave()
}
