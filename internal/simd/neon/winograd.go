package main

import "fmt"

// The transforms take four tiles or filters at a time, twice a vector of the
// eight that package simd counts in.
func winograd() []*function {
	return []*function{winogradFilters(), winogradImage(), winogradSignal(), winogradResult(), winogradGradients()}
}

const filterBytes = 9 * 4

// planes walks over the 16 planes from dst on, storing one vector in each, and
// moves dst on.
func (f *function) planes(dst, plane *reg) func(x ...*reg) {
	to := f.gp()
	f.op("MOVD R%d, R%d", dst, to)
	f.addTo(dst, 16)
	return func(all ...*reg) {
		for _, x := range all {
			f.store(x, to, 0)
			f.op("ADD R%d, R%d, R%d", plane, to, to)
		}
	}
}

// pick separates the places of eight floats.
func (f *function) pick(p *reg, at int) (even, odd *reg) {
	x := f.vectorsAt(p, at, 2)
	return f.known("VUZP1", "S4", x[0], x[1]), f.known("VUZP2", "S4", x[0], x[1])
}

func winogradFilters() *function {
	f := newFunction("winogradFiltersNEON", "func(dst *float32, plane int, filters *float32, vectors int)")
	r := f.loads("dst", "plane", "filters", "vectors")
	dst, plane, filters, vectors := r[0], r[1], r[2], r[3]
	f.bytes(plane)
	f.op("LSL $1, R%d, R%d", vectors, vectors)
	half := f.part(0.5)
	f.repeat(vectors, func() {
		var x [9]*reg
		for _, from := range []int{0, 4, 5} { // to number 8, some of them twice
			var q [4]*reg
			for i := range q {
				q[i] = f.vectorAt(filters, i*filterBytes+4*from)
			}
			t := f.transpose4(q)
			copy(x[from:], t[:])
		}
		f.addTo(filters, 4*filterBytes)
		store := f.planes(dst, plane)
		across := func(a, b, c *reg) {
			ends := f.add(a, c)
			store(a, f.times(f.add(ends, b), half), f.times(f.sub(ends, b), half), c)
		}
		across(x[0], x[1], x[2])
		for _, combine := range []func(x, y *reg) *reg{f.add, f.sub} {
			var row [3]*reg
			for j := range row {
				row[j] = f.times(combine(f.add(x[j], x[6+j]), x[3+j]), half)
			}
			across(row[0], row[1], row[2])
		}
		across(x[6], x[7], x[8])
	})
	f.ret()
	return f
}

// winogradGradients is the adjoint of winogradFilters.
func winogradGradients() *function {
	f := newFunction("winogradGradientsNEON", "func(filters, src *float32, plane, vectors int)")
	r := f.loads("filters", "src", "plane", "vectors")
	filters, src, plane, vectors := r[0], r[1], r[2], r[3]
	f.bytes(plane)
	f.op("LSL $1, R%d, R%d", vectors, vectors)
	half, last, stride := f.part(0.5), f.gp(), f.gp()
	f.op(fmt.Sprintf("MOVD $%d, R%%d", filterBytes), stride)
	// fold is a + (b+c)/2, (b-c)/2, (b+c)/2 + d.
	fold := func(a, b, c, d *reg) [3]*reg {
		sum := f.times(f.add(b, c), half)
		return [3]*reg{f.add(a, sum), f.times(f.sub(b, c), half), f.add(sum, d)}
	}
	f.repeat(vectors, func() {
		from := f.gp()
		f.op("MOVD R%d, R%d", src, from)
		f.addTo(src, 16)
		var across [4][3]*reg
		for i := range across {
			var s [4]*reg
			for j := range s {
				s[j] = f.vectorAt(from, 0)
				f.op("ADD R%d, R%d, R%d", plane, from, from)
			}
			across[i] = fold(s[0], s[1], s[2], s[3])
		}
		var x [9]*reg
		for j := range 3 {
			column := fold(across[0][j], across[1][j], across[2][j], across[3][j])
			x[j], x[3+j], x[6+j] = column[0], column[1], column[2]
		}
		for h := range 2 {
			for i, q := range f.transpose4([4]*reg(x[4*h:])) {
				f.store(q, filters, i*filterBytes+16*h)
			}
		}
		f.op("ADD $32, R%d, R%d", filters, last)
		for i := range 4 {
			f.op(fmt.Sprintf("VST1.P V%%d.S[%d], (R%%d)(R%%d)", i), x[8], last, stride)
		}
		f.addTo(filters, 4*filterBytes)
	})
	f.ret()
	return f
}

