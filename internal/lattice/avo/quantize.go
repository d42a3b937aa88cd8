package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The constants of the hash and of the limits, as in package lattice.
const (
	groupSize    = 16
	firstFactor  = 0x7feb352d
	secondFactor = 0x846ca68b
	sumLimit     = 1 << 29 // above MaxRowNorm²; adding two squares of int16 to it does not wrap
)

func quantizeFile(g *generator) {
	g.forEachSet(func() {
		emitQuantize(g)
		emitRound(g)
	})
}

// dithering is the part that all functions share: x·scale + w/2^32 of whole blocks.
type dithering struct {
	g                 *generator
	x, blocks         reg.Register
	states            []vec // of the words of one block
	advance           vec   // 16·step
	scale, unit       vec
	factors           [2]vec
	rotation          vec // AVX2: the bytes of a rotation by 16 bits
	bytesOfX, vectors int
}

// newDithering loads the arguments x, blocks, scale, start and step.
func newDithering(g *generator) *dithering {
	d := &dithering{g: g, x: g.param("x"), blocks: g.param("blocks"), vectors: 2 * groupSize / g.lanes}
	d.scale = g.vector()
	g.VBROADCASTSS(g.argument("scale"), d.scale)
	state, step := g.vector(), g.vector()
	g.VBROADCASTSS(g.argument("start"), state)
	g.VBROADCASTSS(g.argument("step"), step)
	iota := g.vector()
	g.VPMULLD(g.words("iota", 16, func(i int) uint32 { return uint32(i) }), step, iota)
	g.VPADDD(iota, state, state)
	d.states = []vec{state}
	d.advance = g.vector()
	g.VPSLLD(U8(4), step, d.advance)
	if g.lanes == 8 {
		next := g.vector()
		g.VPSLLD(U8(3), step, next)
		g.VPADDD(next, state, next)
		d.states = append(d.states, next)
		d.rotation = g.vector()
		g.load(g.words("rotation", 8, func(i int) uint32 { return []uint32{0x01000302, 0x05040706, 0x09080b0a, 0x0d0c0f0e}[i%4] }), d.rotation)
	}
	d.factors = [2]vec{g.constant(firstFactor), g.constant(secondFactor)}
	d.unit = g.constant(math.Float32bits(1.0 / (1 << 32)))
	return d
}

// words returns the words of the next block's first half and advances the states.
func (d *dithering) words() (words []vec) {
	g := d.g
	for _, state := range d.states {
		w, shifted := g.vector(), g.vector()
		xor := func(by uint8, x vec) {
			g.VPSRLD(U8(by), x, shifted)
			if g.lanes == 16 {
				g.VPXORD(shifted, x, w)
			} else {
				g.VPXOR(shifted, x, w)
			}
		}
		xor(16, state)
		g.VPADDD(d.advance, state, state)
		g.VPMULLD(d.factors[0], w, w)
		xor(15, w)
		g.VPMULLD(d.factors[1], w, w)
		xor(16, w)
		words = append(words, w)
	}
	return words
}

// forEachBlock emits a loop that runs body for each block. next returns vector i of
// x·scale + w/2^32; body calls it once for each i in order.
func (d *dithering) forEachBlock(body func(next func(i int) vec)) {
	g := d.g
	g.repeat(d.blocks, func() {
		words := d.words()
		body(func(i int) vec {
			w, u, t := words[i%len(words)], g.vector(), g.vector()
			if i == len(words) { // the second half uses the words rotated by 16 bits
				for _, w := range words {
					if g.lanes == 16 {
						g.VPROLD(U8(16), w, w)
					} else {
						g.VPSHUFB(d.rotation, w, w)
					}
				}
			}
			g.VCVTDQ2PS(w, u)
			g.VMULPS(Mem{Base: d.x, Disp: 4 * g.lanes * i}, d.scale, t)
			g.VFMADD231PS(d.unit, u, t) // the product is exact: this is one rounding
			return t
		})
		g.ADDQ(U8(8*groupSize), d.x)
	})
}

// emitQuantize emits quantize. The squares of two elements have a sum of at most 2^31, which
// VPMADDWD gives as an unsigned number. The sums of lanes stay at sumLimit once they reach it.
func emitQuantize(g *generator) {
	g.function("quantize", "func(dst *int16, x *float32, blocks int, scale float32, start, step uint32) uint64", "quantizeGo")
	dst := g.param("dst")
	d := newDithering(g)
	limit, sums := g.constant(sumLimit), g.zero()
	order := g.vector()
	if g.lanes == 16 {
		g.load(g.words("packOrder", 16, func(i int) uint32 { return uint32([]int{0, 2, 4, 6, 1, 3, 5, 7}[i/2] * (1 - i%2)) }), order)
	}
	d.forEachBlock(func(next func(i int) vec) {
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
			g.store(a, Mem{Base: dst, Disp: 4 * g.lanes * i / 2})
		}
		g.ADDQ(U8(4*groupSize), dst)
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
	g.function("round", "func(dst *int32, x *float32, blocks int, scale float32, start, step uint32) (sum uint64, largest uint32)", "roundGo")
	dst := g.param("dst")
	d := newDithering(g)
	sums, largest, size := g.zero(), g.zero(), g.constant(math.MaxInt32)
	d.forEachBlock(func(next func(i int) vec) {
		for i := range d.vectors {
			t, abs := next(i), g.vector()
			if g.lanes == 16 {
				g.VPANDD(size, t, abs)
			} else {
				g.VPAND(size, t, abs)
			}
			g.VPMAXUD(abs, largest, largest)
			g.VCVTPS2DQ(t, t)
			g.store(t, Mem{Base: dst, Disp: 4 * g.lanes * i})
			g.VPSRLQ(U8(32), t, abs)
			g.VPMULDQ(t, t, t)
			g.VPADDQ(t, sums, sums)
			g.VPMULDQ(abs, abs, abs)
			g.VPADDQ(abs, sums, sums)
		}
		g.ADDQ(U8(8*groupSize), dst)
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
