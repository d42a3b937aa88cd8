package simd

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func packFile(g *generator) {
	masks := g.maskTable(8)
	emitPackRows(g, masks)
	emitTranspose8(g)
	emitPrefetchRows(g)
	emitWiden(g, "widenBFloat16AVX2", func(from Mem, x reg.VecVirtual) {
		g.VPMOVZXWD(from, x)
		g.VPSLLD(U8(16), x, x)
	})
	emitWiden(g, "widenFloat16AVX2", func(from Mem, x reg.VecVirtual) { g.VCVTPH2PS(from, x) })
}

// emitWiden emits a conversion of numbers of 16 bits. convert converts eight of them.
func emitWiden(g *generator, name string, convert func(from Mem, x reg.VecVirtual)) {
	g.function(name, "func(dst *float32, ldd int, src *uint16, lds, rows, blocks int)")
	dst, ldd := g.param("dst"), g.param("ldd")
	src, lds := g.param("src"), g.param("lds")
	rows, blocks := g.param("rows"), g.param("blocks")
	g.SHLQ(U8(3), blocks)
	g.repeat("row", rows, func() {
		forEights(g, "block", blocks, func(j reg.GPVirtual) {
			x := g.YMM()
			convert(Mem{Base: src, Index: j, Scale: 2}, x)
			g.VMOVUPS(x, Mem{Base: dst, Index: j, Scale: 4})
		})
		g.LEAQ(Mem{Base: dst, Index: ldd, Scale: 4}, dst)
		g.LEAQ(Mem{Base: src, Index: lds, Scale: 2}, src)
	})
	g.leave()
}

// emitPrefetchRows emits prefetchRows, for at least one row and one line.
func emitPrefetchRows(g *generator) {
	g.function("prefetchRowsAVX2", "func(p *float32, ld, rows, lines int)")
	p, ld := g.param("p"), g.param("ld")
	rows, lines := g.param("rows"), g.param("lines")
	at, left := g.GP64(), g.GP64()
	g.SHLQ(U8(2), ld)
	g.repeat("row", rows, func() {
		g.MOVQ(p, at)
		g.MOVQ(lines, left)
		g.repeat("line", left, func() {
			g.PREFETCHT1(Mem{Base: at})
			g.ADDQ(U8(64), at)
		})
		g.ADDQ(ld, p)
	})
	g.RET()
}

// emitPackRows emits packRows. A comparison of the factor with 0 gives a mask that clears the
// products of rows whose factor is 0.
func emitPackRows(g *generator, masks Mem) {
	g.function("packRowsAVX2", "func(dst *float32, width int, src *float32, lds, rows, cols int, factors *float32)")
	dst := g.param("dst")
	width := g.param("width")
	src := g.param("src")
	lds := g.param("lds")
	rows := g.param("rows")
	factors := g.param("factors")
	g.SHLQ(U8(2), lds)

	table, cut := g.GP64(), g.YMM()
	full := g.param("cols")
	word, used := g.GP64(), g.GP64()
	g.LEAQ(masks, table)
	g.MOVQ(full, word)
	g.ANDQ(U8(7), word)
	g.MOVQ(word, used)
	g.NEGQ(word)
	g.VMOVUPS(Mem{Base: table, Index: word, Scale: 4, Disp: 32}, cut)
	g.ANDQ(I8(-8), full)
	zero, keep, factor := g.YMM(), g.YMM(), g.YMM()
	g.VXORPS(zero, zero, zero)

	// rowLoop copies all rows; change is applied to each vector.
	rowLoop := func(change func(reg.VecVirtual), perRow func()) {
		row, col, colLoop, tail := g.label("row"), g.GP64(), g.label("col"), g.label("tail")
		fill, fillLoop, end := g.label("fill"), g.label("fillLoop"), g.label("end")
		out := g.label("out")
		g.TESTQ(rows, rows)
		g.JEQ(LabelRef(out))
		g.Label(row)
		perRow()
		g.XORQ(col, col)
		g.CMPQ(col, full)
		g.JGE(LabelRef(tail))
		g.Label(colLoop)
		x := g.YMM()
		g.VMOVUPS(Mem{Base: src, Index: col, Scale: 4}, x)
		change(x)
		g.VMOVUPS(x, Mem{Base: dst, Index: col, Scale: 4})
		g.ADDQ(U8(8), col)
		g.CMPQ(col, full)
		g.JLT(LabelRef(colLoop))
		g.Label(tail)
		g.TESTQ(used, used)
		g.JEQ(LabelRef(fill))
		y := g.YMM()
		g.VMASKMOVPS(Mem{Base: src, Index: col, Scale: 4}, cut, y)
		change(y)
		g.VMOVUPS(y, Mem{Base: dst, Index: col, Scale: 4})
		g.ADDQ(U8(8), col)
		g.Label(fill)
		g.CMPQ(col, width)
		g.JGE(LabelRef(end))
		g.Label(fillLoop)
		g.VMOVUPS(zero, Mem{Base: dst, Index: col, Scale: 4})
		g.ADDQ(U8(8), col)
		g.CMPQ(col, width)
		g.JLT(LabelRef(fillLoop))
		g.Label(end)
		g.LEAQ(Mem{Base: dst, Index: width, Scale: 4}, dst)
		g.ADDQ(lds, src)
		g.DECQ(rows)
		g.JNE(LabelRef(row))
		g.Label(out)
		g.leave()
	}
	plain := g.label("plain")
	g.TESTQ(factors, factors)
	g.JEQ(LabelRef(plain))
	rowLoop(func(x reg.VecVirtual) {
		g.VMULPS(factor, x, x)
		g.VANDPS(keep, x, x)
	}, func() {
		g.VBROADCASTSS(Mem{Base: factors}, factor)
		g.ADDQ(U8(4), factors)
		g.VCMPPS(U8(4), zero, factor, keep) // not equal
	})
	g.Label(plain)
	rowLoop(func(reg.VecVirtual) {}, func() {})
}

