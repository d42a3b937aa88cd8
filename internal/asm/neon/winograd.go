package neon

import "fmt"

// transforms emits Winograd's transforms for one size of filter. Each is a linear map, applied
// to every row and then to every column of the result. A vector is four tiles or filters, half
// a vector of package simd.
type transforms struct {
	*function
	taps, points int
	stack        *reg // memory of the transformed rows; nil if registers suffice
}

func winograd() (list []*function) {
	for _, taps := range []int{3, 5} {
		for _, write := range []func(taps int) *function{winogradFilters, winogradImage, winogradSignal,
			winogradResult, winogradGradients} {
			list = append(list, write(taps))
		}
	}
	return list
}

// newTransforms starts a function that stores the given number of transformed rows.
func newTransforms(name, signature string, taps, rows int) transforms {
	t := transforms{newFunction(fmt.Sprintf("winograd%s%dNEON", name, taps), signature), taps, taps + 1, nil}
	if taps > 3 {
		t.stack = t.locals(16 * rows * t.points)
	}
	return t
}

// linear is a linear map of a row. It passes its results to out in order.
type linear func(in []*reg, out func(x *reg))

// scaled returns x·c, rounded.
func (t transforms) scaled(x *reg, c float64) *reg { return mulLane(t.function, x, t.numLane(c)) }

// overFilter, overImage, overSignal, overResult and overGradient are the maps with the same
// names in the tests of package simd.
func (t transforms) overFilter(f []*reg, out func(x *reg)) {
	if t.taps == 3 {
		ends := add(t.function, f[0], f[2])
		out(f[0])
		out(t.scaled(add(t.function, ends, f[1]), 0.5))
		out(t.scaled(sub(t.function, ends, f[1]), 0.5))
		out(f[2])
		return
	}
	out(f[0])
	even, odd := add(t.function, add(t.function, f[0], f[2]), f[4]), add(t.function, f[1], f[3])
	out(t.scaled(add(t.function, even, odd), 1./3))
	out(t.scaled(sub(t.function, odd, even), 1./3))
	odd = add(t.function, t.scaled(f[1], 0.5), t.scaled(f[3], 0.125))
	even = add(t.function, add(t.function, f[0], t.scaled(f[2], 0.25)), t.scaled(f[4], 0.0625))
	out(t.scaled(add(t.function, even, odd), -16./15))
	odd = add(t.function, t.scaled(f[1], 2), t.scaled(f[3], 8))
	even = add(t.function, add(t.function, f[0], t.scaled(f[2], 4)), t.scaled(f[4], 16))
	out(t.scaled(sub(t.function, even, odd), 1./15))
	out(f[4])
}

func (t transforms) overImage(d []*reg, out func(x *reg)) {
	if t.taps == 3 {
		out(sub(t.function, d[0], d[2]))
		out(add(t.function, d[1], d[2]))
		out(sub(t.function, d[2], d[1]))
		out(sub(t.function, d[1], d[3]))
		return
	}
	odd, even := sub(t.function, d[3], d[1]), sub(t.function, d[4], d[2])
	out(add(t.function, add(t.function, d[0], d[4]), sub(t.function, t.scaled(odd, 1.5), t.scaled(d[2], 2))))
	out(add(t.function, sub(t.function, d[4], d[1]), add(t.function, t.scaled(d[2], 0.5), t.scaled(d[3], 2.5))))
	out(add(t.function, add(t.function, d[4], d[1]), sub(t.function, t.scaled(d[3], 0.5), t.scaled(d[2], 2.5))))
	out(add(t.function, even, t.scaled(odd, 2)))
	out(sub(t.function, even, t.scaled(odd, 0.5)))
	out(add(t.function, add(t.function, d[5], d[1]), sub(t.function, t.scaled(even, 1.5), t.scaled(d[3], 2))))
}

func (t transforms) overSignal(y []*reg, out func(x *reg)) {
	out(y[0])
	out(add(t.function, y[0], y[1]))
	out(sub(t.function, y[0], y[1]))
	if t.taps == 3 {
		out(sub(t.function, t.bits(0), y[1]))
		return
	}
	out(add(t.function, y[0], t.scaled(y[1], 0.5)))
	out(sub(t.function, y[0], t.scaled(y[1], 2)))
	out(y[1])
}

