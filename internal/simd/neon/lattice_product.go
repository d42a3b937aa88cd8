package main

import "fmt"

// latticeReduce lists the kernels of package lattice for sums, of which n is a multiple of 8 and at
// least 8.
func latticeReduce() []*function {
	widen := newFunction("widenNEON", "func(sum *int64, part *int32, n int)")
	sum, part, n := widen.load("sum"), widen.load("part"), widen.load("n")
	forChunks(widen, n, 8, func() {
		x, y := loadVectors(widen, part, 0, 2), loadVectors(widen, sum, 0, 4)
		addWidened(widen, y, x)
		storeVectors(widen, y, sum, 0)
		increment(widen, part, 32)
		increment(widen, sum, 64)
	})
	widen.ret()

	inner := newFunction("innerProductNEON", "func(x, y *int32, n int) int64")
	x, y, n := inner.load("x"), inner.load("y"), inner.load("n")
	sums := [2]*reg{zero(inner), zero(inner)}
	forChunks(inner, n, 8, func() {
		for at := range 2 {
			a, b := loadVector(inner, x, 16*at), loadVector(inner, y, 16*at)
			inner.vector("smlal v%d.2d, v%d.2s, v%d.2s", sums[0], a, b)
			inner.vector("smlal2 v%d.2d, v%d.4s, v%d.4s", sums[1], a, b)
		}
		increment(inner, x, 32)
		increment(inner, y, 32)
	})
	inner.op("VADD V%d.D2, V%d.D2, V%d.D2", sums[0], sums[1], sums[0])
	inner.result(inner.make("addp d%d, v%d.2d", sums[0]))
	inner.ret()

	squares := newFunction("sumSquaresNEON", "func(x *int16, n int) int64")
	x, n = squares.load("x"), squares.load("n")
	total := zero(squares)
	forChunks(squares, n, 8, func() {
		addSquares(squares, total, loadVector(squares, x, 0))
		increment(squares, x, 16)
	})
	squares.result(squares.make("addp d%d, v%d.2d", total))
	squares.ret()

	addInts := newFunction("addIntsNEON", "func(sum, part *int32, n int)")
	sum, part, n = addInts.load("sum"), addInts.load("part"), addInts.load("n")
	forChunks(addInts, n, 8, func() {
		x, y := loadVectors(addInts, part, 0, 2), loadVectors(addInts, sum, 0, 2)
		for i := range x {
			addInts.op("VADD V%d.S4, V%d.S4, V%d.S4", x[i], y[i], y[i])
		}
		storeVectors(addInts, y, sum, 0)
		increment(addInts, part, 32)
		increment(addInts, sum, 32)
	})
	addInts.ret()

	take := newFunction("takeScaledNEON", "func(dst *float32, sum *int64, n int, scale float64)")
	dst, sum, n := take.load("dst"), take.load("sum"), take.load("n")
	scale, zeros := take.vec(), zero(take)
	place, _ := take.parameter("scale")
	take.op("FMOVD "+place+", F%d", scale)
	take.op("VDUP V%d.D[0], V%d.D2", scale, scale)
	forChunks(take, n, 8, func() {
		x := loadVectors(take, sum, 0, 4)
		storeVectors(take, []*reg{zeros, zeros, zeros, zeros}, sum, 0)
		y := []*reg{take.vec(), take.vec()}
		for i := range x {
			v := take.make("fmul v%d.2d, v%d.2d, v%d.2d", take.make("scvtf v%d.2d, v%d.2d", x[i]), scale)
			take.vector([]string{"fcvtn v%d.2s, v%d.2d", "fcvtn2 v%d.4s, v%d.2d"}[i%2], y[i/2], v)
		}
		storeVectors(take, y, dst, 0)
		increment(take, sum, 64)
		increment(take, dst, 32)
	})
	take.ret()
	return []*function{widen, addInts, inner, squares, take}
}

