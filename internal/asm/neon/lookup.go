package neon

func lookup() []*function { return []*function{sumRows(), addToRows()} }

// forColumnStrips emits loops that run body on strips of columns, eight vectors or one vector
// wide, and advance the pointers. The last vector may be partial.
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

// forEachRow emits a loop that runs body with the address in each of n rows of a table, whose
// numbers are in rows. Rows are size bytes apart.
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

// sumRows emits sumRows. It keeps a strip of the sum in registers while it reads all rows.
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

// addToRows emits addToRows. It keeps a strip of src in registers while it updates all rows.
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