// emitTranspose8 emits transpose8: it transposes blocks of 8×8 in registers.
func emitTranspose8(g *generator) {
	g.function("transpose8AVX2", "func(dst *float32, ldd int, src *float32, lds, blocks int)")
	dst := g.param("dst")
	ldd := g.param("ldd")
	src := g.param("src")
	lds := g.param("lds")
	blocks := g.param("blocks")
	g.SHLQ(U8(2), ldd)
	g.SHLQ(U8(2), lds)
	// Rows 4 … 7 use a second pointer; rows 3 and 7 use an offset of 3*stride.
	lds3, ldd3, src4 := g.GP64(), g.GP64(), g.GP64()
	g.LEAQ(Mem{Base: lds, Index: lds, Scale: 2}, lds3)
	g.LEAQ(Mem{Base: ldd, Index: ldd, Scale: 2}, ldd3)
	g.LEAQ(Mem{Base: src, Index: lds, Scale: 4}, src4)
	at := func(base, ld, ld3 reg.Register, i int) Mem {
		switch i {
		case 1, 2:
			return Mem{Base: base, Index: ld, Scale: uint8(i)}
		case 3:
			return Mem{Base: base, Index: ld3, Scale: 1}
		}
		return Mem{Base: base}
	}
	loop, end := g.label("loop"), g.label("end")
	g.TESTQ(blocks, blocks)
	g.JEQ(LabelRef(end))
	g.Label(loop)
	// quads[0][i] contains columns 0-3 of rows i and i+4, quads[1][i] columns 4-7.
	var quads [2][4]reg.VecVirtual
	for h := range quads {
		for i := range quads[h] {
			q := g.YMM()
			top, bottom := at(src, lds, lds3, i), at(src4, lds, lds3, i)
			top.Disp, bottom.Disp = 16*h, 16*h
			g.VMOVUPS(top, q.AsX())
			g.VINSERTF128(U8(1), bottom, q, q)
			quads[h][i] = q
		}
	}
	for h := range quads {
		for i, x := range transpose4x4(g, quads[h]) {
			g.VMOVUPS(x, at(dst, ldd, ldd3, i))
		}
		g.LEAQ(Mem{Base: dst, Index: ldd, Scale: 4}, dst)
	}
	g.ADDQ(U8(32), src)
	g.ADDQ(U8(32), src4)
	g.DECQ(blocks)
	g.JNE(LabelRef(loop))
	g.Label(end)
	g.leave()
}
