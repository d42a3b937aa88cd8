package simd

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// emitUnfold emits unfold. It copies whole vectors; the next row overwrites the excess.
func emitUnfold(g *generator) {
	g.function("unfoldAVX2", "func(dst *float32, cols, rows int, src *float32, lds int, starts *int32, taps int)")
	dst := g.param("dst")
	cols := g.param("cols")
	height := g.param("rows")
	src := g.param("src")
	lds := g.param("lds")
	starts := g.param("starts")
	taps := g.param("taps")
	g.SHLQ(U8(2), lds)
	const most = 5 // rows of at least this many vectors are copied by a loop
	copyRow := func(vectors int, from reg.Register) {
		if vectors < most {
			for v := range vectors {
				x := g.YMM()
				g.VMOVUPS(Mem{Base: from, Disp: 32 * v}, x)
				g.VMOVUPS(x, Mem{Base: dst, Disp: 32 * v})
			}
			return
		}
		forEights(g, "vector", cols, func(j reg.GPVirtual) {
			x := g.YMM()
			g.VMOVUPS(Mem{Base: from, Index: j, Scale: 4}, x)
			g.VMOVUPS(x, Mem{Base: dst, Index: j, Scale: 4})
		})
	}
	for vectors := 1; vectors <= most; vectors++ {
		next := g.label("wider")
		if vectors < most {
			g.CMPQ(cols, U8(8*vectors))
			g.JGT(LabelRef(next))
		}
		g.repeat("tap", taps, func() {
			from, rows := g.GP64(), g.GP64()
			g.MOVLQSX(Mem{Base: starts}, from)
			g.ADDQ(U8(4), starts)
			g.LEAQ(Mem{Base: src, Index: from, Scale: 4}, from)
			g.MOVQ(height, rows)
			g.repeat("row", rows, func() {
				copyRow(vectors, from)
				g.ADDQ(lds, from)
				g.LEAQ(Mem{Base: dst, Index: cols, Scale: 4}, dst)
			})
		})
		g.leave()
		if vectors < most {
			g.Label(next)
		}
	}
}

// emitFold emits fold.
func emitFold(g *generator) {
	g.function("foldAVX2", "func(dst *float32, lds int, starts *int32, n int, src *float32, cols, rows int)")
	dst := g.param("dst")
	lds := g.param("lds")
	starts := g.param("starts")
	n := g.param("n")
	src := g.param("src")
	cols := g.param("cols")
	height := g.param("rows")
	g.SHLQ(U8(2), lds)
	to, rows := g.GP64(), g.GP64()
	g.repeat("start", n, func() {
		g.MOVLQSX(Mem{Base: starts}, to)
		g.ADDQ(U8(4), starts)
		g.LEAQ(Mem{Base: dst, Index: to, Scale: 4}, to)
		g.MOVQ(height, rows)
		g.repeat("row", rows, func() {
			forEights(g, "vector", cols, func(j reg.GPVirtual) {
				x := g.YMM()
				g.VMOVUPS(Mem{Base: to, Index: j, Scale: 4}, x)
				g.VADDPS(Mem{Base: src, Index: j, Scale: 4}, x, x)
				g.VMOVUPS(x, Mem{Base: to, Index: j, Scale: 4})
			})
			g.LEAQ(Mem{Base: src, Index: cols, Scale: 4}, src)
			g.ADDQ(lds, to)
		})
	})
	g.leave()
}
