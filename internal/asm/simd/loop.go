package simd

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// leave ends a function.
func (g *generator) leave() {
	g.VZEROUPPER()
	g.RET()
}

// repeat emits a loop that runs body n times, n at least 1. It counts n down to 0.
func (g *generator) repeat(name string, n reg.Register, body func()) {
	loop := g.label(name)
	g.Label(loop)
	body()
	g.DECQ(n)
	g.JNE(LabelRef(loop))
}

// forChunks emits a loop that runs body while n ≥ step and subtracts step from n each time. It
// ends with the processor flags of the remaining n.
func (g *generator) forChunks(n reg.Register, step Op, body func()) {
	loop, end := g.label("loop"), g.label("end")
	g.SUBQ(step, n)
	g.JLT(LabelRef(end))
	g.Label(loop)
	body()
	g.SUBQ(step, n)
	g.JGE(LabelRef(loop))
	g.Label(end)
	g.ADDQ(step, n)
}

// forEights emits a loop that runs body for j = 0, 8, … below n, at least once.
func forEights(g *generator, name string, n reg.Register, body func(j reg.GPVirtual)) {
	j, loop := g.GP64(), g.label(name)
	g.XORQ(j, j)
	g.Label(loop)
	body(j)
	g.ADDQ(U8(8), j)
	g.CMPQ(j, n)
	g.JLT(LabelRef(loop))
}

// forEachVector emits a loop that runs body on each vector of n floats and advances the
// pointers. The last vector may be masked.
func forEachVector(g *generator, n reg.Register, pointers []reg.Register, body func(load func(Mem) vec, store func(vec, Mem))) {
	g.forChunks(n, U8(g.lanes), func() {
		body(g.load, g.store)
		for _, p := range pointers {
			g.ADDQ(U8(4*g.lanes), p)
		}
	})
	done := g.label("done")
	g.JEQ(LabelRef(done))
	body(partialAccess(g, n))
	g.Label(done)
	g.leave()
}

// forColumnStrips emits loops that run body on strips of columns. A strip has as many vectors
// as the first of widths while that fits, then as the next; the last vector may be masked. The
// bases advance with the strips.
func forColumnStrips(g *generator, name string, dim reg.Register, bases []reg.Register, widths []int,
	body func(vectors int, load func(Mem) vec, store func(vec, Mem))) {
	for _, vectors := range widths {
		loop, end := g.label(name), g.label("end")
		g.Label(loop)
		g.CMPQ(dim, U8(8*vectors))
		g.JLT(LabelRef(end))
		body(vectors, g.load, g.store)
		for _, b := range bases {
			g.SUBQ(I32(-32*vectors), b)
		}
		g.SUBQ(U8(8*vectors), dim)
		g.JMP(LabelRef(loop))
		g.Label(end)
	}
	done := g.label("done")
	g.TESTQ(dim, dim)
	g.JEQ(LabelRef(done))
	load, store := partialAccess(g, dim)
	body(1, load, store)
	g.Label(done)
	g.leave()
}
