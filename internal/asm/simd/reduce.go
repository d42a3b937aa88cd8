package simd

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func reduceFile(g *generator) {
	emitSum64(g, "dotAVX2", []string{"x", "y"}, func(in []vec, acc vec) { g.VFMADD231PD(in[1], in[0], acc) })
	emitSum64(g, "sumSquaresAVX2", []string{"x"}, func(in []vec, acc vec) { g.VFMADD231PD(in[0], in[0], acc) })
	emitSum64(g, "sumAVX2", []string{"x"}, func(in []vec, acc vec) { g.VADDPD(in[0], acc, acc) })
	emitDeviations(g)
	emitMaximum(g)
	emitColSums(g)
}

// emitDeviations emits deviations, in the lanes of emitSum64.
func emitDeviations(g *generator) {
	g.function("deviationsAVX2", "func(x *float32, n int, mean float64) float64")
	x := g.param("x")
	n := g.param("n")
	mean := g.YMM()
	g.VBROADCASTSD(g.argument("mean"), mean)
	var acc [8]vec
	for i := range acc {
		acc[i] = g.zero()
	}
	loop, end := g.label("loop"), g.label("end")
	g.TESTQ(n, n)
	g.JEQ(LabelRef(end))
	g.Label(loop)
	for i := range acc {
		v := g.YMM()
		g.VCVTPS2PD(Mem{Base: x, Disp: 16 * i}, v)
		g.VSUBPD(mean, v, v)
		g.VMULPD(v, v, v)
		g.VADDPD(v, acc[i], acc[i])
	}
	g.SUBQ(I32(-128), x)
	g.SUBQ(U8(32), n)
	g.JNE(LabelRef(loop))
	g.Label(end)
	returnLaneSum(g, acc)
}

// emitSum64 emits a sum in 32 lanes of float64: term i is added to lane i mod 32. Then lane l
// adds lane l+16, l+8, l+4, l+2 and l+1.
func emitSum64(g *generator, name string, inputs []string, term func(in []vec, acc vec)) {
	signature := "func(x"
	if len(inputs) == 2 {
		signature += ", y"
	}
	g.function(name, signature+" *float32, n int) float64")
	var pointers []reg.Register
	for _, name := range inputs {
		pointers = append(pointers, g.param(name))
	}
	n := g.param("n")
	var acc [8]vec
	for i := range acc {
		acc[i] = g.zero()
	}
	group := func(i int, load func(Mem, vec)) {
		var in []vec
		for _, p := range pointers {
			x := g.YMM()
			load(Mem{Base: p, Disp: 16 * i}, x)
			in = append(in, x)
		}
		term(in, acc[i])
	}
	g.forChunks(n, U8(32), func() {
		for i := range acc {
			group(i, func(m Mem, x vec) { g.VCVTPS2PD(m, x) })
		}
		for _, p := range pointers {
			g.SUBQ(I32(-128), p)
		}
	})
	folded := g.label("fold")
	g.JEQ(LabelRef(folded))
	table := g.GP64()
	g.LEAQ(g.maskTable(32), table)
	g.NEGQ(n)
	for i := range acc {
		mask := g.XMM()
		g.VMOVUPS(Mem{Base: table, Index: n, Scale: 4, Disp: 128 + 16*i}, mask)
		group(i, func(m Mem, x vec) {
			g.VMASKMOVPS(m, mask, x.AsX())
			g.VCVTPS2PD(x.AsX(), x)
		})
	}
	g.Label(folded)
	returnLaneSum(g, acc)
}

// returnLaneSum adds the lanes of eight vectors of float64 and returns the sum.
func returnLaneSum(g *generator, acc [8]vec) {
	for half := 4; half >= 1; half /= 2 {
		for i := range half {
			g.VADDPD(acc[i+half], acc[i], acc[i])
		}
	}
	high := g.XMM()
	low := acc[0].AsX()
	g.VEXTRACTF128(U8(1), acc[0], high)
	g.VADDPD(high, low, low)
	g.VPERMILPD(U8(1), low, high)
	g.VADDSD(high, low, low)
	g.Store(low, g.ReturnIndex(0))
	g.leave()
}

