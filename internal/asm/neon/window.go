package neon

import "fmt"

func window() []*function {
	return []*function{copyRows(1), copyRows(2), unfold(), sumTaps(), sumTaps2(), maxPoolRows(1), maxPoolRows(2)}
}

// loadStrided loads four floats that are one or two apart, and nothing past them.
func loadStrided(f *function, p *reg, stride int) *reg {
	x := loadVector(f, p, 0)
	if stride == 1 {
		return x
	}
	y := loadVector(f, p, 12)
	return f.known("VZIP1", "D2", f.known("VUZP1", "S4", x, x), f.known("VUZP2", "S4", y, y))
}

// copyRows emits the loop of copyTapFunc for a stride. It writes rows of cols floats: left
// zeros, n floats that are stride apart in src, and zeros. Rows of src are lds floats apart.
func copyRows(stride int) *function {
	f := newFunction(fmt.Sprintf("copyRows%dNEON", stride), "func(dst *float32, cols int, src *float32, lds, rows, left, n int)")
	r := f.loads("dst", "cols", "src", "lds", "rows", "left", "n")
	dst, cols, src, lds, rows, left, n := r[0], r[1], r[2], r[3], r[4], r[5], r[6]
	toBytes(f, lds)
	right := f.gp()
	f.op("SUB R%d, R%d, R%d", left, cols, right)
	f.op("SUB R%d, R%d, R%d", n, right, right)
	zeros := func(count *reg) {
		none, i := f.label("none"), f.gp()
		f.branch("CBZ R%d,", none, count)
		f.op("MOVD R%d, R%d", count, i)
		repeat(f, i, func() { f.op("MOVW.P ZR, 4(R%d)", dst) })
		f.at(none)
	}
	repeat(f, rows, func() {
		zeros(left)
		from, i := f.gp(), f.gp()
		f.op("MOVD R%d, R%d", src, from)
		f.op("MOVD R%d, R%d", n, i)
		forChunks(f, i, 4, func() {
			f.op("FMOVQ.P F%d, 16(R%d)", loadStrided(f, from, stride), dst)
			increment(f, from, 16*stride)
		})
		forChunks(f, i, 1, func() {
			x := f.gp()
			f.op(fmt.Sprintf("MOVWU.P %d(R%%d), R%%d", 4*stride), from, x)
			f.op("MOVW.P R%d, 4(R%d)", x, dst)
		})
		zeros(right)
		f.op("ADD R%d, R%d, R%d", lds, src, src)
	})
	f.ret()
	return f
}

// sumTaps emits sumTaps.
func sumTaps() *function {
	f := newFunction("sumTapsNEON", "func(dst *float32, cols int, p *float32, offset, ldp, next, khs, kws, w, dil, width int)")
	r := f.loads("dst", "cols", "p", "offset", "ldp", "next", "khs", "kws", "w", "dil", "width")
	dst, cols, row, offset, step, next, khs, kws, w, dil, width := r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10]
	f.op("SUB R%d, R%d, R%d", dil, step, step)
	f.op("ADD R%d, R%d, R%d", w, offset, offset)
	toBytes(f, offset, step, next)
	f.op("ADD R%d, R%d, R%d", offset, row, row)
	to, i, zero := f.gp(), f.gp(), zero(f)
	f.op("MOVD R%d, R%d", dst, to)
	f.op("MOVD R%d, R%d", cols, i)
	forChunks(f, i, 4, func() { f.op("FMOVQ.P F%d, 16(R%d)", zero, to) })
	forChunks(f, i, 1, func() { f.op("FMOVS.P F%d, 4(R%d)", zero, to) })
	repeat(f, khs, func() {
		p, place, taps := f.gp(), f.gp(), f.gp()
		f.op("MOVD R%d, R%d", row, p)
		f.op("MOVD R%d, R%d", w, place)
		f.op("MOVD R%d, R%d", kws, taps)
		repeat(f, taps, func() {
			// Columns max(0, -place) … min(cols, width-place)-1 see the tap.
			first, n, from, none := f.gp(), f.gp(), f.gp(), f.label("none")
			f.op("NEGS R%d, R%d", place, first)
			f.op("CSEL GT, R%d, ZR, R%d", first, first)
			f.op("SUB R%d, R%d, R%d", place, width, n)
			f.op("CMP R%d, R%d", cols, n)
			f.op("CSEL LT, R%d, R%d, R%d", n, cols, n)
			f.op("SUBS R%d, R%d, R%d", first, n, n)
			f.branch("BLE", none)
			f.op("ADD R%d<<2, R%d, R%d", first, p, from)
			f.op("ADD R%d<<2, R%d, R%d", first, dst, to)
			for _, vectors := range []int{4, 1} {
				forChunks(f, n, 4*vectors, func() {
					sums := loadVectors(f, to, 0, vectors)
					for v, x := range loadVectors(f, from, 0, vectors) {
						f.vector("fadd v%d.4s, v%d.4s, v%d.4s", sums[v], sums[v], x)
					}
					storeVectors(f, sums, to, 0)
					increment(f, from, 16*vectors)
					increment(f, to, 16*vectors)
				})
			}
			forChunks(f, n, 1, func() {
				x, sum := f.vec(), f.vec()
				f.op("FMOVS.P 4(R%d), F%d", from, x)
				f.op("FMOVS (R%d), F%d", to, sum)
				f.op("FADDS F%d, F%d, F%d", x, sum, sum)
				f.op("FMOVS.P F%d, 4(R%d)", sum, to)
			})
			f.at(none)
			f.op("SUB R%d, R%d, R%d", dil, place, place)
			f.op("ADD R%d, R%d, R%d", step, p, p)
		})
		f.op("ADD R%d, R%d, R%d", next, row, row)
	})
	f.ret()
	return f
}

