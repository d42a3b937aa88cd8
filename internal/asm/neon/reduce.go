package neon

import "math"

func reduce() []*function {
	multiply := func(f *function, acc, x, y *reg) { f.op("VFMLA V%d.D2, V%d.D2, V%d.D2", y, x, acc) }
	return []*function{
		sum64("dotNEON", "func(x, y *float32, n int) float64", []string{"x", "y"}, multiply),
		sum64("sumSquaresNEON", "func(x *float32, n int) float64", []string{"x", "x"}, multiply),
		sum64("sumNEON", "func(x *float32, n int) float64", []string{"x"}, func(f *function, acc, x, _ *reg) {
			f.vector("fadd v%d.2d, v%d.2d, v%d.2d", acc, acc, x)
		}),
		deviations(),
		maximum(),
		colSums(),
	}
}

// sum64 emits a sum in 32 lanes of float64: term i is added to lane i mod 32. Then lane l adds
// lane l+16, l+8, l+4, l+2 and l+1.
func sum64(name, signature string, inputs []string, term func(f *function, acc, x, y *reg)) *function {
	f := newFunction(name, signature)
	pointers := map[string]*reg{}
	for _, name := range inputs {
		if pointers[name] == nil {
			pointers[name] = f.load(name)
		}
	}
	n := f.load("n")
	var acc [16]*reg
	for i := range acc {
		acc[i] = zero(f)
	}
	// group adds four terms to accumulators 2i and 2i+1.
	group := func(i int, load func(p *reg) *reg) {
		wide := map[string][]*reg{}
		for _, name := range inputs {
			if _, ok := wide[name]; !ok {
				wide[name] = widen(f, load(pointers[name]))
			}
		}
		x, y := wide[inputs[0]], wide[inputs[len(inputs)-1]]
		for h := range 2 {
			term(f, acc[2*i+h], x[h], y[h])
		}
	}
	whole := func(p *reg) *reg {
		x := f.vec()
		f.op("FMOVQ.P 16(R%d), F%d", p, x)
		return x
	}
	forChunks(f, n, 32, func() {
		for i := range 8 {
			group(i, whole)
		}
	})
	fold := f.label("fold")
	var cuts [8]string
	for i := range cuts {
		cuts[i] = f.label("cut")
		if i == 7 {
			break // fewer than four floats are left
		}
		f.op("CMP $4, R%d", n)
		f.branch("BLT", cuts[i])
		group(i, whole)
		increment(f, n, -4)
	}
	for i := 7; i >= 0; i-- {
		f.at(cuts[i])
		f.branch("CBZ R%d,", fold, n)
		group(i, func(p *reg) *reg { return loadFirst(f, p, 0, n) })
		f.branch("B", fold)
	}
	f.at(fold)
	returnLaneSum(f, acc)
	return f
}

// returnLaneSum adds 32 lanes and returns the sum.
func returnLaneSum(f *function, acc [16]*reg) {
	for half := 8; half >= 1; half /= 2 {
		for i := range half {
			f.vector("fadd v%d.2d, v%d.2d, v%d.2d", acc[i], acc[i], acc[i+half])
		}
	}
	f.result(f.make("faddp d%d, v%d.2d", acc[0]))
	f.ret()
}

// deviations emits deviations, in the lanes of sum64.
func deviations() *function {
	f := newFunction("deviationsNEON", "func(x *float32, n int, mean float64) float64")
	x, n, mean := f.load("x"), f.load("n"), f.vec()
	place, _ := f.parameter("mean")
	f.op("FMOVD "+place+", F%d", mean)
	f.op("VDUP V%d.D[0], V%d.D2", mean, mean)
	var acc [16]*reg
	for i := range acc {
		acc[i] = zero(f)
	}
	forChunks(f, n, 32, func() {
		for i := range 8 {
			for h, v := range widen(f, loadVector(f, x, 16*i)) {
				v = f.make("fsub v%d.2d, v%d.2d, v%d.2d", v, mean)
				v = f.make("fmul v%d.2d, v%d.2d, v%d.2d", v, v)
				f.vector("fadd v%d.2d, v%d.2d, v%d.2d", acc[2*i+h], acc[2*i+h], v)
			}
		}
		increment(f, x, 128)
	})
	returnLaneSum(f, acc)
	return f
}

