package main

import (
	. "github.com/mmcloughlin/avo/operand"
)

func reduceFile(g *generator) {
	g.forEachSet(func() {
		emitWiden(g)
		emitAddToRows(g)
		emitAddInts(g)
		emitInnerProduct(g)
		emitSumSquares(g)
		emitTakeScaled(g)
	})
}

// emitWiden emits widen.
func emitWiden(g *generator) {
	g.function("widen", "func(sum *int64, part *int32, n int)", "kernels.widen")
	sum, part, n := g.param("sum"), g.param("part"), g.param("n")
	g.forChunks(n, g.lanes/2, func() {
		x := g.vector()
		g.VPMOVSXDQ(Mem{Base: part}, x)
		g.VPADDQ(Mem{Base: sum}, x, x)
		g.store(x, Mem{Base: sum})
		g.ADDQ(U8(2*g.lanes), part)
		g.ADDQ(U8(4*g.lanes), sum)
	})
	done := g.label("done")
	g.TESTQ(n, n)
	g.JEQ(LabelRef(done))
	g.repeat(n, func() {
		x := g.GP64()
		g.MOVLQSX(Mem{Base: part}, x)
		g.ADDQ(x, Mem{Base: sum})
		g.ADDQ(U8(4), part)
		g.ADDQ(U8(8), sum)
	})
	g.Label(done)
	g.leave()
}

// emitAddToRows emits addToRows.
func emitAddToRows(g *generator) {
	g.function("addToRows", "func(sum *int64, x *int32, dim int, rows *int32, n int)", "kernels.addToRows")
	sum, x, dim, rows, n := g.param("sum"), g.param("x"), g.param("dim"), g.param("rows"), g.param("n")
	row, from, m := g.GP64(), g.GP64(), g.GP64()
	g.repeat(n, func() {
		g.MOVLQSX(Mem{Base: rows}, row)
		g.IMULQ(dim, row)
		g.LEAQ(Mem{Base: sum, Index: row, Scale: 8}, row)
		g.MOVQ(x, from)
		g.MOVQ(dim, m)
		g.forChunks(m, g.lanes/2, func() {
			v := g.vector()
			g.VPMOVSXDQ(Mem{Base: from}, v)
			g.VPADDQ(Mem{Base: row}, v, v)
			g.store(v, Mem{Base: row})
			g.ADDQ(U8(2*g.lanes), from)
			g.ADDQ(U8(4*g.lanes), row)
		})
		done := g.label("done")
		g.TESTQ(m, m)
		g.JEQ(LabelRef(done))
		g.repeat(m, func() {
			v := g.GP64()
			g.MOVLQSX(Mem{Base: from}, v)
			g.ADDQ(v, Mem{Base: row})
			g.ADDQ(U8(4), from)
			g.ADDQ(U8(8), row)
		})
		g.Label(done)
		g.ADDQ(U8(4), rows)
	})
	g.leave()
}

// emitAddInts emits addInts.
func emitAddInts(g *generator) {
	g.function("addInts", "func(sum, part *int32, n int)", "kernels.addInts")
	sum, part, n := g.param("sum"), g.param("part"), g.param("n")
	g.forChunks(n, g.lanes, func() {
		x := g.vector()
		g.load(Mem{Base: part}, x)
		g.VPADDD(Mem{Base: sum}, x, x)
		g.store(x, Mem{Base: sum})
		g.ADDQ(U8(4*g.lanes), part)
		g.ADDQ(U8(4*g.lanes), sum)
	})
	done := g.label("done")
	g.TESTQ(n, n)
	g.JEQ(LabelRef(done))
	g.repeat(n, func() {
		x := g.GP32()
		g.MOVL(Mem{Base: part}, x)
		g.ADDL(x, Mem{Base: sum})
		g.ADDQ(U8(4), part)
		g.ADDQ(U8(4), sum)
	})
	g.Label(done)
	g.leave()
}