func winogradImage() *function {
	f := newFunction("winogradImageNEON", "func(dst *float32, plane int, rows *float32, ld, vectors int)")
	r := f.loads("dst", "plane", "rows", "ld", "vectors")
	dst, plane, rows, ld, vectors := r[0], r[1], r[2], r[3], r[4]
	f.bytes(plane, ld)
	f.op("LSL $1, R%d, R%d", vectors, vectors)
	f.repeat(vectors, func() {
		row := f.gp()
		f.op("MOVD R%d, R%d", rows, row)
		f.addTo(rows, 32)
		var across [4][4]*reg
		for i := range across {
			d0, d1 := f.pick(row, 0)
			d2, d3 := f.pick(row, 8)
			across[i] = [4]*reg{f.sub(d0, d2), f.add(d1, d2), f.sub(d2, d1), f.sub(d1, d3)}
			f.op("ADD R%d, R%d, R%d", ld, row, row)
		}
		store := f.planes(dst, plane)
		for i := range 4 {
			a := [4][2]int{{0, 2}, {1, 2}, {2, 1}, {1, 3}}[i]
			for j := range 4 {
				x, y := across[a[0]][j], across[a[1]][j]
				if i == 1 {
					store(f.add(x, y))
				} else {
					store(f.sub(x, y))
				}
			}
		}
	})
	f.ret()
	return f
}

// winogradSignal is the adjoint of winogradResult.
func winogradSignal() *function {
	f := newFunction("winogradSignalNEON", "func(dst *float32, plane int, rows *float32, ld, vectors int)")
	r := f.loads("dst", "plane", "rows", "ld", "vectors")
	dst, plane, rows, ld, vectors := r[0], r[1], r[2], r[3], r[4]
	f.bytes(plane, ld)
	f.op("LSL $1, R%d, R%d", vectors, vectors)
	zero := f.zero()
	f.repeat(vectors, func() {
		row := f.gp()
		f.op("ADD R%d, R%d, R%d", ld, rows, row)
		a, b := f.pick(rows, 0)
		c, d := f.pick(row, 0)
		f.addTo(rows, 32)
		store := f.planes(dst, plane)
		across := func(left, right *reg) {
			store(left, f.add(left, right), f.sub(left, right), f.sub(zero, right))
		}
		across(a, b)
		across(f.add(a, c), f.add(b, d))
		across(f.sub(a, c), f.sub(b, d))
		across(f.sub(zero, c), f.sub(zero, d))
	})
	f.ret()
	return f
}

func winogradResult() *function {
	f := newFunction("winogradResultNEON", "func(top, bottom, src *float32, plane, vectors int, bias, floor float32)")
	r := f.loads("top", "bottom", "src", "plane", "vectors")
	rows, src, plane, vectors := r[:2], r[2], r[3], r[4]
	f.bytes(plane)
	f.op("LSL $1, R%d, R%d", vectors, vectors)
	bias, floor := f.broadcast(f.scalar("bias")), f.broadcast(f.scalar("floor"))
	f.repeat(vectors, func() {
		from := f.gp()
		f.op("MOVD R%d, R%d", src, from)
		f.addTo(src, 16)
		var m [4][4]*reg
		for i := range m {
			for j := range m[i] {
				m[i][j] = f.vectorAt(from, 0)
				f.op("ADD R%d, R%d, R%d", plane, from, from)
			}
		}
		var down [2][4]*reg
		for j := range 4 {
			down[0][j] = f.add(f.add(m[1][j], m[0][j]), m[2][j])
			down[1][j] = f.sub(f.sub(m[1][j], m[2][j]), m[3][j])
		}
		for i, s := range down {
			left := f.add(f.add(f.add(s[0], s[1]), s[2]), bias)
			right := f.add(f.sub(f.sub(s[1], s[2]), s[3]), bias)
			for _, x := range []*reg{left, right} { // NaN and the sign of zero stay
				below := f.make("fcmgt v%d.4s, v%d.4s, v%d.4s", floor, x)
				f.op("VBIT V%d.B16, V%d.B16, V%d.B16", below, floor, x)
			}
			f.storeAll([]*reg{f.known("VZIP1", "S4", left, right), f.known("VZIP2", "S4", left, right)}, rows[i], 0)
			f.addTo(rows[i], 32)
		}
	})
	f.ret()
	return f
}
