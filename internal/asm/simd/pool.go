package simd

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// largerOrNaN returns the mask of the lanes where x is larger than best, or NaN.
func largerOrNaN(g *generator, x, best vec, width int) vec {
	larger, nan := vectorOf(g, width), vectorOf(g, width)
	g.VCMPPS(U8(0x1e), best, x, larger)
	g.VCMPPS(U8(3), x, x, nan)
	g.VORPS(nan, larger, larger)
	return larger
}

// emitMaxPoolRows emits maxPoolRows. Lanes outside the image are masked: they are not read.
func emitMaxPoolRows(g *generator, stride int) {
	g.function(fmt.Sprintf("maxPoolRows%dAVX2", stride), "func(dst *float32, arg *int32, cols int, img *float32, offset, lds, khs, kws, w, dil, width, rows, step int)")
	cols := g.param("cols")
	offset := g.param("offset").(reg.GPVirtual)
	lds := g.param("lds").(reg.GPVirtual)
	w := g.param("w").(reg.GPVirtual)
	dil := g.param("dil").(reg.GPVirtual)
	forWidths(g, cols, func(width int) {
		limit, minusOne := broadcastInt(g, g.param("width").(reg.GPVirtual), width), ones(g, width)
		forth, down := broadcastInt(g, dil, width), broadcastInt(g, lds, width)
		done, left := g.GP64(), g.param("rows")
		g.XORQ(done, done)
		g.repeat("row", left, func() {
			forColumnGroups(g, cols, width, func(j reg.GPVirtual) {
				first := g.GP64()
				g.LEAQ(Mem{Base: w, Index: j, Scale: uint8(stride)}, first)
				best, arg := vectorOf(g, width), ones(g, width)
				g.VMOVUPS(g.num(math.Inf(-1)), best)
				rowStart := broadcastInt(g, offset, width)
				row, khs := g.param("img"), g.param("khs")
				g.LEAQ(Mem{Base: row, Index: offset, Scale: 4}, row)
				g.LEAQ(Mem{Base: row, Index: first, Scale: 4}, row)
				g.repeat("kh", khs, func() {
					at, kws := g.GP64(), g.param("kws")
					g.MOVQ(row, at)
					base := broadcastInt(g, first, width)
					g.repeat("kw", kws, func() {
						place := addInts(g, base, columnOffsets(g, 0, stride, false), width)
						valid := insideMask(g, place, limit, minusOne, width)
						masks := []vec{valid}
						if stride > 1 {
							masks = strideMasks(g, base, limit, minusOne, stride, width)
						}
						x := loadStrided(g, Mem{Base: at}, masks, width)
						taken := largerOrNaN(g, x, best, width)
						g.VORPS(arg, taken, taken) // a negative index: no element yet
						g.VANDPS(valid, taken, taken)
						g.VBLENDVPS(taken, x, best, best)
						g.VBLENDVPS(taken, addInts(g, place, rowStart, width), arg, arg)
						g.VPADDD(forth, base, base)
						g.LEAQ(Mem{Base: at, Index: dil, Scale: 4}, at)
					})
					g.VPADDD(down, rowStart, rowStart)
					g.LEAQ(Mem{Base: row, Index: lds, Scale: 4}, row)
				})
				dst, args := g.param("dst"), g.param("arg")
				to := g.GP64()
				g.LEAQ(Mem{Base: done, Index: j, Scale: 1}, to)
				g.VMOVUPS(best, Mem{Base: dst, Index: to, Scale: 4})
				g.VMOVUPS(arg, Mem{Base: args, Index: to, Scale: 4})
			})
			g.ADDQ(cols, done)
			g.ADDQ(g.param("step"), offset)
		})
		g.leave()
	})
}

// forPlaces emits a loop that runs body for each group of eight channels, from channel j on, of
// each position, and next after each position.
func forPlaces(g *generator, channels, places reg.Register, body func(j reg.GPVirtual), next func()) {
	g.repeat("place", places, func() {
		forEights(g, "eight", channels, body)
		next()
	})
}

