package neon

import "fmt"

func pack() []*function {
	return []*function{
		packRows(), transpose8(),
		widenHalf("widenBFloat16NEON", "shll v%d.4s, v%d.4h, #16", "shll2 v%d.4s, v%d.8h, #16"),
		widenHalf("widenFloat16NEON", "fcvtl v%d.4s, v%d.4h", "fcvtl2 v%d.4s, v%d.8h"),
	}
}

// widenHalf emits a conversion of numbers of 16 bits, by an instruction for the lower half of a vector and one for the upper half.
func widenHalf(name, lower, upper string) *function {
	f := newFunction(name, "func(dst *float32, ldd int, src *uint16, lds, rows, blocks int)")
	r := f.loads("dst", "ldd", "src", "lds", "rows", "blocks")
	dst, ldd, src, lds, rows, blocks := r[0], r[1], r[2], r[3], r[4], r[5]
	toBytes(f, ldd)
	f.op("LSL $1, R%d, R%d", lds, lds)
	repeat(f, rows, func() {
		from, to, left := f.gp(), f.gp(), f.gp()
		f.op("MOVD R%d, R%d", src, from)
		f.op("MOVD R%d, R%d", dst, to)
		f.op("MOVD R%d, R%d", blocks, left)
		repeat(f, left, func() {
			x := loadVector(f, from, 0)
			storeVectors(f, []*reg{f.make(lower, x), f.make(upper, x)}, to, 0)
			increment(f, from, 16)
			increment(f, to, 32)
		})
		f.op("ADD R%d, R%d, R%d", ldd, dst, dst)
		f.op("ADD R%d, R%d, R%d", lds, src, src)
	})
	f.ret()
	return f
}

// packRows emits packRows. A comparison of the factor with 0 gives a mask that clears the
// products of rows whose factor is 0.
func packRows() *function {
	f := newFunction("packRowsNEON", "func(dst *float32, width int, src *float32, lds, rows, cols int, factors *float32)")
	r := f.loads("dst", "width", "src", "lds", "rows", "cols", "factors")
	dst, width, src, lds, rows, cols, factors := r[0], r[1], r[2], r[3], r[4], r[5], r[6]
	toBytes(f, width, lds)
	empty, plain, zero := f.label("empty"), f.label("plain"), zero(f)
	f.branch("CBZ R%d,", empty, rows)
	f.branch("CBZ R%d,", plain, factors)
	copyRows := func(change func(x *reg) *reg, start func()) {
		repeat(f, rows, func() {
			start()
			from, to, end, left := f.gp(), f.gp(), f.gp(), f.gp()
			f.op("MOVD R%d, R%d", src, from)
			f.op("MOVD R%d, R%d", dst, to)
			f.op("ADD R%d, R%d, R%d", width, dst, dst)
			f.op("MOVD R%d, R%d", dst, end)
			f.op("MOVD R%d, R%d", cols, left)
			for _, vectors := range []int{4, 1} {
				forChunks(f, left, 4*vectors, func() {
					x := loadVectors(f, from, 0, vectors)
					for i := range x {
						x[i] = change(x[i])
					}
					storeVectors(f, x, to, 0)
					increment(f, from, 16*vectors)
					increment(f, to, 16*vectors)
				})
			}
			fill, fillLoop, full := f.label("fill"), f.label("fillLoop"), f.label("full")
			f.branch("CBZ R%d,", fill, left)
			storeVector(f, change(loadFirst(f, from, 0, left)), to, 0)
			increment(f, to, 16)
			f.at(fill)
			f.op("CMP R%d, R%d", end, to)
			f.branch("BHS", full)
			f.at(fillLoop)
			f.op("FMOVQ.P F%d, 16(R%d)", zero, to)
			f.op("CMP R%d, R%d", end, to)
			f.branch("BLO", fillLoop)
			f.at(full)
			f.op("ADD R%d, R%d, R%d", lds, src, src)
		})
	}
	var factor, drop *reg
	copyRows(func(x *reg) *reg { return andNot(f, mul(f, x, factor), drop) }, func() {
		factor = loadBroadcast(f, factors)
		drop = f.make("fcmeq v%d.4s, v%d.4s, #0.0", factor)
	})
	f.ret()
	f.at(plain)
	copyRows(func(x *reg) *reg { return x }, func() {})
	f.at(empty)
	f.ret()
	return f
}

// transpose8 emits transpose8, four columns at a time.
func transpose8() *function {
	f := newFunction("transpose8NEON", "func(dst *float32, ldd int, src *float32, lds, blocks int)")
	r := f.loads("dst", "ldd", "src", "lds", "blocks")
	dst, ldd, src, lds, blocks := r[0], r[1], r[2], r[3], r[4]
	toBytes(f, ldd, lds)
	end := f.label("empty")
	f.branch("CBZ R%d,", end, blocks)
	f.op("LSL $1, R%d, R%d", blocks, blocks)
	rows := []*reg{src}
	for i := 1; i < 8; i++ {
		next := f.gp()
		f.op("ADD R%d, R%d, R%d", lds, rows[i-1], next)
		rows = append(rows, next)
	}
	repeat(f, blocks, func() { // four columns
		var columns [4][]*reg
		for half := range 2 {
			var x [4]*reg
			for i := range x {
				x[i] = f.vec()
				f.op("FMOVQ.P 16(R%d), F%d", rows[4*half+i], x[i])
			}
			for i, c := range transpose4x4(f, x) {
				columns[i] = append(columns[i], c)
			}
		}
		for _, c := range columns {
			storeVectors(f, c, dst, 0)
			f.op("ADD R%d, R%d, R%d", ldd, dst, dst)
		}
	})
	f.at(end)
	f.ret()
	return f
}

// transpose4x4 transposes 4×4 floats.
func transpose4x4(f *function, x [4]*reg) (columns [4]*reg) {
	// Elements 0 and 2 of two rows, or 1 and 3.
	pair := func(a, b *reg) [2]*reg {
		return [2]*reg{f.known("VTRN1", "S4", a, b), f.known("VTRN2", "S4", a, b)}
	}
	upper, lower := pair(x[0], x[1]), pair(x[2], x[3])
	for i := range columns {
		columns[i] = f.known(fmt.Sprintf("VTRN%d", 1+i/2), "D2", upper[i%2], lower[i%2])
	}
	return columns
}