func (t transforms) overResult(m []*reg, out func(x *reg)) {
	sum, difference := add(t.function, m[1], m[2]), sub(t.function, m[1], m[2])
	if t.taps == 3 {
		out(add(t.function, m[0], sum))
		out(sub(t.function, difference, m[3]))
		return
	}
	out(add(t.function, add(t.function, m[0], sum), add(t.function, m[3], m[4])))
	out(add(t.function, add(t.function, difference, m[5]), sub(t.function, t.scaled(m[3], 0.5), t.scaled(m[4], 2))))
}

func (t transforms) overGradient(s []*reg, out func(x *reg)) {
	if t.taps == 3 {
		sum := t.scaled(add(t.function, s[1], s[2]), 0.5)
		out(add(t.function, s[0], sum))
		out(t.scaled(sub(t.function, s[1], s[2]), 0.5))
		out(add(t.function, sum, s[3]))
		return
	}
	even, odd := t.scaled(sub(t.function, s[1], s[2]), 1./3), t.scaled(add(t.function, s[1], s[2]), 1./3)
	third, fourth := t.scaled(s[3], -16./15), t.scaled(s[4], 1./15)
	out(add(t.function, add(t.function, s[0], even), add(t.function, third, fourth)))
	out(add(t.function, odd, sub(t.function, t.scaled(third, 0.5), t.scaled(fourth, 2))))
	out(add(t.function, even, add(t.function, t.scaled(third, 0.25), t.scaled(fourth, 4))))
	out(add(t.function, odd, sub(t.function, t.scaled(third, 0.125), t.scaled(fourth, 8))))
	out(add(t.function, add(t.function, s[5], even), add(t.function, t.scaled(third, 0.0625), t.scaled(fourth, 16))))
}

// twice applies a map to rows and then to the columns. load returns a row; out receives the
// result column by column.
func (t transforms) twice(rows int, load func(i int) []*reg, f linear, out func(x *reg)) {
	var transformed [][]*reg // by column
	for i := range rows {
		j := 0
		f(load(i), func(x *reg) {
			if i == 0 {
				transformed = append(transformed, make([]*reg, rows))
			}
			if t.stack != nil {
				storeVector(t.function, x, t.stack, 16*(j*rows+i))
			}
			transformed[j][i] = x
			j++
		})
	}
	for j, column := range transformed {
		if t.stack != nil {
			for i := range column {
				column[i] = loadVector(t.function, t.stack, 16*(j*rows+i))
			}
		}
		f(column, out)
	}
}

// columns returns a function that stores the results of twice in planes, a column in every
// points-th plane, and advances dst.
func (t transforms) columns(dst, plane *reg) func(x *reg) {
	down, column, to := t.gp(), t.gp(), t.gp()
	t.op(fmt.Sprintf("MOVD $%d, R%%d", t.points), down)
	t.op("MUL R%d, R%d, R%d", plane, down, down)
	t.op("MOVD R%d, R%d", dst, column)
	increment(t.function, dst, 16)
	i := 0
	return func(x *reg) {
		if i%t.points == 0 {
			t.op("MOVD R%d, R%d", column, to)
			t.op("ADD R%d, R%d, R%d", plane, column, column)
		}
		storeVector(t.function, x, to, 0)
		t.op("ADD R%d, R%d, R%d", down, to, to)
		i++
	}
}

// planes loads the numbers of one row of the transform, one plane after the other.
func (t transforms) planes(at, plane *reg) (row []*reg) {
	for range t.points {
		row = append(row, loadVector(t.function, at, 0))
		t.op("ADD R%d, R%d, R%d", plane, at, at)
	}
	return row
}

// forHalfVectors emits a loop that runs body twice per vector of package simd.
func (t transforms) forHalfVectors(vectors *reg, body func()) {
	t.op("LSL $1, R%d, R%d", vectors, vectors)
	repeat(t.function, vectors, body)
	t.ret()
}

// winogradFilters emits the transform of filters of taps² contiguous floats each.
func winogradFilters(taps int) *function {
	t := newTransforms("Filters", "func(dst *float32, plane int, filters *float32, vectors int)", taps, taps)
	r := t.loads("dst", "plane", "filters", "vectors")
	dst, plane, filters, vectors := r[0], r[1], r[2], r[3]
	toBytes(t.function, plane)
	bytes := 4 * taps * taps
	t.forHalfVectors(vectors, func() {
		at := []*reg{filters}
		for i := 1; i < 4; i++ {
			at = append(at, t.gp())
			t.op(fmt.Sprintf("ADD $%d, R%%d, R%%d", i*bytes), filters, at[i])
		}
		t.twice(taps, func(int) (row []*reg) {
			for range taps {
				x := t.vec()
				t.op("FMOVS.P 4(R%d), F%d", at[0], x)
				for i := 1; i < 4; i++ {
					t.op(fmt.Sprintf("VLD1.P 4(R%%d), V%%d.S[%d]", i), at[i], x)
				}
				row = append(row, x)
			}
			return row
		}, t.overFilter, t.columns(dst, plane))
		increment(t.function, filters, 3*bytes)
	})
	return t.function
}