// maximum emits maximum. It gives -Inf for n = 0 and ignores NaN.
func maximum() *function {
	f := newFunction("maximumNEON", "func(x *float32, n int) float32")
	x, n := f.load("x"), f.load("n")
	lowest := f.num(math.Inf(-1))
	larger := func(top, x *reg) { f.vector("fmaxnm v%d.4s, v%d.4s, v%d.4s", top, top, x) }
	var acc [4]*reg
	for i := range acc {
		acc[i] = copyOf(f, lowest)
	}
	for _, vectors := range []int{4, 1} {
		forChunks(f, n, 4*vectors, func() {
			for i, v := range loadVectors(f, x, 0, vectors) {
				larger(acc[i], v)
			}
			increment(f, x, 16*vectors)
		})
	}
	whole := f.label("whole")
	f.branch("CBZ R%d,", whole, n)
	repeat(f, n, func() { larger(acc[0], loadBroadcast(f, x)) })
	f.at(whole)
	larger(acc[0], acc[1])
	larger(acc[2], acc[3])
	larger(acc[0], acc[2])
	f.result(f.make("fmaxnmv s%d, v%d.4s", acc[0]))
	f.ret()
	return f
}

// colSums emits colSums, for at least one row. It keeps a strip of the sums in registers while
// it reads all rows.
func colSums() *function {
	f := newFunction("colSumsNEON", "func(dst, x *float32, ldx, rows, cols int, factors *float32)")
	r := f.loads("dst", "x", "ldx", "rows", "cols", "factors")
	dst, x, ldx, rows, cols, factors := r[0], r[1], r[2], r[3], r[4], r[5]
	toBytes(f, ldx)
	add := func(sum, x *reg) { f.vector("fadd v%d.4s, v%d.4s, v%d.4s", sum, sum, x) }
	strip := func(vectors int, load func(p *reg) []*reg, store func(x []*reg)) {
		acc := make([]*reg, vectors)
		for i := range acc {
			acc[i] = zero(f)
		}
		row, left := f.gp(), f.gp()
		f.op("MOVD R%d, R%d", x, row)
		f.op("MOVD R%d, R%d", rows, left)
		plain, end := f.label("plain"), f.label("end")
		f.branch("CBZ R%d,", plain, factors)
		next, factor := f.gp(), lane{of: f.vec()}
		f.op("MOVD R%d, R%d", factors, next)
		repeat(f, left, func() {
			skip := f.label("skip")
			f.op("FMOVS.P 4(R%d), F%d", next, factor.of)
			f.op("FCMPS $(0.0), F%d", factor.of)
			f.branch("BEQ", skip) // not taken for NaN
			for i, y := range load(row) {
				add(acc[i], mulLane(f, y, factor))
			}
			f.at(skip)
			f.op("ADD R%d, R%d, R%d", ldx, row, row)
		})
		f.branch("B", end)
		f.at(plain)
		repeat(f, left, func() {
			for i, y := range load(row) {
				add(acc[i], y)
			}
			f.op("ADD R%d, R%d, R%d", ldx, row, row)
		})
		f.at(end)
		sums := load(dst)
		for i, y := range sums {
			add(y, acc[i])
		}
		store(sums)
	}
	for _, vectors := range []int{8, 1} {
		forChunks(f, cols, 4*vectors, func() {
			strip(vectors, func(p *reg) []*reg { return loadVectors(f, p, 0, vectors) },
				func(x []*reg) { storeVectors(f, x, dst, 0) })
			increment(f, x, 16*vectors)
			increment(f, dst, 16*vectors)
		})
	}
	done := f.label("done")
	f.branch("CBZ R%d,", done, cols)
	strip(1, func(p *reg) []*reg { return []*reg{loadFirst(f, p, 0, cols)} },
		func(x []*reg) { storeFirst(f, x[0], dst, 0, cols) })
	f.at(done)
	f.ret()
	return f
}

// widen converts four floats to float64.
func widen(f *function, x *reg) []*reg {
	return []*reg{f.make("fcvtl v%d.2d, v%d.2s", x), f.make("fcvtl2 v%d.2d, v%d.4s", x)}
}
