package main

// gram is package cpu's: a tile of products of doubles, four rows by eight in
// sixteen registers, and what widens floats.
func gram() []*function { return []*function{gramTile(), gramColumns(), widen()} }

// gramTile adds to half a tile of dst the products of columns of x and y, steps of
// them, at least one. The distances are in bytes. A step reads eight numbers of y
// and four of x, six registers for sixteen multiply-adds.
func gramTile() *function {
	f := newFunction("gramTileNEON", "func(dst *float64, stride int, x, y *float64, ld, steps int)")
	r := f.loads("dst", "stride", "x", "y", "ld", "steps")
	dst, stride, x, y, ld, steps := r[0], r[1], r[2], r[3], r[4], r[5]
	row := f.gp()
	f.op("MOVD R%d, R%d", dst, row)
	var acc [4][]*reg
	for i := range acc {
		acc[i] = f.vectorsAt(row, 0, 4)
		f.op("ADD R%d, R%d, R%d", stride, row, row)
	}
	f.repeat(steps, func() {
		a, b := f.vectorsAt(x, 0, 2), f.vectorsAt(y, 0, 4)
		for i := range acc {
			for j, v := range b {
				f.byDouble(acc[i][j], v, lane{a[i/2], i % 2})
			}
		}
		f.op("ADD R%d, R%d, R%d", ld, x, x)
		f.op("ADD R%d, R%d, R%d", ld, y, y)
	})
	for i := range acc {
		f.storeAll(acc[i], dst, 0)
		f.op("ADD R%d, R%d, R%d", stride, dst, dst)
	}
	f.ret()
	return f
}

// gramColumns widens the first numbers of eight rows of x, four at a time, and
// lays them out as columns. The distances are in bytes.
func gramColumns() *function {
	f := newFunction("gramColumnsNEON", "func(dst *float64, ld int, x *float32, ldx, fours int)")
	r := f.loads("dst", "ld", "x", "ldx", "fours")
	dst, ld, x, ldx, fours := r[0], r[1], r[2], r[3], r[4]
	f.repeat(fours, func() {
		row := f.gp()
		f.op("MOVD R%d, R%d", x, row)
		f.addTo(x, 16)
		var halves [2][4]*reg
		for h := range halves {
			var q [4]*reg
			for i := range q {
				q[i] = f.vectorAt(row, 0)
				f.op("ADD R%d, R%d, R%d", ldx, row, row)
			}
			halves[h] = f.transpose4(q)
		}
		for c := range 4 {
			for h := range halves {
				f.storeAll(f.wide(halves[h][c]), dst, 32*h)
			}
			f.op("ADD R%d, R%d, R%d", ld, dst, dst)
		}
	})
	f.ret()
	return f
}

// wide is four floats as doubles.
func (f *function) wide(x *reg) []*reg {
	return []*reg{f.make("fcvtl v%d.2d, v%d.2s", x), f.make("fcvtl2 v%d.2d, v%d.4s", x)}
}

// widen turns four times as many floats into doubles, at least four.
func widen() *function {
	f := newFunction("widenNEON", "func(dst *float64, src *float32, fours int)")
	dst, src, fours := f.load("dst"), f.load("src"), f.load("fours")
	f.repeat(fours, func() {
		x := f.vec()
		f.op("FMOVQ.P 16(R%d), F%d", src, x)
		f.storeAll(f.wide(x), dst, 0)
		f.addTo(dst, 32)
	})
	f.ret()
	return f
}
