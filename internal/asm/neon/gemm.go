package neon

import "fmt"

// Bits of a tile's flags, as in package simd.
const (
	flagAdd     = iota // add the value in C
	flagColBias        // add bias[j]
	flagRowBias        // add bias[i]
	flagReLU           // max(0, x); NaN stays NaN
)

// A tile has up to 6 rows by 4 vectors of 4 columns. Its sums use 24 of the 32 vector
// registers, more chains than 4 pipelines with a latency of 4 need. The other 8 registers
// contain a vector of each row, loaded every four steps, and two vectors of B at a time: 5.5
// loads for 24 multiply-adds. 8 rows by 3 vectors would leave no register for B, and 12
// columns do not divide the blocks of B.
const tileRows, tileVectors = 6, 4

func gemm() []*function {
	return []*function{tile("tileRowsNEON", true), tile("tileColsNEON", false), fmaPeak()}
}

type tileArgs struct{ m, n, k, a, lda, b, ldb, c, ldc *reg }

// tile emits a tileFunc. It reads whole vectors of B. A is read in one of two ways:
//
//	rows: A[i][p] at a[i*lda+p]   (a matrix stored by rows)
//	cols: A[i][p] at a[p*lda+i]   (a transposed matrix, or a packed panel)
func tile(name string, byRows bool) *function {
	f := newFunction(name, "func(m, n, k int, a *float32, lda int, b *float32, ldb int, c *float32, ldc int, flags int, bias *float32)")
	r := f.loads("m", "n", "k", "a", "lda", "b", "ldb", "c", "ldc")
	t := tileArgs{r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8]}
	toBytes(f, t.lda, t.ldb, t.ldc)
	for vectors := tileVectors; vectors >= 1; vectors-- {
		narrower := f.label("narrower")
		if vectors > 1 {
			f.op(fmt.Sprintf("CMP $%d, R%%d", 4*(vectors-1)), t.n)
			f.branch("BLE", narrower)
		}
		for m := tileRows; m >= 1; m-- {
			lower := f.label("lower")
			if m > 1 {
				f.op(fmt.Sprintf("CMP $%d, R%%d", m), t.m)
				f.branch("BNE", lower)
			}
			emitTileBody(f, t, m, vectors, byRows)
			f.at(lower)
		}
		f.at(narrower)
	}
	return f
}

// emitTileBody is the kernel for exactly m rows and the given number of vectors of columns.
func emitTileBody(f *function, t tileArgs, m, vectors int, byRows bool) {
	acc := make([][]*reg, m)
	for i := range acc {
		for range vectors {
			acc[i] = append(acc[i], zero(f))
		}
	}
	// multiply does one step of k; a[i] is the element of row i.
	multiply := func(a []lane) {
		for v := 0; v < vectors; v += 2 {
			b := loadVectors(f, t.b, 16*v, min(2, vectors-v))
			for i := range acc {
				for w, x := range b {
					f.byLane("fmla", acc[i][v+w], x, a[i])
				}
			}
		}
		f.op("ADD R%d, R%d, R%d", t.ldb, t.b, t.b)
	}
	if byRows {
		rows := []*reg{t.a}
		for i := 1; i < m; i++ {
			next := f.gp()
			f.op("ADD R%d, R%d, R%d", t.lda, rows[i-1], next)
			rows = append(rows, next)
		}
		steps := func(load string, count int) {
			a := make([]lane, m)
			for i, row := range rows {
				a[i] = lane{of: f.vec()}
				f.op(fmt.Sprintf("%s.P %d(R%%d), F%%d", load, 4*count), row, a[i].of)
			}
			for u := range count {
				for i := range a {
					a[i].i = u
				}
				multiply(a)
			}
		}
		forChunks(f, t.k, 4, func() { steps("FMOVQ", 4) })
		forChunks(f, t.k, 1, func() { steps("FMOVS", 1) })
	} else {
		step := func() {
			multiply(loadLanes(f, t.a, m))
			f.op("ADD R%d, R%d, R%d", t.lda, t.a, t.a)
		}
		forChunks(f, t.k, 2, func() { step(); step() })
		forChunks(f, t.k, 1, step)
	}
	finishTile(f, t, acc)
}

