package simd

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func lookupFile(g *generator) {
	emitSumRows(g)
	emitAddToRows(g)
}

// forEachRow emits a loop that runs body with the address of every row in rows.
func forEachRow(g *generator, table, rows, n, size reg.Register, body func(row reg.Register)) {
	at, left, row := g.GP64(), g.GP64(), g.GP64()
	g.MOVQ(rows, at)
	g.MOVQ(n, left)
	g.repeat("row", left, func() {
		g.MOVLQSX(Mem{Base: at}, row)
		g.IMULQ(size, row)
		g.ADDQ(table, row)
		body(row)
		g.ADDQ(U8(4), at)
	})
}

// emitSumRows keeps a strip of the sum in registers while it reads all rows.
func emitSumRows(g *generator) {
	g.function("sumRowsAVX2", "func(dst, table *float32, rows *int32, n, dim int)")
	dst, table := g.param("dst"), g.param("table")
	rows, n := g.param("rows"), g.param("n")
	dim, size := g.param("dim"), g.GP64()
	g.MOVQ(dim, size)
	g.SHLQ(U8(2), size)
	forColumnStrips(g, "strip", dim, []reg.Register{dst, table}, []int{4, 2, 1}, func(vectors int, load func(Mem) vec, store func(vec, Mem)) {
		sums := make([]vec, vectors)
		for v := range sums {
			sums[v] = load(Mem{Base: dst, Disp: 32 * v})
		}
		forEachRow(g, table, rows, n, size, func(row reg.Register) {
			for v := range sums {
				g.VADDPS(load(Mem{Base: row, Disp: 32 * v}), sums[v], sums[v])
			}
		})
		for v := range sums {
			store(sums[v], Mem{Base: dst, Disp: 32 * v})
		}
	})
}

// emitAddToRows keeps a strip of src in registers while it updates all rows.
func emitAddToRows(g *generator) {
	g.function("addToRowsAVX2", "func(table *float32, rows *int32, n int, src *float32, dim int)")
	table, rows := g.param("table"), g.param("rows")
	n, src := g.param("n"), g.param("src")
	dim, size := g.param("dim"), g.GP64()
	g.MOVQ(dim, size)
	g.SHLQ(U8(2), size)
	forColumnStrips(g, "strip", dim, []reg.Register{src, table}, []int{4, 2, 1}, func(vectors int, load func(Mem) vec, store func(vec, Mem)) {
		add := make([]vec, vectors)
		for v := range add {
			add[v] = load(Mem{Base: src, Disp: 32 * v})
		}
		forEachRow(g, table, rows, n, size, func(row reg.Register) {
			for v := range add {
				x := load(Mem{Base: row, Disp: 32 * v})
				g.VADDPS(add[v], x, x)
				store(x, Mem{Base: row, Disp: 32 * v})
			}
		})
	})
}
