package neon

import "fmt"

// latticeReduce lists the kernels of package lattice for sums, of which n is a multiple of 8 and at
// least 8.
func latticeReduce() []*function {
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
	sum, part, n := addInts.load("sum"), addInts.load("part"), addInts.load("n")
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

	scaled := newFunction("scaleIntsNEON", "func(dst *float32, x *int64, n int, scale float64)")
	dst, x, n := scaled.load("dst"), scaled.load("x"), scaled.load("n")
	scale := scaled.vec()
	place, _ := scaled.parameter("scale")
	scaled.op("FMOVD "+place+", F%d", scale)
	scaled.op("VDUP V%d.D[0], V%d.D2", scale, scale)
	forChunks(scaled, n, 8, func() {
		y := []*reg{scaled.vec(), scaled.vec()}
		for i, x := range loadVectors(scaled, x, 0, 4) {
			v := scaled.make("fmul v%d.2d, v%d.2d, v%d.2d", scaled.make("scvtf v%d.2d, v%d.2d", x), scale)
			scaled.vector([]string{"fcvtn v%d.2s, v%d.2d", "fcvtn2 v%d.4s, v%d.2d"}[i%2], y[i/2], v)
		}
		storeVectors(scaled, y, dst, 0)
		increment(scaled, x, 64)
		increment(scaled, dst, 32)
	})
	scaled.ret()
	return []*function{addInts, inner, squares, scaled, settle(), readSums()}
}

// distances returns low - high·2^28 - 2^27 modulo 2^32, and high, of eight elements.
func distances(f *function, low, high *reg) (distances, numbers []*reg) {
	x := loadVector(f, high, 0)
	numbers = []*reg{f.make("sxtl v%d.4s, v%d.4h", x), f.make("sxtl2 v%d.4s, v%d.8h", x)}
	for i, y := range loadVectors(f, low, 0, 2) {
		distances = append(distances, subInts(f, subInts(f, y, shiftLeft(f, numbers[i], 28)), f.bits(1<<27)))
	}
	return distances, numbers
}

// settle emits settle.
func settle() *function {
	f := newFunction("settleNEON", "func(low *int32, high *int16, n int)")
	low, high, n := f.load("low"), f.load("high"), f.load("n")
	forChunks(f, n, 8, func() {
		distances, numbers := distances(f, low, high)
		y := f.vec()
		for i, narrow := range []string{"sqxtn v%d.4h, v%d.4s", "sqxtn2 v%d.8h, v%d.4s"} {
			steps := shiftRightInts(f, addInts(f, shiftRightInts(f, distances[i], 1), f.bits(1<<26)), 27)
			f.vector(narrow, y, addInts(f, steps, numbers[i]))
		}
		storeVector(f, y, high, 0)
		increment(f, low, 32)
		increment(f, high, 16)
	})
	f.ret()
	return f
}

// readSums emits readSums.
func readSums() *function {
	f := newFunction("readSumsNEON", "func(dst *int64, low *int32, high *int16, n int)")
	dst, low, high, n := f.load("dst"), f.load("low"), f.load("high"), f.load("n")
	middle := shiftRight64(f, f.bits(1<<27), 32)
	forChunks(f, n, 8, func() {
		distances, numbers := distances(f, low, high)
		var sums []*reg
		for i := range distances {
			sums = append(sums, copyOf(f, middle), copyOf(f, middle))
			addWidened(f, sums[2*i:], distances[i:i+1])
			f.vector("smlal v%d.2d, v%d.2s, v%d.2s", sums[2*i], numbers[i], f.bits(1<<28))
			f.vector("smlal2 v%d.2d, v%d.4s, v%d.4s", sums[2*i+1], numbers[i], f.bits(1<<28))
		}
		storeVectors(f, sums, dst, 0)
		increment(f, low, 32)
		increment(f, high, 16)
		increment(f, dst, 64)
	})
	f.ret()
	return f
}

// shiftRight64 shifts integers of 64 bits right.
func shiftRight64(f *function, x *reg, by int) *reg {
	z := f.vec()
	f.op(fmt.Sprintf("VUSHR $%d, V%%d.D2, V%%d.D2", by), x, z)
	return z
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
	f := newFunction("tileNEON", "func(m, n, steps int, a *int16, lda int, b *int16, ldb int, part *int32, ldp int, flags int)")
	r := f.loads("m", "n", "steps", "a", "lda", "b", "ldb", "part", "ldp", "flags")
	rows, n, steps, a, lda, b, ldb, part, ldp, flags := r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9]
	for _, s := range []struct {
		ld *reg
		by int
	}{{lda, 1}, {ldb, 1}, {ldp, 2}} {
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
		skip := f.label("skip")
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