// loadLanes loads m contiguous floats.
func loadLanes(f *function, p *reg, m int) (a []lane) {
	for at := 0; at < m; {
		load, n := "FMOVS", 1
		switch {
		case m-at >= 4:
			load, n = "FMOVQ", 4
		case m-at >= 2:
			load, n = "FMOVD", 2
		}
		x := f.vec()
		f.op(fmt.Sprintf("%s %d(R%%d), F%%d", load, 4*at), p, x)
		for i := range n {
			a = append(a, lane{x, i})
		}
		at += n
	}
	return a
}

// finishTile applies the flags and stores the tile. The last vector may be partial.
func finishTile(f *function, t tileArgs, acc [][]*reg) {
	vectors := len(acc[0])
	flags, bias := f.load("flags"), f.load("bias")
	whole := f.label("whole")
	f.op("TST $3, R%d", t.n)
	f.branch("BEQ", whole)
	last := 16 * (vectors - 1)
	storeTile(f, t, acc, flags, bias, func(p *reg) []*reg {
		return append(loadVectors(f, p, 0, vectors-1), loadFirst(f, p, last, t.n))
	}, func(x []*reg, p *reg) {
		storeVectors(f, x[:vectors-1], p, 0)
		storeFirst(f, x[vectors-1], p, last, t.n)
	})
	f.at(whole)
	storeTile(f, t, acc, flags, bias, func(p *reg) []*reg { return loadVectors(f, p, 0, vectors) },
		func(x []*reg, p *reg) { storeVectors(f, x, p, 0) })
}

// storeTile applies the flags and stores the tile with the given memory accesses.
func storeTile(f *function, t tileArgs, acc [][]*reg, flags, bias *reg, load func(p *reg) []*reg, store func(x []*reg, p *reg)) {
	optional := func(bit int, body func()) {
		skip := f.label("skip")
		f.branch(fmt.Sprintf("TBZ $%d, R%%d,", bit), skip, flags)
		body()
		f.at(skip)
	}
	add := func(sum, x *reg) { f.vector("fadd v%d.4s, v%d.4s, v%d.4s", sum, sum, x) }
	optional(flagAdd, func() {
		row := f.gp()
		f.op("MOVD R%d, R%d", t.c, row)
		for i := range acc {
			for v, x := range load(row) {
				add(acc[i][v], x)
			}
			if i < len(acc)-1 {
				f.op("ADD R%d, R%d, R%d", t.ldc, row, row)
			}
		}
	})
	optional(flagColBias, func() {
		for v, x := range load(bias) {
			for i := range acc {
				add(acc[i][v], x)
			}
		}
	})
	optional(flagRowBias, func() {
		for i := range acc {
			x := loadBroadcast(f, bias)
			for _, sum := range acc[i] {
				add(sum, x)
			}
		}
	})
	optional(flagReLU, func() {
		for i := range acc {
			for _, sum := range acc[i] {
				below := f.make("fcmlt v%d.4s, v%d.4s, #0.0", sum)
				f.vector("bic v%d.16b, v%d.16b, v%d.16b", sum, sum, below)
			}
		}
	})
	for i := range acc {
		store(acc[i], t.c)
		if i < len(acc)-1 {
			f.op("ADD R%d, R%d, R%d", t.ldc, t.c, t.c)
		}
	}
	f.ret()
}

// fmaPeak emits fmaPeak: rounds of 24 independent fused multiply-adds, as many floats as twelve
// vectors of eight.
func fmaPeak() *function {
	f := newFunction("fmaPeakNEON", "func(rounds int)")
	rounds := f.load("rounds")
	x := zero(f)
	acc := make([]*reg, 24)
	for i := range acc {
		acc[i] = zero(f)
	}
	repeat(f, rounds, func() {
		for _, a := range acc {
			fma(f, a, x, x)
		}
	})
	f.ret()
	return f
}