// unfold emits unfold. It copies eight floats at a time; the next row overwrites the excess.
func unfold() *function {
	f := newFunction("unfoldNEON", "func(dst *float32, cols, rows int, src *float32, lds int, starts *int32, taps int)")
	r := f.loads("dst", "cols", "rows", "src", "lds", "starts", "taps")
	dst, cols, rows, src, lds, starts, taps := r[0], r[1], r[2], r[3], r[4], r[5], r[6]
	eights := f.gp()
	f.op("ADD $7, R%d, R%d", cols, eights)
	f.op("LSR $3, R%d, R%d", eights, eights)
	toBytes(f, cols, lds)
	repeat(f, taps, func() {
		row, left := f.gp(), f.gp()
		f.op("MOVW.P 4(R%d), R%d", starts, row)
		f.op("ADD R%d<<2, R%d, R%d", row, src, row)
		f.op("MOVD R%d, R%d", rows, left)
		repeat(f, left, func() {
			from, to, i := f.gp(), f.gp(), f.gp()
			f.op("MOVD R%d, R%d", row, from)
			f.op("MOVD R%d, R%d", dst, to)
			f.op("MOVD R%d, R%d", eights, i)
			repeat(f, i, func() {
				x, y := f.vec(), f.vec()
				f.op("FLDPQ.P 32(R%d), (F%d, F%d)", from, x, y)
				f.op("FSTPQ.P (F%d, F%d), 32(R%d)", x, y, to)
			})
			f.op("ADD R%d, R%d, R%d", lds, row, row)
			f.op("ADD R%d, R%d, R%d", cols, dst, dst)
		})
	})
	f.ret()
	return f
}

// sumTaps2 emits sumTaps2. Four elements that see all taps are computed together, others one
// by one.
func sumTaps2() *function {
	f := newFunction("sumTaps2NEON", "func(dst *float32, cols int, p *float32, offset0, offset1, ldp, next, khs, kws0, kws1, w0, w1, width int)")
	r := f.loads("dst", "cols", "p", "ldp", "next", "khs", "width")
	dst, cols, p, step, next, khs, width := r[0], r[1], r[2], r[3], r[4], r[5], r[6]
	increment(f, step, -1)
	toBytes(f, step, next)
	eight := f.gp()
	f.op("MOVD $8, R%d", eight)
	for q := range 2 {
		name := func(stem string) string { return fmt.Sprintf("%s%d", stem, q) }
		offset, kws, first := f.load(name("offset")), f.load(name("kws")), f.load(name("w"))
		row, to, left := f.gp(), f.gp(), f.gp()
		f.op("ADD R%d, R%d, R%d", first, offset, row)
		f.op("ADD R%d<<2, R%d, R%d", row, p, row)
		f.op(fmt.Sprintf("ADD $%d, R%%d, R%%d", 4*q), dst, to)
		f.op(fmt.Sprintf("ADD $%d, R%%d, R%%d", 1-q), cols, left)
		f.op("LSR $1, R%d, R%d", left, left)
		// columns computes n elements.
		columns := func(n int) {
			sum, at, rows := zero(f), f.gp(), f.gp()
			none := f.label("none")
			f.branch("CBZ R%d,", none, kws)
			f.op("MOVD R%d, R%d", row, at)
			f.op("MOVD R%d, R%d", khs, rows)
			repeat(f, rows, func() {
				tap, place, taps := f.gp(), f.gp(), f.gp()
				f.op("MOVD R%d, R%d", at, tap)
				f.op("MOVD R%d, R%d", first, place)
				f.op("MOVD R%d, R%d", kws, taps)
				repeat(f, taps, func() {
					skip, x := f.label("skip"), f.vec()
					if n == 1 {
						f.op("CMP R%d, R%d", width, place)
						f.branch("BHS", skip) // unsigned: negative positions, too
						f.op("FMOVS (R%d), F%d", tap, x)
					} else {
						f.op("FMOVQ (R%d), F%d", tap, x)
					}
					f.vector("fadd v%d.4s, v%d.4s, v%d.4s", sum, sum, x)
					f.at(skip)
					increment(f, place, -1)
					f.op("ADD R%d, R%d, R%d", step, tap, tap)
				})
				f.op("ADD R%d, R%d, R%d", next, at, at)
			})
			f.at(none)
			for i := range n {
				f.op(fmt.Sprintf("VST1.P V%%d.S[%d], (R%%d)(R%%d)", i), sum, to, eight)
			}
			increment(f, row, 4*n)
			increment(f, first, n)
			increment(f, left, -n)
		}
		loop, single, done := f.label("column"), f.label("one"), f.label("done")
		f.at(loop)
		f.branch("CBZ R%d,", done, left)
		f.op("CMP $4, R%d", left)
		f.branch("BLT", single)
		bound := f.gp()
		f.op("SUB R%d, R%d, R%d", kws, first, bound)
		increment(f, bound, 1)
		f.branch("TBNZ $63, R%d,", single, bound)
		f.op("ADD $3, R%d, R%d", first, bound)
		f.op("CMP R%d, R%d", width, bound)
		f.branch("BGE", single)
		columns(4)
		f.branch("B", loop)
		f.at(single)
		columns(1)
		f.branch("B", loop)
		f.at(done)
	}
	f.ret()
	return f
}
