package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func lookupFile(g *generator) {
	g.sumRows()
	g.addToRows()
}

// columns runs body on strips of columns, as many vectors wide as the first of widths
// says while that fits, then as the next, the last masked. Base registers move on with
// the strips.
func (g *generator) columns(name string, dim reg.Register, bases []reg.Register, widths []int, body func(vectors int, load func(Mem) vec, store func(vec, Mem))) {
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
	load, store := g.partial(dim)
	body(1, load, store)
	g.Label(done)
	g.leave()
}

// eachRow runs body with the address of every row that rows names.
func (g *generator) eachRow(table, rows, n, size reg.Register, body func(row reg.Register)) {
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

// sumRows adds to dst the rows of a table in the order of rows; n is at least one.
func (g *generator) sumRows() {
	g.fn("sumRowsAVX2", "func(dst, table *float32, rows *int32, n, dim int)")
	dst, table := g.param("dst"), g.param("table")
	rows, n := g.param("rows"), g.param("n")
	dim, size := g.param("dim"), g.GP64()
	g.MOVQ(dim, size)
	g.SHLQ(U8(2), size)
	g.columns("strip", dim, []reg.Register{dst, table}, []int{4, 2, 1}, func(vectors int, load func(Mem) vec, store func(vec, Mem)) {
		sums := make([]vec, vectors)
		for v := range sums {
			sums[v] = load(Mem{Base: dst, Disp: 32 * v})
		}
		g.eachRow(table, rows, n, size, func(row reg.Register) {
			for v := range sums {
				g.VADDPS(load(Mem{Base: row, Disp: 32 * v}), sums[v], sums[v])
			}
		})
		for v := range sums {
			store(sums[v], Mem{Base: dst, Disp: 32 * v})
		}
	})
}

// addToRows adds src to rows of a table in the order of rows; n is at least one.
func (g *generator) addToRows() {
	g.fn("addToRowsAVX2", "func(table *float32, rows *int32, n int, src *float32, dim int)")
	table, rows := g.param("table"), g.param("rows")
	n, src := g.param("n"), g.param("src")
	dim, size := g.param("dim"), g.GP64()
	g.MOVQ(dim, size)
	g.SHLQ(U8(2), size)
	g.columns("strip", dim, []reg.Register{src, table}, []int{4, 2, 1}, func(vectors int, load func(Mem) vec, store func(vec, Mem)) {
		add := make([]vec, vectors)
		for v := range add {
			add[v] = load(Mem{Base: src, Disp: 32 * v})
		}
		g.eachRow(table, rows, n, size, func(row reg.Register) {
			for v := range add {
				x := load(Mem{Base: row, Disp: 32 * v})
				g.VADDPS(add[v], x, x)
				store(x, Mem{Base: row, Disp: 32 * v})
			}
		})
	})
}
