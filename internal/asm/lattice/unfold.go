package lattice

import (
	. "github.com/mmcloughlin/avo/operand"
)

func unfoldFile(g *generator) {
	g.suffix = "AVX2"
	emitTranspose8(g)
	emitCopyRuns(g, 4)
	emitCopyRuns(g, 8)
}

// emitTranspose8 emits transpose8.
func emitTranspose8(g *generator) {
	g.function("transpose8", "func(dst *int16, ldd int, src *int16, lds, blocks int)", "kernels.transpose8")
	dst, ldd, src, lds, blocks := g.param("dst"), g.param("ldd"), g.param("src"), g.param("lds"), g.param("blocks")
	g.SHLQ(U8(1), ldd)
	g.SHLQ(U8(1), lds)
	g.repeat(blocks, func() {
		at, to := g.rowPointers(src, lds, 8), g.rowPointers(dst, ldd, 8)
		var x [8]vec
		for i := range x {
			x[i] = g.XMM()
			g.VMOVDQU(at(i), x[i])
		}
		// pair interleaves the elements of two vectors.
		pair := func(low, high func(a, b, c vec), a, b vec) (vec, vec) {
			x, y := g.XMM(), g.XMM()
			low(b, a, x)
			high(b, a, y)
			return x, y
		}
		words := [2]func(a, b, c vec){func(a, b, c vec) { g.VPUNPCKLWD(a, b, c) }, func(a, b, c vec) { g.VPUNPCKHWD(a, b, c) }}
		doubles := [2]func(a, b, c vec){func(a, b, c vec) { g.VPUNPCKLDQ(a, b, c) }, func(a, b, c vec) { g.VPUNPCKHDQ(a, b, c) }}
		quads := [2]func(a, b, c vec){func(a, b, c vec) { g.VPUNPCKLQDQ(a, b, c) }, func(a, b, c vec) { g.VPUNPCKHQDQ(a, b, c) }}
		var two, four [8]vec // two[2i+h]: columns 4h to 4h+3 of rows 2i, 2i+1; four[4i+h]: columns 2h, 2h+1 of rows 4i to 4i+3
		for i := range 4 {
			two[2*i], two[2*i+1] = pair(words[0], words[1], x[2*i], x[2*i+1])
		}
		for i := range 2 {
			four[4*i], four[4*i+1] = pair(doubles[0], doubles[1], two[4*i], two[4*i+2])
			four[4*i+2], four[4*i+3] = pair(doubles[0], doubles[1], two[4*i+1], two[4*i+3])
		}
		for h := range 4 {
			even, odd := pair(quads[0], quads[1], four[h], four[4+h])
			g.VMOVDQU(even, to(2*h))
			g.VMOVDQU(odd, to(2*h+1))
		}
		g.ADDQ(U8(16), src)
		g.LEAQ(Mem{Base: dst, Index: ldd, Scale: 8}, dst)
	})
	g.leave()
}

// emitCopyRuns emits a copyRunsFunc for runs of at most width elements.
func emitCopyRuns(g *generator, width int) {
	g.function(map[int]string{4: "copyRuns4", 8: "copyRuns8"}[width], "func(dst, src *int16, starts *int32, n, run, positions, step int)", "copyRunsFunc")
	dst, src, starts, n, run, positions, step := g.param("dst"), g.param("src"), g.param("starts"), g.param("n"), g.param("run"), g.param("positions"), g.param("step")
	g.SHLQ(U8(1), run)
	g.SHLQ(U8(1), step)
	move := func(i int, start Mem) {
		start.Disp = 4 * i
		at := g.GP64()
		g.MOVL(start, at.As32())
		from := Mem{Base: src, Index: at, Scale: 2}
		if width == 4 {
			x := g.GP64()
			g.MOVQ(from, x)
			g.MOVQ(x, Mem{Base: dst})
		} else {
			x := g.XMM()
			g.VMOVDQU(from, x)
			g.VMOVDQU(x, Mem{Base: dst})
		}
		g.ADDQ(run, dst)
	}
	g.repeat(positions, func() {
		at, left := g.GP64(), g.GP64()
		g.MOVQ(starts, at)
		g.MOVQ(n, left)
		for _, count := range []int{4, 1} {
			g.forChunks(left, count, func() {
				for i := range count {
					move(i, Mem{Base: at})
				}
				g.ADDQ(U8(4*count), at)
			})
		}
		g.ADDQ(step, src)
	})
	g.leave()
}
