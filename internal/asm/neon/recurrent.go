package neon

func recurrent() []*function { return []*function{lstmStep(), lstmSignals()} }

// loadArrays loads a pointer to count contiguous arrays of n floats and returns their
// addresses.
func loadArrays(f *function, name string, n *reg, count int) []*reg {
	all := []*reg{f.load(name)}
	for i := 1; i < count; i++ {
		next := f.gp()
		f.op("ADD R%d<<2, R%d, R%d", n, all[i-1], next)
		all = append(all, next)
	}
	return all
}

// forEachVector emits a loop that runs body on each vector of n floats, two at a time, and
// advances the pointers. The last vector may be partial.
func forEachVector(f *function, n *reg, pointers []*reg, body func(load func(p *reg) *reg, store func(x, p *reg))) {
	for _, vectors := range []int{2, 1} {
		forChunks(f, n, 4*vectors, func() {
			bodies := make([]func(), vectors)
			for v := range bodies {
				bodies[v] = func() {
					body(func(p *reg) *reg { return loadVector(f, p, 16*v) }, func(x, p *reg) { storeVector(f, x, p, 16*v) })
				}
			}
			f.interleave(bodies...)
			for _, p := range pointers {
				increment(f, p, 16*vectors)
			}
		})
	}
	done := f.label("done")
	f.branch("CBZ R%d,", done, n)
	body(func(p *reg) *reg { return loadFirst(f, p, 0, n) }, func(x, p *reg) { storeFirst(f, x, p, 0, n) })
	f.at(done)
	f.ret()
}

// lstmStep emits lstmStep.
func lstmStep() *function {
	f := newFunction("lstmStepNEON", "func(trace, hidden, cellTanh, x, p, previousCell *float32, n int)")
	n := f.load("n")
	trace, x, p := loadArrays(f, "trace", n, 5), loadArrays(f, "x", n, 4), loadArrays(f, "p", n, 4)
	r := f.loads("hidden", "cellTanh", "previousCell")
	hidden, cellTanh, previousCell := r[0], r[1], r[2]
	pointers := append(append(append(r, trace...), x...), p...)
	forEachVector(f, n, pointers, func(load func(p *reg) *reg, store func(x, p *reg)) {
		var gates [4]*reg
		gate := func(i int, activation func(*reg) *reg) {
			gates[i] = activation(add(f, load(x[i]), load(p[i])))
			store(gates[i], trace[i])
		}
		gate(0, func(x *reg) *reg { return sigmoid(f, x) }) // not interleaved: there are too few registers
		f.interleave(
			func() { gate(1, func(x *reg) *reg { return sigmoid(f, x) }) },
			func() { gate(2, func(x *reg) *reg { return tanh(f, x) }) },
		)
		c := mul(f, gates[0], gates[2])
		fma(f, c, gates[1], load(previousCell))
		store(c, trace[4])
		var t *reg
		f.interleave(
			func() { gate(3, func(x *reg) *reg { return sigmoid(f, x) }) },
			func() { t = tanh(f, c) },
		)
		store(t, cellTanh)
		store(mul(f, gates[3], t), hidden)
	})
	return f
}

// lstmSignals emits lstmSignals.
func lstmSignals() *function {
	f := newFunction("lstmSignalsNEON", "func(d, cell, trace, cellTanh, previousCell, grad, recurrentGrad *float32, n int)")
	n := f.load("n")
	d, trace := loadArrays(f, "d", n, 4), loadArrays(f, "trace", n, 4)
	r := f.loads("cell", "cellTanh", "previousCell", "grad", "recurrentGrad")
	cell, cellTanh, previousCell, grad, recurrentGrad := r[0], r[1], r[2], r[3], r[4]
	forEachVector(f, n, append(append(r, d...), trace...), func(load func(p *reg) *reg, store func(x, p *reg)) {
		complement := func(x *reg) *reg { return sub(f, f.num(1), x) }
		v := add(f, load(grad), load(recurrentGrad))
		i, forget, cand, o, t := load(trace[0]), load(trace[1]), load(trace[2]), load(trace[3]), load(cellTanh)
		vo := mul(f, v, o)
		store(mul(f, mul(f, vo, t), complement(o)), d[3])
		dc := load(cell)
		fma(f, dc, vo, complement(mul(f, t, t)))
		store(mul(f, dc, forget), cell)
		store(mul(f, mul(f, mul(f, dc, cand), i), complement(i)), d[0])
		store(mul(f, mul(f, mul(f, dc, load(previousCell)), forget), complement(forget)), d[1])
		store(mul(f, mul(f, dc, i), complement(mul(f, cand, cand))), d[2])
	})
	return f
}