// emitMaxTaps emits maxTaps. It packs the numbers of the taps to bytes.
func emitMaxTaps(g *generator) {
	g.function("maxTapsAVX2", "func(dst *float32, arg *uint8, img *float32, channels, places, step int, taps *int32, n int)")
	dst := g.param("dst")
	arg := g.param("arg")
	img := g.param("img")
	channels := g.param("channels")
	places := g.param("places")
	step := g.param("step")
	taps := g.param("taps")
	n := g.param("n")
	minusOne := ones(g, 8)
	forPlaces(g, channels, places, func(j reg.GPVirtual) {
		best, which, number := g.YMM(), g.YMM(), g.YMM()
		at, t := g.GP64(), g.GP64()
		g.MOVLQSX(Mem{Base: taps}, at)
		g.ADDQ(j, at)
		g.VMOVUPS(Mem{Base: img, Index: at, Scale: 4}, best)
		g.VPXOR(which, which, which)
		g.VPXOR(number, number, number)
		g.MOVQ(U32(1), t)
		loop, done := g.label("tap"), g.label("done")
		g.CMPQ(t, n)
		g.JGE(LabelRef(done))
		g.Label(loop)
		g.MOVLQSX(Mem{Base: taps, Index: t, Scale: 4}, at)
		g.ADDQ(j, at)
		x := g.YMM()
		g.VMOVUPS(Mem{Base: img, Index: at, Scale: 4}, x)
		g.VPSUBD(minusOne, number, number)
		larger := largerOrNaN(g, x, best, 8)
		g.VBLENDVPS(larger, x, best, best)
		g.VBLENDVPS(larger, number, which, which)
		g.INCQ(t)
		g.CMPQ(t, n)
		g.JLT(LabelRef(loop))
		g.Label(done)
		g.VMOVUPS(best, Mem{Base: dst, Index: j, Scale: 4})
		high := g.XMM()
		g.VEXTRACTI128(U8(1), which, high)
		g.VPACKSSDW(high, which.AsX(), high)
		g.VPACKUSWB(high, high, high)
		g.VMOVQ(high, Mem{Base: arg, Index: j, Scale: 1})
	}, func() {
		g.LEAQ(Mem{Base: dst, Index: channels, Scale: 4}, dst)
		g.ADDQ(channels, arg)
		g.LEAQ(Mem{Base: img, Index: step, Scale: 4}, img)
	})
	g.leave()
}

// emitAddToMaxTaps emits addToMaxTaps. It adds 0 for every other tap.
func emitAddToMaxTaps(g *generator) {
	g.function("addToMaxTapsAVX2", "func(img, dy *float32, arg *uint8, channels, places, step int, taps *int32, n int)")
	img := g.param("img")
	dy := g.param("dy")
	arg := g.param("arg")
	channels := g.param("channels")
	places := g.param("places")
	step := g.param("step")
	taps := g.param("taps")
	n := g.param("n")
	minusOne := ones(g, 8)
	forPlaces(g, channels, places, func(j reg.GPVirtual) {
		d, which, number := g.YMM(), g.YMM(), g.YMM()
		at, t := g.GP64(), g.GP64()
		g.VMOVUPS(Mem{Base: dy, Index: j, Scale: 4}, d)
		g.VPMOVZXBD(Mem{Base: arg, Index: j, Scale: 1}, which)
		g.VPXOR(number, number, number)
		g.XORQ(t, t)
		loop := g.label("tap")
		g.Label(loop)
		g.MOVLQSX(Mem{Base: taps, Index: t, Scale: 4}, at)
		g.ADDQ(j, at)
		chosen := g.YMM()
		g.VPCMPEQD(number, which, chosen)
		g.VPSUBD(minusOne, number, number)
		g.VANDPS(d, chosen, chosen)
		g.VADDPS(Mem{Base: img, Index: at, Scale: 4}, chosen, chosen)
		g.VMOVUPS(chosen, Mem{Base: img, Index: at, Scale: 4})
		g.INCQ(t)
		g.CMPQ(t, n)
		g.JLT(LabelRef(loop))
	}, func() {
		g.LEAQ(Mem{Base: dy, Index: channels, Scale: 4}, dy)
		g.ADDQ(channels, arg)
		g.LEAQ(Mem{Base: img, Index: step, Scale: 4}, img)
	})
	g.leave()
}
