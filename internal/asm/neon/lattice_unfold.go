package neon

import "fmt"

// latticeUnfold lists the kernels of package lattice that copy integers.
func latticeUnfold() []*function {
	return []*function{transposeInts(), copyRuns(4), copyRuns(8)}
}

// transposeInts emits transpose8 for integers of 16 bits.
func transposeInts() *function {
	f := newFunction("transpose8NEON", "func(dst *int16, ldd int, src *int16, lds, blocks int)")
	r := f.loads("dst", "ldd", "src", "lds", "blocks")
	dst, ldd, src, lds, blocks := r[0], r[1], r[2], r[3], r[4]
	f.op("LSL $1, R%d, R%d", ldd, ldd)
	f.op("LSL $1, R%d, R%d", lds, lds)
	repeat(f, blocks, func() {
		row := f.gp()
		f.op("MOVD R%d, R%d", src, row)
		increment(f, src, 16)
		var x [8]*reg
		for i := range x {
			x[i] = loadVector(f, row, 0)
			f.op("ADD R%d, R%d, R%d", lds, row, row)
		}
		// Each round exchanges blocks of 1, 2 and 4 elements between rows at that distance.
		for round, arrangement := range []string{"H8", "S4", "D2"} {
			distance := 1 << round
			for i := range x {
				if i&distance == 0 {
					a, b := x[i], x[i+distance]
					x[i], x[i+distance] = f.known("VTRN1", arrangement, a, b), f.known("VTRN2", arrangement, a, b)
				}
			}
		}
		for _, v := range x {
			storeVector(f, v, dst, 0)
			f.op("ADD R%d, R%d, R%d", ldd, dst, dst)
		}
	})
	f.ret()
	return f
}

// copyRuns emits a copyRunsFunc of package lattice for runs of at most width elements.
func copyRuns(width int) *function {
	f := newFunction(fmt.Sprintf("copyRuns%dNEON", width), "func(dst, src *int16, starts *int32, n, run, positions, step int)")
	r := f.loads("dst", "src", "starts", "n", "run", "positions", "step")
	dst, src, starts, n, run, positions, step := r[0], r[1], r[2], r[3], r[4], r[5], r[6]
	f.op("LSL $1, R%d, R%d", run, run)
	f.op("LSL $1, R%d, R%d", step, step)
	repeat(f, positions, func() {
		at, left := f.gp(), f.gp()
		f.op("MOVD R%d, R%d", starts, at)
		f.op("MOVD R%d, R%d", n, left)
		for _, count := range []int{4, 1} {
			forChunks(f, left, count, func() {
				for range count {
					from, x := f.gp(), f.vec()
					f.op("MOVWU.P 4(R%d), R%d", at, from)
					f.op("ADD R%d<<1, R%d, R%d", from, src, from)
					move := map[int]string{4: "FMOVD", 8: "FMOVQ"}[width]
					f.op(move+" (R%d), F%d", from, x)
					f.op(move+" F%d, (R%d)", x, dst)
					f.op("ADD R%d, R%d, R%d", run, dst, dst)
				}
			})
		}
		f.op("ADD R%d, R%d, R%d", step, src, src)
	})
	f.ret()
	return f
}