// emitInnerProduct emits innerProduct.
func emitInnerProduct(g *generator) {
	g.function("innerProduct", "func(x, y *int32, n int) int64", "kernels.innerProduct")
	x, y, n := g.param("x"), g.param("y"), g.param("n")
	acc := []vec{g.zero(), g.zero()}
	g.forChunks(n, g.lanes, func() {
		a, b, a2, b2 := g.vector(), g.vector(), g.vector(), g.vector()
		g.load(Mem{Base: x}, a)
		g.load(Mem{Base: y}, b)
		g.VPSRLQ(U8(32), a, a2)
		g.VPSRLQ(U8(32), b, b2)
		g.VPMULDQ(a, b, a)
		g.VPMULDQ(a2, b2, a2)
		g.VPADDQ(a, acc[0], acc[0])
		g.VPADDQ(a2, acc[1], acc[1])
		g.ADDQ(U8(4*g.lanes), x)
		g.ADDQ(U8(4*g.lanes), y)
	})
	g.VPADDQ(acc[1], acc[0], acc[0])
	sum := g.sumQuads(acc[0])
	done := g.label("done")
	g.TESTQ(n, n)
	g.JEQ(LabelRef(done))
	g.repeat(n, func() {
		a, b := g.GP64(), g.GP64()
		g.MOVLQSX(Mem{Base: x}, a)
		g.MOVLQSX(Mem{Base: y}, b)
		g.IMULQ(a, b)
		g.ADDQ(b, sum)
		g.ADDQ(U8(4), x)
		g.ADDQ(U8(4), y)
	})
	g.Label(done)
	g.Store(sum, g.ReturnIndex(0))
	g.leave()
}

// emitSumSquares emits sumSquares. The squares of two elements have a sum of at most 2^31, which
// VPMADDWD gives as an unsigned number.
func emitSumSquares(g *generator) {
	g.function("sumSquares", "func(x *int16, n int) int64", "kernels.sumSquares")
	x, n := g.param("x"), g.param("n")
	acc := []vec{g.zero(), g.zero()}
	mask := g.vector()
	g.VPBROADCASTQ(g.words("lowWord", 2, func(i int) uint32 { return []uint32{1<<32 - 1, 0}[i] }), mask)
	g.forChunks(n, 2*g.lanes, func() {
		a, b := g.vector(), g.vector()
		g.load(Mem{Base: x}, a)
		g.VPMADDWD(a, a, a)
		g.VPSRLQ(U8(32), a, b)
		if g.lanes == 16 {
			g.VPANDQ(mask, a, a)
		} else {
			g.VPAND(mask, a, a)
		}
		g.VPADDQ(a, acc[0], acc[0])
		g.VPADDQ(b, acc[1], acc[1])
		g.ADDQ(U8(4*g.lanes), x)
	})
	g.VPADDQ(acc[1], acc[0], acc[0])
	sum := g.sumQuads(acc[0])
	done := g.label("done")
	g.TESTQ(n, n)
	g.JEQ(LabelRef(done))
	g.repeat(n, func() {
		a := g.GP64()
		g.MOVWQSX(Mem{Base: x}, a)
		g.IMULQ(a, a)
		g.ADDQ(a, sum)
		g.ADDQ(U8(2), x)
	})
	g.Label(done)
	g.Store(sum, g.ReturnIndex(0))
	g.leave()
}

// emitTakeScaled emits takeScaled. AVX2 has no conversion from integers of 64 bits. There, the words
// h·2^32 + l are put into two numbers 2^84 + 2^63 + h·2^32 and 2^52 + l. The difference of the first and
// 2^84 + 2^63 + 2^52 is exact, and its sum with the second rounds once.
func emitTakeScaled(g *generator) {
	g.function("takeScaled", "func(dst *float32, sum *int64, n int, scale float64)", "kernels.takeScaled")
	dst, sum, n := g.param("dst"), g.param("sum"), g.param("n")
	scale, zero := g.vector(), g.zero()
	g.VBROADCASTSD(g.argument("scale"), scale)
	var highExponent, lowExponent, offset vec
	if g.lanes == 8 {
		pair := func(name string, high, low uint32) vec {
			x := g.vector()
			g.VPBROADCASTQ(g.words(name, 2, func(i int) uint32 { return []uint32{low, high}[i] }), x)
			return x
		}
		highExponent, lowExponent, offset = pair("highExponent", 0x45300000, 0x80000000), pair("lowExponent", 0x43300000, 0), pair("offset", 0x45300000, 0x80100000)
	}
	g.forChunks(n, g.lanes/2, func() {
		x := g.vector()
		if g.lanes == 16 {
			g.VCVTQQ2PD(Mem{Base: sum}, x)
		} else {
			low := g.vector()
			g.load(Mem{Base: sum}, x)
			g.VPBLENDD(U8(0xaa), lowExponent, x, low)
			g.VPSRLQ(U8(32), x, x)
			g.VPXOR(highExponent, x, x)
			g.VSUBPD(offset, x, x)
			g.VADDPD(low, x, x)
		}
		g.VMULPD(scale, x, x)
		y := g.half()
		if g.lanes == 16 {
			g.VCVTPD2PS(x, y)
		} else {
			g.VCVTPD2PSY(x, y)
		}
		g.VMOVDQU(y, Mem{Base: dst})
		g.store(zero, Mem{Base: sum})
		g.ADDQ(U8(2*g.lanes), dst)
		g.ADDQ(U8(4*g.lanes), sum)
	})
	g.leave()
}