// addWidened adds vectors of words, sign-extended, to twice as many vectors of 64 bits.
func addWidened(f *function, sums, x []*reg) {
	for i, v := range x {
		f.vector("saddw v%d.2d, v%d.2d, v%d.2s", sums[2*i], sums[2*i], v)
		f.vector("saddw2 v%d.2d, v%d.2d, v%d.4s", sums[2*i+1], sums[2*i+1], v)
	}
}

// latticeProduct lists the kernels of package lattice for products.
func latticeProduct() []*function { return []*function{latticeTile()} }

// latticeTile emits tile for up to 6 rows by 8 or 16 columns. The sums use 24 of the 32 vector
// registers. A multiply-add has a lane of its last operand, which must be one of the first 16
// registers: it is the first one that is used.
func latticeTile() *function {
	const mr = 6
	f := newFunction("tileNEON", "func(m, n, steps int, a *int16, lda int, b *int16, ldb int, part *int32, ldp int, sum *int64, lds int, flags int)")
	r := f.loads("m", "n", "steps", "a", "lda", "b", "ldb", "part", "ldp", "sum", "lds", "flags")
	rows, n, steps, a, lda, b, ldb, part, ldp, sum, lds, flags := r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10], r[11]
	for _, s := range []struct {
		ld *reg
		by int
	}{{lda, 1}, {ldb, 1}, {ldp, 2}, {lds, 3}} {
		f.op(fmt.Sprintf("LSL $%d, R%%d, R%%d", s.by), s.ld, s.ld)
	}
	x := zero(f)
	body := func(m, vectors int) {
		acc := make([][]*reg, m)
		for i := range acc {
			for range 2 * vectors {
				acc[i] = append(acc[i], zero(f))
			}
		}
		step := func() {
			f.op("FMOVQ (R%d), F%d", a, x)
			for v, y := range loadVectors(f, b, 0, vectors) {
				for i := range acc {
					f.byHalfLane("smlal", acc[i][2*v], y, x, i)
					f.byHalfLane("smlal2", acc[i][2*v+1], y, x, i)
				}
			}
			f.op("ADD R%d, R%d, R%d", lda, a, a)
			f.op("ADD R%d, R%d, R%d", ldb, b, b)
		}
		forChunks(f, steps, 2, func() { step(); step() })
		forChunks(f, steps, 1, step)
		skip, store := f.label("skip"), f.label("store")
		f.branch("TBZ $0, R%d,", skip, flags)
		row := f.gp()
		f.op("MOVD R%d, R%d", part, row)
		for i := range acc {
			for v, y := range loadVectors(f, row, 0, 2*vectors) {
				f.op("VADD V%d.S4, V%d.S4, V%d.S4", y, acc[i][v], acc[i][v])
			}
			f.op("ADD R%d, R%d, R%d", ldp, row, row)
		}
		f.at(skip)
		f.branch("TBZ $1, R%d,", store, flags)
		for i := range acc {
			for v := range acc[i] {
				y := loadVectors(f, sum, 32*v, 2)
				addWidened(f, y, acc[i][v:v+1])
				storeVectors(f, y, sum, 32*v)
			}
			f.op("ADD R%d, R%d, R%d", lds, sum, sum)
		}
		f.ret()
		f.at(store)
		for i := range acc {
			storeVectors(f, acc[i], part, 0)
			f.op("ADD R%d, R%d, R%d", ldp, part, part)
		}
		f.ret()
	}
	narrow := f.label("narrow")
	f.op("CMP $8, R%d", n)
	f.branch("BLE", narrow)
	for vectors := 2; vectors >= 1; vectors-- {
		for m := mr; m >= 1; m-- {
			lower := f.label("lower")
			if m > 1 {
				f.op(fmt.Sprintf("CMP $%d, R%%d", m), rows)
				f.branch("BNE", lower)
			}
			body(m, vectors)
			f.at(lower)
		}
		if vectors == 2 {
			f.at(narrow)
		}
	}
	return f
}
