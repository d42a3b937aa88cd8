package neon

// gram lists the kernels of package gram.
func gram() []*function { return []*function{gramTile(), gramColumns()} }

// gramTile emits multiplyTileGo with fused multiply-adds, for half a tile: four rows by sixteen
// columns, in sixteen registers. steps is at least 1; strides are in bytes. A step loads
// sixteen numbers of y and four of x, five registers for sixteen multiply-adds.
func gramTile() *function {
	f := newFunction("multiplyTileNEON", "func(dst *float32, stride int, x, y *float32, ld, steps int)")
	r := f.loads("dst", "stride", "x", "y", "ld", "steps")
	dst, stride, x, y, ld, steps := r[0], r[1], r[2], r[3], r[4], r[5]
	var acc [4][4]*reg
	for i := range acc {
		for j := range acc[i] {
			acc[i][j] = zero(f)
		}
	}
	repeat(f, steps, func() {
		a, b := loadVector(f, x, 0), loadVectors(f, y, 0, 4)
		for i := range acc {
			for j, v := range b {
				f.byLane("fmla", acc[i][j], v, lane{a, i})
			}
		}
		f.op("ADD R%d, R%d, R%d", ld, x, x)
		f.op("ADD R%d, R%d, R%d", ld, y, y)
	})
	for i := range acc {
		row := loadVectors(f, dst, 0, 4)
		for j := range row {
			row[j] = add(f, row[j], acc[i][j])
		}
		storeVectors(f, row, dst, 0)
		f.op("ADD R%d, R%d, R%d", stride, dst, dst)
	}
	f.ret()
	return f
}

// gramColumns emits packColumnsGo for 4·fours columns. Strides are in bytes.
func gramColumns() *function {
	f := newFunction("packColumnsNEON", "func(dst *float32, ld int, x *float32, ldx, fours int)")
	r := f.loads("dst", "ld", "x", "ldx", "fours")
	dst, ld, x, ldx, fours := r[0], r[1], r[2], r[3], r[4]
	repeat(f, fours, func() {
		row := f.gp()
		f.op("MOVD R%d, R%d", x, row)
		increment(f, x, 16)
		var halves [2][4]*reg
		for h := range halves {
			var q [4]*reg
			for i := range q {
				q[i] = loadVector(f, row, 0)
				f.op("ADD R%d, R%d, R%d", ldx, row, row)
			}
			halves[h] = transpose4x4(f, q)
		}
		for c := range 4 {
			storeVectors(f, []*reg{halves[0][c], halves[1][c]}, dst, 0)
			f.op("ADD R%d, R%d, R%d", ld, dst, dst)
		}
	})
	f.ret()
	return f
}