// winogradGradients emits the adjoint of winogradFilters.
func winogradGradients(taps int) *function {
	t := newTransforms("Gradients", "func(filters, src *float32, plane, vectors int)", taps, taps+1)
	r := t.loads("filters", "src", "plane", "vectors")
	filters, src, plane, vectors := r[0], r[1], r[2], r[3]
	toBytes(t.function, plane)
	bytes, stride := 4*taps*taps, t.gp()
	t.op(fmt.Sprintf("MOVD $%d, R%%d", bytes), stride)
	t.forHalfVectors(vectors, func() {
		at, to, k := t.gp(), t.gp(), 0
		t.op("MOVD R%d, R%d", src, at)
		t.twice(t.points, func(int) []*reg { return t.planes(at, plane) }, t.overGradient, func(x *reg) {
			t.op(fmt.Sprintf("ADD $%d, R%%d, R%%d", 4*(k%taps*taps+k/taps)), filters, to)
			for i := range 4 {
				t.op(fmt.Sprintf("VST1.P V%%d.S[%d], (R%%d)(R%%d)", i), x, to, stride)
			}
			k++
		})
		increment(t.function, filters, 4*bytes)
		increment(t.function, src, 16)
	})
	return t.function
}

// tiles emits a transform of rows of tiles, which are two elements apart.
func tiles(name string, taps, rows int, f func(t transforms) linear) *function {
	t := newTransforms(name, "func(dst *float32, plane int, rows *float32, ld, vectors int)", taps, rows)
	r := t.loads("dst", "plane", "rows", "ld", "vectors")
	dst, plane, from, ld, vectors := r[0], r[1], r[2], r[3], r[4]
	toBytes(t.function, plane, ld)
	t.forHalfVectors(vectors, func() {
		row := t.gp()
		t.op("MOVD R%d, R%d", from, row)
		increment(t.function, from, 32)
		t.twice(rows, func(int) (places []*reg) {
			for k := range rows / 2 {
				x := loadVectors(t.function, row, 8*k, 2)
				places = append(places, t.known("VUZP1", "S4", x[0], x[1]), t.known("VUZP2", "S4", x[0], x[1]))
			}
			t.op("ADD R%d, R%d, R%d", ld, row, row)
			return places
		}, f(t), t.columns(dst, plane))
	})
	return t.function
}

func winogradImage(taps int) *function {
	return tiles("Image", taps, taps+1, func(t transforms) linear { return t.overImage })
}

func winogradSignal(taps int) *function {
	return tiles("Signal", taps, 2, func(t transforms) linear { return t.overSignal })
}

// winogradResult emits the transform of planes to a row of tiles: two rows of the result.
func winogradResult(taps int) *function {
	t := newTransforms("Result", "func(top, bottom, src *float32, plane, vectors int, bias, floor float32)", taps, taps+1)
	r := t.loads("top", "bottom", "src", "plane", "vectors")
	rows, src, plane, vectors := r[:2], r[2], r[3], r[4]
	toBytes(t.function, plane)
	bias, floor := broadcast(t.function, t.scalar("bias")), broadcast(t.function, t.scalar("floor"))
	t.forHalfVectors(vectors, func() {
		at := t.gp()
		t.op("MOVD R%d, R%d", src, at)
		increment(t.function, src, 16)
		var places []*reg // top left, bottom left, top right, bottom right
		t.twice(t.points, func(int) []*reg { return t.planes(at, plane) }, t.overResult, func(x *reg) {
			x = add(t.function, x, bias)
			below := t.make("fcmgt v%d.4s, v%d.4s, v%d.4s", floor, x) // not NaN, nor a zero
			t.op("VBIT V%d.B16, V%d.B16, V%d.B16", below, floor, x)
			places = append(places, x)
		})
		for i, to := range rows {
			left, right := places[i], places[2+i]
			storeVectors(t.function, []*reg{t.known("VZIP1", "S4", left, right), t.known("VZIP2", "S4", left, right)}, to, 0)
			increment(t.function, to, 32)
		}
	})
	return t.function
}
