package neon

// channelsLast lists the kernels of pictures with their channels last.
func channelsLast() []*function { return []*function{fold(), maxTaps(), addToMaxTaps()} }

// fold emits fold.
func fold() *function {
	f := newFunction("foldNEON", "func(dst *float32, lds int, starts *int32, n int, src *float32, cols, rows int)")
	r := f.loads("dst", "lds", "starts", "n", "src", "cols", "rows")
	dst, lds, starts, n, src, cols, rows := r[0], r[1], r[2], r[3], r[4], r[5], r[6]
	toBytes(f, lds)
	repeat(f, n, func() {
		row, left := f.gp(), f.gp()
		f.op("MOVW.P 4(R%d), R%d", starts, row)
		f.op("ADD R%d<<2, R%d, R%d", row, dst, row)
		f.op("MOVD R%d, R%d", rows, left)
		repeat(f, left, func() {
			to, i := f.gp(), f.gp()
			f.op("MOVD R%d, R%d", row, to)
			f.op("MOVD R%d, R%d", cols, i)
			for _, vectors := range []int{4, 2} {
				forChunks(f, i, 4*vectors, func() {
					sums := loadVectors(f, to, 0, vectors)
					for v, x := range loadVectors(f, src, 0, vectors) {
						f.vector("fadd v%d.4s, v%d.4s, v%d.4s", sums[v], x, sums[v])
					}
					storeVectors(f, sums, to, 0)
					increment(f, src, 16*vectors)
					increment(f, to, 16*vectors)
				})
			}
			f.op("ADD R%d, R%d, R%d", lds, row, row)
		})
	})
	f.ret()
	return f
}

// taps is the common part of maxTaps and addToMaxTaps. For eight channels of one position after
// the other, they visit what n taps see of an image with channels last. Positions are step
// floats apart in the image.
type taps struct {
	*function
	values, arg, img *reg // of the position: its maxima or their gradients; its taps; its corner
	taps, n          *reg
}

// forEachEight emits a loop that runs body for eight channels at a time.
func (t *taps) forEachEight(body func()) {
	r := t.loads("arg", "img", "taps", "n", "channels", "places", "step")
	t.arg, t.img, t.taps, t.n = r[0], r[1], r[2], r[3]
	channels, places, step := r[4], r[5], r[6]
	t.op("SUB R%d, R%d, R%d", channels, step, step) // body advances by the channels
	toBytes(t.function, step)
	repeat(t.function, places, func() {
		eights := t.gp()
		t.op("LSR $3, R%d, R%d", channels, eights)
		repeat(t.function, eights, func() {
			body()
			increment(t.function, t.values, 32)
			increment(t.function, t.arg, 8)
			increment(t.function, t.img, 32)
		})
		t.op("ADD R%d, R%d, R%d", step, t.img, t.img)
	})
	t.ret()
}

// nextTap returns the address of the eight channels that a tap sees, and advances at to the
// next tap.
func (t *taps) nextTap(at *reg) *reg {
	place := t.gp()
	t.op("MOVW.P 4(R%d), R%d", at, place)
	t.op("ADD R%d<<2, R%d, R%d", place, t.img, place)
	return place
}

// maxTaps emits maxTaps.
func maxTaps() *function {
	f := newFunction("maxTapsNEON", "func(dst *float32, arg *uint8, img *float32, channels, places, step int, taps *int32, n int)")
	t := taps{function: f, values: f.load("dst")}
	one := f.bits(1)
	t.forEachEight(func() {
		at, left, number := f.gp(), f.gp(), zero(f)
		f.op("MOVD R%d, R%d", t.taps, at)
		best, which := loadVectors(f, t.nextTap(at), 0, 2), []*reg{zero(f), zero(f)}
		only := f.label("only")
		f.op("SUBS $1, R%d, R%d", t.n, left)
		f.branch("BEQ", only)
		repeat(f, left, func() {
			f.op("VADD V%d.S4, V%d.S4, V%d.S4", one, number, number)
			for v, x := range loadVectors(f, t.nextTap(at), 0, 2) {
				larger := f.make("fcmgt v%d.4s, v%d.4s, v%d.4s", x, best[v])
				same := f.make("fcmeq v%d.4s, v%d.4s, v%d.4s", x, x)
				f.vector("orn v%d.16b, v%d.16b, v%d.16b", larger, larger, same)
				f.op("VBIT V%d.B16, V%d.B16, V%d.B16", larger, x, best[v])
				f.op("VBIT V%d.B16, V%d.B16, V%d.B16", larger, number, which[v])
			}
		})
		f.at(only)
		storeVectors(f, best, t.values, 0)
		low := f.known("VUZP1", "H8", which[0], which[1])
		f.op("FMOVD F%d, (R%d)", f.known("VUZP1", "B16", low, low), t.arg)
	})
	return f
}

// addToMaxTaps emits addToMaxTaps. It adds 0 for every other tap.
func addToMaxTaps() *function {
	f := newFunction("addToMaxTapsNEON", "func(img, dy *float32, arg *uint8, channels, places, step int, taps *int32, n int)")
	t := taps{function: f, values: f.load("dy")}
	one := f.bits(1)
	t.forEachEight(func() {
		at, left, number := f.gp(), f.gp(), zero(f)
		f.op("MOVD R%d, R%d", t.taps, at)
		f.op("MOVD R%d, R%d", t.n, left)
		d := loadVectors(f, t.values, 0, 2)
		narrow, which := f.vec(), []*reg{f.vec(), f.vec()}
		f.op("FMOVD (R%d), F%d", t.arg, narrow)
		f.op("VUXTL V%d.B8, V%d.H8", narrow, narrow)
		f.op("VUXTL V%d.H4, V%d.S4", narrow, which[0])
		f.op("VUXTL2 V%d.H8, V%d.S4", narrow, which[1])
		repeat(f, left, func() {
			place := t.nextTap(at)
			sums := loadVectors(f, place, 0, 2)
			for v, sum := range sums {
				isMax := f.known("VCMEQ", "S4", which[v], number)
				f.vector("fadd v%d.4s, v%d.4s, v%d.4s", sum, and(f, d[v], isMax), sum)
			}
			storeVectors(f, sums, place, 0)
			f.op("VADD V%d.S4, V%d.S4, V%d.S4", one, number, number)
		})
	})
	return f
}
