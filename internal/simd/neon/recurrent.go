package main

func recurrent() []*function { return []*function{lstmStep(), lstmSignals()} }

// arrays are count arrays of n floats that lie one after the other.
func (f *function) arrays(name string, n *reg, count int) []*reg {
	all := []*reg{f.load(name)}
	for i := 1; i < count; i++ {
		next := f.gp()
		f.op("ADD R%d<<2, R%d, R%d", n, all[i-1], next)
		all = append(all, next)
	}
	return all
}

// eachVector runs body on vectors of everything that pointers point to, two at a time;
// the last may be cut.
func (f *function) eachVector(n *reg, pointers []*reg, body func(load func(p *reg) *reg, store func(x, p *reg))) {
	for _, vectors := range []int{2, 1} {
		f.turns(n, 4*vectors, func() {
			bodies := make([]func(), vectors)
			for v := range bodies {
				bodies[v] = func() {
					body(func(p *reg) *reg { return f.vectorAt(p, 16*v) }, func(x, p *reg) { f.store(x, p, 16*v) })
				}
			}
			f.together(bodies...)
			for _, p := range pointers {
				f.addTo(p, 16*vectors)
			}
		})
	}
	done := f.label("done")
	f.branch("CBZ R%d,", done, n)
	body(func(p *reg) *reg { return f.firstAt(p, 0, n) }, func(x, p *reg) { f.storeFirst(x, p, 0, n) })
	f.at(done)
	f.ret()
}

func lstmStep() *function {
	f := newFunction("lstmStepNEON", "func(trace, hidden, squashed, x, p, before *float32, n int)")
	n := f.load("n")
	trace, x, p := f.arrays("trace", n, 5), f.arrays("x", n, 4), f.arrays("p", n, 4)
	r := f.loads("hidden", "squashed", "before")
	hidden, squashed, before := r[0], r[1], r[2]
	pointers := append(append(append(r, trace...), x...), p...)
	f.eachVector(n, pointers, func(load func(p *reg) *reg, store func(x, p *reg)) {
		var gates [4]*reg
		gate := func(i int, curve func(*reg) *reg) {
			gates[i] = curve(f.add(load(x[i]), load(p[i])))
			store(gates[i], trace[i])
		}
		gate(0, f.sigmoid) // alone: registers are short
		f.together(
			func() { gate(1, f.sigmoid) },
			func() { gate(2, f.tanh) },
		)
		c := f.mul(gates[0], gates[2])
		f.fma(c, gates[1], load(before))
		store(c, trace[4])
		var t *reg
		f.together(
			func() { gate(3, f.sigmoid) },
			func() { t = f.tanh(c) },
		)
		store(t, squashed)
		store(f.mul(gates[3], t), hidden)
	})
	return f
}

func lstmSignals() *function {
	f := newFunction("lstmSignalsNEON", "func(d, cell, trace, squashed, before, grad, back *float32, n int)")
	n := f.load("n")
	d, trace := f.arrays("d", n, 4), f.arrays("trace", n, 4)
	r := f.loads("cell", "squashed", "before", "grad", "back")
	cell, squashed, before, grad, back := r[0], r[1], r[2], r[3], r[4]
	f.eachVector(n, append(append(r, d...), trace...), func(load func(p *reg) *reg, store func(x, p *reg)) {
		rest := func(x *reg) *reg { return f.sub(f.num(1), x) }
		v := f.add(load(grad), load(back))
		i, forget, cand, o, t := load(trace[0]), load(trace[1]), load(trace[2]), load(trace[3]), load(squashed)
		vo := f.mul(v, o)
		store(f.mul(f.mul(vo, t), rest(o)), d[3])
		dc := load(cell)
		f.fma(dc, vo, rest(f.mul(t, t)))
		store(f.mul(dc, forget), cell)
		store(f.mul(f.mul(f.mul(dc, cand), i), rest(i)), d[0])
		store(f.mul(f.mul(f.mul(dc, load(before)), forget), rest(forget)), d[1])
		store(f.mul(f.mul(dc, i), rest(f.mul(cand, cand))), d[2])
	})
	return f
}