// emitMaximum emits maximum. It gives -Inf for n = 0.
func emitMaximum(g *generator) {
	g.function("maximumAVX2", "func(x *float32, n int) float32")
	x := g.param("x")
	n := g.param("n")
	lowest := g.copyOf(g.num(math.Inf(-1)))
	var acc [4]vec
	for i := range acc {
		acc[i] = g.copyOf(lowest)
	}
	for _, vectors := range []int{4, 1} {
		g.forChunks(n, U8(8*vectors), func() {
			for i := range vectors {
				g.VMAXPS(Mem{Base: x, Disp: 32 * i}, acc[i], acc[i])
			}
			g.SUBQ(I32(-32*vectors), x)
		})
	}
	whole := g.label("whole")
	g.TESTQ(n, n)
	g.JEQ(LabelRef(whole))
	mask, last := firstLanesMask(g, n), g.YMM()
	g.VMASKMOVPS(Mem{Base: x}, mask, last)
	g.VBLENDVPS(mask, last, lowest, last)
	g.VMAXPS(last, acc[0], acc[0])
	g.Label(whole)
	g.VMAXPS(acc[1], acc[0], acc[0])
	g.VMAXPS(acc[3], acc[2], acc[2])
	g.VMAXPS(acc[2], acc[0], acc[0])
	top, other := acc[0].AsX(), g.XMM()
	g.VEXTRACTF128(U8(1), acc[0], other)
	g.VMAXPS(other, top, top)
	g.VPERMILPS(U8(0b1110), top, other)
	g.VMAXPS(other, top, top)
	g.VPERMILPS(U8(1), top, other)
	g.VMAXSS(other, top, top)
	g.Store(top, g.ReturnIndex(0))
	g.leave()
}

// emitColSums emits colSums. It keeps a strip of the sums in registers while it reads all rows.
func emitColSums(g *generator) {
	g.function("colSumsAVX2", "func(dst, x *float32, ldx, rows, cols int, factors *float32)")
	dst := g.param("dst")
	x := g.param("x")
	ldx := g.param("ldx")
	cols := g.param("cols")
	factors := g.param("factors")
	g.SHLQ(U8(2), ldx)
	zero := g.zero()
	strip := func(vectors int, load func(Mem) vec, store func(vec, Mem)) {
		row, f, left := g.GP64(), g.GP64(), g.GP64()
		g.MOVQ(x, row)
		g.MOVQ(factors, f)
		g.Load(g.Param("rows"), left)
		acc := make([]vec, vectors)
		for i := range acc {
			acc[i] = g.zero()
		}
		// Rows are far apart: prefetch the next columns.
		prefetch := func() {
			for at := 0; at < 32*vectors; at += 64 {
				g.PREFETCHT0(Mem{Base: row, Disp: 32*vectors + at})
			}
		}
		plain, scaled, skip, end := g.label("plain"), g.label("scaled"), g.label("skip"), g.label("sum")
		g.TESTQ(f, f)
		g.JEQ(LabelRef(plain))
		g.Label(scaled)
		factor := g.YMM()
		g.VBROADCASTSS(Mem{Base: f}, factor)
		g.VUCOMISS(zero.AsX(), factor.AsX())
		work := g.label("work")
		g.JNE(LabelRef(work))
		g.JPC(LabelRef(skip)) // parity is set for NaN
		g.Label(work)
		prefetch()
		for i := range acc {
			y := load(Mem{Base: row, Disp: 32 * i})
			g.VMULPS(factor, y, y)
			g.VADDPS(y, acc[i], acc[i])
		}
		g.Label(skip)
		g.ADDQ(ldx, row)
		g.ADDQ(U8(4), f)
		g.DECQ(left)
		g.JNE(LabelRef(scaled))
		g.JMP(LabelRef(end))
		g.Label(plain)
		prefetch()
		for i := range acc {
			g.VADDPS(load(Mem{Base: row, Disp: 32 * i}), acc[i], acc[i])
		}
		g.ADDQ(ldx, row)
		g.DECQ(left)
		g.JNE(LabelRef(plain))
		g.Label(end)
		for i := range acc {
			y := load(Mem{Base: dst, Disp: 32 * i})
			g.VADDPS(acc[i], y, y)
			store(y, Mem{Base: dst, Disp: 32 * i})
		}
	}
	forColumnStrips(g, "cols", cols, []reg.Register{x, dst}, []int{4, 1}, strip)
}
