package neon

import "fmt"

// loadVector and storeVector load and store four floats, at bytes from base.
func loadVector(f *function, base *reg, at int) *reg {
	x := f.vec()
	f.op(fmt.Sprintf("FMOVQ %d(R%%d), F%%d", at), base, x)
	return x
}

func storeVector(f *function, x, base *reg, at int) {
	f.op(fmt.Sprintf("FMOVQ F%%d, %d(R%%d)", at), x, base)
}

// loadVectors loads n contiguous vectors.
func loadVectors(f *function, base *reg, at, n int) (x []*reg) {
	for ; n >= 2; n -= 2 {
		a, b := f.vec(), f.vec()
		f.op(fmt.Sprintf("FLDPQ %d(R%%d), (F%%d, F%%d)", at), base, a, b)
		x = append(x, a, b)
		at += 32
	}
	if n == 1 {
		x = append(x, loadVector(f, base, at))
	}
	return x
}

// storeVectors stores contiguous vectors.
func storeVectors(f *function, x []*reg, base *reg, at int) {
	for ; len(x) >= 2; x = x[2:] {
		f.op(fmt.Sprintf("FSTPQ (F%%d, F%%d), %d(R%%d)", at), x[0], x[1], base)
		at += 32
	}
	if len(x) == 1 {
		storeVector(f, x[0], base, at)
	}
}

// forTail handles the last n%4 floats of a row, at least one. It emits two for the first two
// floats and third for a third one, or one for a single float.
func forTail(f *function, n *reg, two, third, one func()) {
	single, done := f.label("single"), f.label("done")
	f.branch("TBZ $1, R%d,", single, n)
	two()
	f.branch("TBZ $0, R%d,", done, n)
	third()
	f.branch("B", done)
	f.at(single)
	one()
	f.at(done)
}

// loadFirst loads n%4 floats, at least one. The other lanes are 0.
func loadFirst(f *function, base *reg, at int, n *reg) *reg {
	x, third := f.vec(), f.gp()
	forTail(f, n,
		func() { f.op(fmt.Sprintf("FMOVD %d(R%%d), F%%d", at), base, x) },
		func() {
			f.op(fmt.Sprintf("ADD $%d, R%%d, R%%d", at+8), base, third)
			f.op("VLD1 (R%d), V%d.S[2]", third, x)
		},
		func() { f.op(fmt.Sprintf("FMOVS %d(R%%d), F%%d", at), base, x) })
	return x
}

// storeFirst stores the first n%4 floats, at least one.
func storeFirst(f *function, x, base *reg, at int, n *reg) {
	third := f.gp()
	forTail(f, n,
		func() { f.op(fmt.Sprintf("FMOVD F%%d, %d(R%%d)", at), x, base) },
		func() {
			f.op(fmt.Sprintf("ADD $%d, R%%d, R%%d", at+8), base, third)
			f.op("VST1 V%d.S[2], (R%d)", x, third)
		},
		func() { f.op(fmt.Sprintf("FMOVS F%%d, %d(R%%d)", at), x, base) })
}

// loadBroadcast loads one float to every lane and advances the pointer.
func loadBroadcast(f *function, p *reg) *reg {
	x := f.vec()
	f.op("VLD1R.P 4(R%d), [V%d.S4]", p, x)
	return x
}

// increment adds a constant to a general register.
func increment(f *function, r *reg, n int) { f.op(fmt.Sprintf("ADD $%d, R%%d, R%%d", n), r, r) }

// toBytes converts counts of floats to bytes.
func toBytes(f *function, counts ...*reg) {
	for _, r := range counts {
		f.op("LSL $2, R%d, R%d", r, r)
	}
}

// forChunks emits a loop that runs body while left ≥ n and subtracts n from left each time.
func forChunks(f *function, left *reg, n int, body func()) {
	loop, end := f.label("loop"), f.label("end")
	f.op(fmt.Sprintf("SUBS $%d, R%%d, R%%d", n), left, left)
	f.branch("BLT", end)
	f.at(loop)
	body()
	f.op(fmt.Sprintf("SUBS $%d, R%%d, R%%d", n), left, left)
	f.branch("BGE", loop)
	f.at(end)
	increment(f, left, n)
}

// repeat emits a loop that runs body count times, at least once. It destroys count.
func repeat(f *function, count *reg, body func()) {
	loop := f.label("loop")
	f.at(loop)
	body()
	f.op("SUBS $1, R%d, R%d", count, count)
	f.branch("BNE", loop)
}
