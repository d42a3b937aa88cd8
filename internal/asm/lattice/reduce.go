package lattice

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func reduceFile(g *generator) {
	g.suffix, g.lanes = "AVX2", 8
	emitSettle(g)
	emitReadSums(g)
	g.suffix, g.lanes = "AVX512", 16
	emitAddShortRows(g)
	g.forEachSet(func() {
		emitAddToRows(g)
		emitAddInts(g)
		emitInnerProduct(g)
		emitSumSquares(g)
		emitScaleInts(g)
	})
}

// distance returns low - high·2^28 - half modulo 2^32, and high, of eight elements.
func (g *generator) distance(low, high Mem, half vec) (distance, number vec) {
	distance, number = g.vector(), g.vector()
	shifted := g.vector()
	g.VPMOVSXWD(high, number)
	g.VPSLLD(U8(28), number, shifted)
	g.VMOVDQU(low, distance)
	g.VPSUBD(shifted, distance, distance)
	g.VPSUBD(half, distance, distance)
	return distance, number
}

// emitSettle emits settle.
func emitSettle(g *generator) {
	g.function("settle", "func(low *int32, high *int16, n int)", "kernels.settle")
	low, high, n := g.param("low"), g.param("high"), g.param("n")
	half, quarter := g.constant(1<<27), g.constant(1<<26)
	g.forChunks(n, 8, func() {
		steps, number := g.distance(Mem{Base: low}, Mem{Base: high}, half)
		g.VPSRAD(U8(1), steps, steps)
		g.VPADDD(quarter, steps, steps)
		g.VPSRAD(U8(27), steps, steps)
		g.VPADDD(number, steps, steps)
		upper := g.XMM()
		g.VEXTRACTI128(U8(1), steps, upper)
		g.VPACKSSDW(upper, steps.AsX(), upper)
		g.VMOVDQU(upper, Mem{Base: high})
		g.ADDQ(U8(32), low)
		g.ADDQ(U8(16), high)
	})
	g.leave()
}

// emitReadSums emits readSums.
func emitReadSums(g *generator) {
	g.function("readSums", "func(dst *int64, low *int32, high *int16, n int)", "kernels.readSums")
	dst, low, high, n := g.param("dst"), g.param("low"), g.param("high"), g.param("n")
	half, middle := g.constant(1<<27), g.vector()
	g.VPBROADCASTQ(g.words("middle", 2, func(i int) uint32 { return []uint32{1 << 27, 0}[i] }), middle)
	g.forChunks(n, 8, func() {
		distance, _ := g.distance(Mem{Base: low}, Mem{Base: high}, half)
		upper := g.XMM()
		g.VEXTRACTI128(U8(1), distance, upper)
		for half, part := range []reg.Register{distance.AsX(), upper} {
			x, number := g.vector(), g.vector()
			g.VPMOVSXDQ(part, x)
			g.VPMOVSXWQ(Mem{Base: high, Disp: 8 * half}, number)
			g.VPSLLQ(U8(28), number, number)
			g.VPADDQ(number, x, x)
			g.VPADDQ(middle, x, x)
			g.VMOVDQU(x, Mem{Base: dst, Disp: 32 * half})
		}
		g.ADDQ(U8(32), low)
		g.ADDQ(U8(16), high)
		g.ADDQ(U8(64), dst)
	})
	g.leave()
}

// emitAddShortRows emits addShortRows. It adds 16 columns of all rows at a time.
func emitAddShortRows(g *generator) {
	g.function("addShortRows", "func(sum, x *int32, width, n int)", "kernels.addShortRows")
	sum, x, width, n := g.param("sum"), g.param("x"), g.param("width"), g.param("n")
	stride, row, left := g.GP64(), g.GP64(), g.GP64()
	g.MOVQ(width, stride)
	g.SHLQ(U8(2), stride)
	acc, next := g.vector(), g.vector()
	g.forChunks(width, 16, func() {
		g.load(Mem{Base: sum}, acc)
		g.MOVQ(x, row)
		g.MOVQ(n, left)
		g.repeat(left, func() {
			g.VPADDD(Mem{Base: row}, acc, acc)
			g.ADDQ(stride, row)
		})
		g.store(acc, Mem{Base: sum})
		g.ADDQ(U8(64), sum)
		g.ADDQ(U8(64), x)
	})
	done := g.label("done")
	g.TESTQ(width, width)
	g.JEQ(LabelRef(done))
	bits, tail := g.GP64(), g.K()
	g.MOVQ(I32(-1), bits)
	g.BZHIQ(width, bits, bits)
	g.KMOVW(bits.As32(), tail)
	g.VMOVDQU32_Z(Mem{Base: sum}, tail, acc)
	g.repeat(n, func() {
		g.VMOVDQU32_Z(Mem{Base: x}, tail, next)
		g.VPADDD(next, acc, acc)
		g.ADDQ(stride, x)
	})
	g.VMOVDQU32(acc, tail, Mem{Base: sum})
	g.Label(done)
	g.leave()
}

// emitAddToRows emits addToRows.
func emitAddToRows(g *generator) {
	g.function("addToRows", "func(sum, x *int32, dim int, rows *int32, n int)", "kernels.addToRows")
	sum, x, dim, rows, n := g.param("sum"), g.param("x"), g.param("dim"), g.param("rows"), g.param("n")
	row, from, m := g.GP64(), g.GP64(), g.GP64()
	g.repeat(n, func() {
		g.MOVLQSX(Mem{Base: rows}, row)
		g.IMULQ(dim, row)
		g.LEAQ(Mem{Base: sum, Index: row, Scale: 4}, row)
		g.MOVQ(x, from)
		g.MOVQ(dim, m)
		g.addIntegers(row, from, m)
		g.ADDQ(U8(4), rows)
	})
	g.leave()
}

// emitAddInts emits addInts.
func emitAddInts(g *generator) {
	g.function("addInts", "func(sum, part *int32, n int)", "kernels.addInts")
	sum, part, n := g.param("sum"), g.param("part"), g.param("n")
	g.addIntegers(sum, part, n)
	g.leave()
}

// addIntegers adds n words from part on to those from sum on. It changes all three registers.
func (g *generator) addIntegers(sum, part, n reg.Register) {
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

// emitScaleInts emits scaleInts. AVX2 has no conversion from integers of 64 bits. There, the words
// h·2^32 + l are put into two numbers 2^84 + 2^63 + h·2^32 and 2^52 + l. The difference of the first and
// 2^84 + 2^63 + 2^52 is exact, and its sum with the second rounds once.
func emitScaleInts(g *generator) {
	g.function("scaleInts", "func(dst *float32, x *int64, n int, scale float64)", "kernels.scaleInts")
	dst, from, n := g.param("dst"), g.param("x"), g.param("n")
	scale := g.vector()
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
			g.VCVTQQ2PD(Mem{Base: from}, x)
		} else {
			low := g.vector()
			g.load(Mem{Base: from}, x)
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
		g.ADDQ(U8(2*g.lanes), dst)
		g.ADDQ(U8(4*g.lanes), from)
	})
	g.leave()
}
