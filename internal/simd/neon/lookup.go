package main

func lookup() []*function { return []*function{sumRows(), addToRows()} }

// forColumnStrips runs body on so many vectors of columns at a time, and moves pointers on;
// the last vector may be cut.
func forColumnStrips(f *function, dim *reg, pointers []*reg, body func(load func(p *reg) []*reg, store func(x []*reg, p *reg))) {
	for _, vectors := range []int{8, 1} {
		forChunks(f, dim, 4*vectors, func() {
			body(func(p *reg) []*reg { return loadVectors(f, p, 0, vectors) }, func(x []*reg, p *reg) { storeVectors(f, x, p, 0) })
			for _, p := range pointers {
				increment(f, p, 16*vectors)
			}
		})
	}
	done := f.label("done")
	f.branch("CBZ R%d,", done, dim)
	body(func(p *reg) []*reg { return []*reg{loadFirst(f, p, 0, dim)} }, func(x []*reg, p *reg) { storeFirst(f, x[0], p, 0, dim) })
	f.at(done)
	f.ret()
}

// forEachRow runs body with the place in each of n rows of a table that lie size
// toBytes apart; rows are their numbers.
func forEachRow(f *function, table, rows, n, size *reg, body func(row *reg)) {
	at, left, row := f.gp(), f.gp(), f.gp()
	f.op("MOVD R%d, R%d", rows, at)
	f.op("MOVD R%d, R%d", n, left)
	repeat(f, left, func() {
		f.op("MOVW.P 4(R%d), R%d", at, row)
		f.op("MADD R%d, R%d, R%d, R%d", size, table, row, row)
		body(row)
	})
}

// sumRows adds to dst the rows of a table in the order of rows; n is at least one.
func sumRows() *function {
	f := newFunction("sumRowsNEON", "func(dst, table *float32, rows *int32, n, dim int)")
	r := f.loads("dst", "table", "rows", "n", "dim")
	dst, table, rows, n, dim, size := r[0], r[1], r[2], r[3], r[4], f.gp()
	f.op("LSL $2, R%d, R%d", dim, size)
	forColumnStrips(f, dim, []*reg{dst, table}, func(load func(p *reg) []*reg, store func(x []*reg, p *reg)) {
		sums := load(dst)
		forEachRow(f, table, rows, n, size, func(row *reg) {
			for v, x := range load(row) {
				f.vector("fadd v%d.4s, v%d.4s, v%d.4s", sums[v], sums[v], x)
			}
		})
		store(sums, dst)
	})
	return f
}

// addToRows adds src to rows of a table in the order of rows; n is at least one.
func addToRows() *function {
	f := newFunction("addToRowsNEON", "func(table *float32, rows *int32, n int, src *float32, dim int)")
	r := f.loads("table", "rows", "n", "src", "dim")
	table, rows, n, src, dim, size := r[0], r[1], r[2], r[3], r[4], f.gp()
	f.op("LSL $2, R%d, R%d", dim, size)
	forColumnStrips(f, dim, []*reg{src, table}, func(load func(p *reg) []*reg, store func(x []*reg, p *reg)) {
		more := load(src)
		forEachRow(f, table, rows, n, size, func(row *reg) {
			sums := load(row)
			for v, x := range more {
				f.vector("fadd v%d.4s, v%d.4s, v%d.4s", sums[v], sums[v], x)
			}
			store(sums, row)
		})
	})
	return f
}
