package main

import "fmt"

func window() []*function {
	return []*function{copyRows(1), copyRows(2), sumTaps()}
}

// copyRows writes rows of cols floats: left zeros, n floats that lie stride
// apart in src, from its first on, and zeros. Rows of src are lds floats apart.
func copyRows(stride int) *function {
	f := newFunction(fmt.Sprintf("copyRows%dNEON", stride), "func(dst *float32, cols int, src *float32, lds, rows, left, n int)")
	r := f.loads("dst", "cols", "src", "lds", "rows", "left", "n")
	dst, cols, src, lds, rows, left, n := r[0], r[1], r[2], r[3], r[4], r[5], r[6]
	f.bytes(lds)
	right := f.gp()
	f.op("SUB R%d, R%d, R%d", left, cols, right)
	f.op("SUB R%d, R%d, R%d", n, right, right)
	zeros := func(count *reg) {
		none, i := f.label("none"), f.gp()
		f.branch("CBZ R%d,", none, count)
		f.op("MOVD R%d, R%d", count, i)
		f.repeat(i, func() { f.op("MOVW.P ZR, 4(R%d)", dst) })
		f.at(none)
	}
	f.repeat(rows, func() {
		zeros(left)
		from, i := f.gp(), f.gp()
		f.op("MOVD R%d, R%d", src, from)
		f.op("MOVD R%d, R%d", n, i)
		f.turns(i, 4, func() {
			x := f.vectorAt(from, 0)
			if stride == 2 {
				// Seven floats: what follows the last may not be there.
				y := f.vectorAt(from, 12)
				x = f.known("VZIP1", "D2", f.known("VUZP1", "S4", x, x), f.known("VUZP2", "S4", y, y))
			}
			f.op("FMOVQ.P F%d, 16(R%d)", x, dst)
			f.addTo(from, 16*stride)
		})
		f.turns(i, 1, func() {
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

// sumTaps sets dst[j], j below cols, to the sum over kh < khs, kw < kws of
// p[offset + kh*next + kw*ldp + j+w-kw*dil] where 0 ≤ j+w-kw*dil < width.
func sumTaps() *function {
	f := newFunction("sumTapsNEON", "func(dst *float32, cols int, p *float32, offset, ldp, next, khs, kws, w, dil, width int)")
	r := f.loads("dst", "cols", "p", "offset", "ldp", "next", "khs", "kws", "w", "dil", "width")
	dst, cols, row, offset, step, next, khs, kws, w, dil, width := r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10]
	f.op("SUB R%d, R%d, R%d", dil, step, step)
	f.op("ADD R%d, R%d, R%d", w, offset, offset)
	f.bytes(offset, step, next)
	f.op("ADD R%d, R%d, R%d", offset, row, row)
	to, i, zero := f.gp(), f.gp(), f.zero()
	f.op("MOVD R%d, R%d", dst, to)
	f.op("MOVD R%d, R%d", cols, i)
	f.turns(i, 4, func() { f.op("FMOVQ.P F%d, 16(R%d)", zero, to) })
	f.turns(i, 1, func() { f.op("FMOVS.P F%d, 4(R%d)", zero, to) })
	f.repeat(khs, func() {
		p, place, taps := f.gp(), f.gp(), f.gp()
		f.op("MOVD R%d, R%d", row, p)
		f.op("MOVD R%d, R%d", w, place)
		f.op("MOVD R%d, R%d", kws, taps)
		f.repeat(taps, func() {
			// Columns max(0, -place) to min(cols, width-place) see the tap.
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
				f.turns(n, 4*vectors, func() {
					sums := f.vectorsAt(to, 0, vectors)
					for v, x := range f.vectorsAt(from, 0, vectors) {
						f.vector("fadd v%d.4s, v%d.4s, v%d.4s", sums[v], sums[v], x)
					}
					f.storeAll(sums, to, 0)
					f.addTo(from, 16*vectors)
					f.addTo(to, 16*vectors)
				})
			}
			f.turns(n, 1, func() {
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
