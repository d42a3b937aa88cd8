package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The constants of the hash and of the limits, as in package lattice.
const (
	blockSize = 32
	sumLimit  = 1 << 29 // above MaxRowNorm²; adding two squares of int16 to it does not wrap
)

func quantizeFile(g *generator) {
	g.forEachSet(func() {
		emitQuantize(g)
		emitRound(g)
	})
}

// dithering is the part that all functions share: x·scale + w/2^32 of blocks of elements.
type dithering struct {
	g           *generator
	x, n        reg.Register
	words       []vec // of the vectors of a block; AVX2: of its first vector
	advance     vec
	scale, unit vec
	vectors     int // of a block
}

// newDithering loads the arguments x, n, scale, start and step. AVX-512 has registers for the
// words of each vector of a block, so that no word waits for the one before.
func newDithering(g *generator) *dithering {
	d := &dithering{g: g, x: g.param("x"), n: g.param("n"), vectors: blockSize / g.lanes}
	d.scale = g.vector()
	g.VBROADCASTSS(g.argument("scale"), d.scale)
	first, step := g.vector(), g.vector()
	g.VBROADCASTSS(g.argument("start"), first)
	g.VBROADCASTSS(g.argument("step"), step)
	iota := g.vector()
	g.VPMULLD(g.words("iota", 16, func(i int) uint32 { return uint32(i) }), step, iota)
	g.VPADDD(iota, first, first)
	d.words = []vec{first}
	d.advance = g.vector()
	if g.lanes == 8 {
		g.VPSLLD(U8(3), step, d.advance)
	} else {
		next := g.vector()
		g.VPSLLD(U8(4), step, next)
		g.VPADDD(next, first, next)
		d.words = append(d.words, next)
		g.VPSLLD(U8(5), step, d.advance)
	}
	d.unit = g.constant(math.Float32bits(1.0 / (1 << 32)))
	return d
}

// forEachBlock emits a loop that runs body for each block. next returns vector i of
// x·scale + w/2^32; body calls it once for each i in order. With AVX-512, body is emitted once more
// for the elements after the last whole block: tail is then a mask of them, and elements outside of
// it are zeros. Otherwise tail is nil.
func (d *dithering) forEachBlock(body func(next func(i int) vec, tail reg.Register)) {
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
		}, nil)
		g.ADDQ(I32(4*blockSize), d.x)
	})
	if g.lanes == 8 {
		return
	}
	done := g.label("whole")
	g.TESTQ(d.n, d.n)
	g.JEQ(LabelRef(done))
	bits, tail := g.GP64(), g.K()
	g.MOVQ(I32(-1), bits)
	g.BZHIQ(d.n, bits, bits)
	g.KMOVD(bits.As32(), tail)
	body(func(i int) vec {
		return dither(i, func(from Mem, to vec) {
			g.VMULPS_Z(from, d.scale, g.half16(tail, i), to)
		})
	}, tail)
	g.Label(done)
}

// half16 returns a mask of the 16 elements of vector i, of a mask of 32 elements.
func (g *generator) half16(mask reg.Register, i int) reg.Register {
	if i == 0 {
		return mask
	}
	high := g.K()
	g.KSHIFTRD(U8(16), mask, high)
	return high
}

// emitQuantize emits quantize. The squares of two elements have a sum of at most 2^31, which
// VPMADDWD gives as an unsigned number. The sums of lanes stay at sumLimit once they reach it.
func emitQuantize(g *generator) {
	g.function("quantize", "func(dst *int16, x *float32, n int, scale float32, start, step uint32) uint64", "quantizeGo")
	dst := g.param("dst")
	d := newDithering(g)
	limit, sums := g.constant(sumLimit), g.zero()
	order := g.vector()
	if g.lanes == 16 {
		g.load(g.words("packOrder", 16, func(i int) uint32 { return uint32([]int{0, 2, 4, 6, 1, 3, 5, 7}[i/2] * (1 - i%2)) }), order)
	}
	d.forEachBlock(func(next func(i int) vec, tail reg.Register) {
		for i := 0; i < d.vectors; i += 2 {
			a, b := next(i), next(i+1)
			g.VCVTPS2DQ(a, a)
			g.VCVTPS2DQ(b, b)
			g.VPACKSSDW(b, a, a)
			g.VPMADDWD(a, a, b)
			g.VPADDD(b, sums, sums)
			g.VPMINUD(limit, sums, sums)
			if g.lanes == 16 {
				g.VPERMQ(a, order, a)
			} else {
				g.VPERMQ(U8(0xd8), a, a)
			}
			to := Mem{Base: dst, Disp: 4 * g.lanes * i / 2}
			if tail != nil {
				g.VMOVDQU16(a, tail, to)
				continue
			}
			g.store(a, to)
		}
		g.ADDQ(U8(2*blockSize), dst)
	})
	even := g.vector()
	g.VPSRLQ(U8(32), sums, even)
	g.VPSLLQ(U8(32), sums, sums)
	g.VPSRLQ(U8(32), sums, sums)
	g.VPADDQ(even, sums, sums)
	g.Store(g.sumQuads(sums), g.ReturnIndex(0))
	g.leave()
}

// emitRound emits round.
func emitRound(g *generator) {
	g.function("round", "func(dst *int32, x *float32, n int, scale float32, start, step uint32) (sum uint64, largest uint32)", "roundGo")
	dst := g.param("dst")
	d := newDithering(g)
	sums, largest, size := g.zero(), g.zero(), g.constant(math.MaxInt32)
	d.forEachBlock(func(next func(i int) vec, tail reg.Register) {
		for i := range d.vectors {
			t, abs := next(i), g.vector()
			if g.lanes == 16 {
				g.VPANDD(size, t, abs)
			} else {
				g.VPAND(size, t, abs)
			}
			g.VPMAXUD(abs, largest, largest)
			g.VCVTPS2DQ(t, t)
			if to := (Mem{Base: dst, Disp: 4 * g.lanes * i}); tail != nil {
				g.VMOVDQU32(t, g.half16(tail, i), to)
			} else {
				g.store(t, to)
			}
			g.VPSRLQ(U8(32), t, abs)
			g.VPMULDQ(t, t, t)
			g.VPADDQ(t, sums, sums)
			g.VPMULDQ(abs, abs, abs)
			g.VPADDQ(abs, sums, sums)
		}
		g.ADDQ(I32(4*blockSize), dst)
	})
	g.Store(g.sumQuads(sums), g.Return("sum"))
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
	g.Store(result, g.Return("largest"))
	g.leave()
}
