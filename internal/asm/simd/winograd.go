package simd

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// winograd emits the transforms for one size of filter. Each is a linear map, applied to every
// row and then to every column of the result, which is on the stack in between. A vector is
// eight tiles or filters.
type winograd struct {
	*generator
	taps, points int
}

func winogradFile(g *generator) {
	for _, taps := range []int{3, 5} {
		w := winograd{g, taps, taps + 1}
		w.filters()
		w.image()
		w.signal()
		w.result()
		w.gradients()
	}
}

// linear is a linear map of a row. It passes its results to out in order.
type linear func(in []vec, out func(x vec))

// times returns x·c, rounded.
func (w winograd) times(x vec, c float64) vec { return w.mul(x, w.num(c)) }

// overFilter, overImage, overSignal, overResult and overGradient are the maps with the same
// names in the tests of package simd.
func (w winograd) overFilter(f []vec, out func(x vec)) {
	if w.taps == 3 {
		ends := w.add(f[0], f[2])
		out(f[0])
		out(w.times(w.add(ends, f[1]), 0.5))
		out(w.times(w.sub(ends, f[1]), 0.5))
		out(f[2])
		return
	}
	out(f[0])
	even, odd := w.add(w.add(f[0], f[2]), f[4]), w.add(f[1], f[3])
	out(w.times(w.add(even, odd), 1./3))
	out(w.times(w.sub(odd, even), 1./3))
	odd = w.add(w.times(f[1], 0.5), w.times(f[3], 0.125))
	even = w.add(w.add(f[0], w.times(f[2], 0.25)), w.times(f[4], 0.0625))
	out(w.times(w.add(even, odd), -16./15))
	odd = w.add(w.times(f[1], 2), w.times(f[3], 8))
	even = w.add(w.add(f[0], w.times(f[2], 4)), w.times(f[4], 16))
	out(w.times(w.sub(even, odd), 1./15))
	out(f[4])
}

func (w winograd) overImage(d []vec, out func(x vec)) {
	if w.taps == 3 {
		out(w.sub(d[0], d[2]))
		out(w.add(d[1], d[2]))
		out(w.sub(d[2], d[1]))
		out(w.sub(d[1], d[3]))
		return
	}
	odd := w.sub(d[3], d[1])
	out(w.add(w.add(d[0], d[4]), w.sub(w.times(odd, 1.5), w.times(d[2], 2))))
	out(w.add(w.sub(d[4], d[1]), w.add(w.times(d[2], 0.5), w.times(d[3], 2.5))))
	out(w.add(w.add(d[4], d[1]), w.sub(w.times(d[3], 0.5), w.times(d[2], 2.5))))
	even := w.sub(d[4], d[2])
	out(w.add(even, w.times(odd, 2)))
	out(w.sub(even, w.times(odd, 0.5)))
	out(w.add(w.add(d[5], d[1]), w.sub(w.times(even, 1.5), w.times(d[3], 2))))
}

func (w winograd) overSignal(y []vec, out func(x vec)) {
	out(y[0])
	out(w.add(y[0], y[1]))
	out(w.sub(y[0], y[1]))
	if w.taps == 3 {
		out(w.sub(w.zero(), y[1]))
		return
	}
	out(w.add(y[0], w.times(y[1], 0.5)))
	out(w.sub(y[0], w.times(y[1], 2)))
	out(y[1])
}

func (w winograd) overResult(m []vec, out func(x vec)) {
	sum, difference := w.add(m[1], m[2]), w.sub(m[1], m[2])
	if w.taps == 3 {
		out(w.add(m[0], sum))
		out(w.sub(difference, m[3]))
		return
	}
	out(w.add(w.add(m[0], sum), w.add(m[3], m[4])))
	out(w.add(w.add(difference, m[5]), w.sub(w.times(m[3], 0.5), w.times(m[4], 2))))
}

func (w winograd) overGradient(s []vec, out func(x vec)) {
	if w.taps == 3 {
		sum := w.times(w.add(s[1], s[2]), 0.5)
		out(w.add(s[0], sum))
		out(w.times(w.sub(s[1], s[2]), 0.5))
		out(w.add(sum, s[3]))
		return
	}
	even, odd := w.times(w.sub(s[1], s[2]), 1./3), w.times(w.add(s[1], s[2]), 1./3)
	third, fourth := w.times(s[3], -16./15), w.times(s[4], 1./15)
	out(w.add(w.add(s[0], even), w.add(third, fourth)))
	out(w.add(odd, w.sub(w.times(third, 0.5), w.times(fourth, 2))))
	out(w.add(even, w.add(w.times(third, 0.25), w.times(fourth, 4))))
	out(w.add(odd, w.sub(w.times(third, 0.125), w.times(fourth, 8))))
	out(w.add(w.add(s[5], even), w.add(w.times(third, 0.0625), w.times(fourth, 16))))
}

// begin starts a function with memory for some vectors on its stack.
func (w winograd) begin(name, signature string, vectors int) reg.Register {
	name = fmt.Sprintf("winograd%s%dAVX2", name, w.taps)
	w.Function(name)
	w.Doc(name + " implements " + contract(name) + ".")
	w.SignatureExpr(signature)
	w.Pragma("noescape")
	stack := w.GP64()
	w.LEAQ(w.AllocLocal(32*vectors+32), stack)
	w.ADDQ(U8(31), stack)
	w.ANDQ(I8(-32), stack)
	return stack
}

// twice applies a map to rows and then to the columns. load returns a row; out receives the
// result column by column.
func (w winograd) twice(stack reg.Register, rows int, load func(i int) []vec, f linear, out func(x vec)) {
	width := 0
	for i := range rows {
		j := 0
		f(load(i), func(x vec) {
			w.VMOVAPS(x, Mem{Base: stack, Disp: 32 * (j*rows + i)})
			j++
		})
		width = j
	}
	for j := range width {
		column := make([]vec, rows)
		for i := range column {
			column[i] = w.load(Mem{Base: stack, Disp: 32 * (j*rows + i)})
		}
		f(column, out)
	}
}

// columns returns a function that stores the results of twice in planes: result j·points+i
// goes to plane i·points+j.
func (w winograd) columns(dst, plane reg.Register) func(x vec) {
	down, to := w.GP64(), w.GP64()
	w.IMUL3Q(I32(w.points), plane, down)
	column := w.GP64()
	w.MOVQ(dst, column)
	i := 0
	return func(x vec) {
		if i%w.points == 0 {
			w.MOVQ(column, to)
			w.ADDQ(plane, column)
		}
		w.VMOVUPS(x, Mem{Base: to})
		w.ADDQ(down, to)
		i++
	}
}

// each emits a loop that runs body once per vector.
func (w winograd) each(count reg.Register, body func()) {
	w.repeat("loop", count, body)
	w.leave()
}

// filters transforms eight filters of taps² contiguous floats each.
func (w winograd) filters() {
	size := w.taps * w.taps
	stack := w.begin("Filters", "func(dst *float32, plane int, filters *float32, vectors int)", size+w.taps*w.points)
	dst, plane, filters, vectors := w.param("dst"), w.param("plane"), w.param("filters"), w.param("vectors")
	w.SHLQ(U8(2), plane)
	w.each(vectors, func() {
		for first := 0; first+4 <= size; first += 4 {
			var q [4]vec
			for i := range q {
				q[i] = w.YMM()
				m := Mem{Base: filters, Disp: 4 * (i*size + first)}
				w.VBROADCASTF128(m, q[i])
				m.Disp += 16 * size
				w.VINSERTF128(U8(1), m, q[i], q[i])
			}
			for i, x := range transpose4x4(w.generator, q) {
				w.VMOVAPS(x, Mem{Base: stack, Disp: 32 * (first + i)})
			}
		}
		last, all := w.YMM(), w.YMM()
		w.VPCMPEQD(all, all, all)
		places := w.load(w.words(fmt.Sprintf("filters%d", size), 8, func(i int) uint32 { return uint32(size * i) }))
		w.VGATHERDPS(all, Mem{Base: filters, Disp: 4 * (size - 1), Index: places, Scale: 4}, last)
		w.VMOVAPS(last, Mem{Base: stack, Disp: 32 * (size - 1)})
		w.ADDQ(I32(32*size), filters)

		rest := w.GP64()
		w.LEAQ(Mem{Base: stack, Disp: 32 * size}, rest)
		w.twice(rest, w.taps, func(i int) []vec {
			row := make([]vec, w.taps)
			for j := range row {
				row[j] = w.load(Mem{Base: stack, Disp: 32 * (i*w.taps + j)})
			}
			return row
		}, w.overFilter, w.columns(dst, plane))
		w.ADDQ(U8(32), dst)
	})
}

// pairs loads 2·n elements of a row for each of eight tiles, which are two elements apart.
// Vector k contains element k of every tile, with the tiles in the order 0 1 4 5 2 3 6 7.
func (w winograd) pairs(row reg.Register, n int) []vec {
	var out []vec
	for k := range n {
		low, high := w.load(Mem{Base: row, Disp: 8 * k}), w.load(Mem{Base: row, Disp: 8*k + 32})
		for _, choice := range []uint64{0x88, 0xdd} {
			x := w.YMM()
			w.VSHUFPS(U8(choice), high, low, x)
			out = append(out, x)
		}
	}
	return out
}

// tiles emits a transform of rows of tiles, which are two elements apart.
func (w winograd) tiles(name string, rows int, f linear) {
	stack := w.begin(name, "func(dst *float32, plane int, rows *float32, ld, vectors int)", rows*w.points)
	dst, plane, from, ld, vectors := w.param("dst"), w.param("plane"), w.param("rows"), w.param("ld"), w.param("vectors")
	w.SHLQ(U8(2), plane)
	w.SHLQ(U8(2), ld)
	w.each(vectors, func() {
		row := w.GP64()
		w.MOVQ(from, row)
		store := w.columns(dst, plane)
		w.twice(stack, rows, func(i int) []vec {
			if i > 0 {
				w.ADDQ(ld, row)
			}
			return w.pairs(row, rows/2)
		}, f, func(x vec) {
			y := w.YMM()
			w.VPERMPD(U8(0xd8), x, y)
			store(y)
		})
		w.ADDQ(U8(64), from)
		w.ADDQ(U8(32), dst)
	})
}

func (w winograd) image()  { w.tiles("Image", w.points, w.overImage) }
func (w winograd) signal() { w.tiles("Signal", 2, w.overSignal) }

// planes loads the numbers of one row of the transform, one plane after the other.
func (w winograd) planes(at, plane reg.Register) []vec {
	row := make([]vec, w.points)
	for j := range row {
		row[j] = w.load(Mem{Base: at})
		w.ADDQ(plane, at)
	}
	return row
}

// result transforms planes into a row of tiles: two rows of the result.
func (w winograd) result() {
	stack := w.begin("Result", "func(top, bottom, src *float32, plane, vectors int, bias, floor float32)", 2*w.points)
	rows := [2]reg.Register{w.param("top"), w.param("bottom")}
	src, plane, vectors := w.param("src"), w.param("plane"), w.param("vectors")
	w.SHLQ(U8(2), plane)
	spread := func(name string) vec {
		m, err := w.Param(name).Resolve()
		if err != nil {
			panic(err)
		}
		x := w.YMM()
		w.VBROADCASTSS(m.Addr, x)
		return x
	}
	bias, floor := spread("bias"), spread("floor")
	w.each(vectors, func() {
		at := w.GP64()
		w.MOVQ(src, at)
		var places []vec // top left, bottom left, top right, bottom right
		w.twice(stack, w.points, func(int) []vec { return w.planes(at, plane) }, w.overResult, func(x vec) {
			places = append(places, w.max(floor, w.add(x, bias)))
		})
		for r, to := range rows {
			left, right := places[r], places[2+r]
			low, high, x := w.YMM(), w.YMM(), w.YMM()
			w.VUNPCKLPS(right, left, low)
			w.VUNPCKHPS(right, left, high)
			w.VPERM2F128(U8(0x20), high, low, x)
			w.VMOVUPS(x, Mem{Base: to})
			w.VPERM2F128(U8(0x31), high, low, x)
			w.VMOVUPS(x, Mem{Base: to, Disp: 32})
			w.ADDQ(U8(64), to)
		}
		w.ADDQ(U8(32), src)
	})
}

// gradients is the adjoint of filters.
func (w winograd) gradients() {
	size := w.taps * w.taps
	stack := w.begin("Gradients", "func(filters, src *float32, plane, vectors int)", size+w.taps*w.points)
	filters, src, plane, vectors := w.param("filters"), w.param("src"), w.param("plane"), w.param("vectors")
	w.SHLQ(U8(2), plane)
	w.each(vectors, func() {
		at, rest := w.GP64(), w.GP64()
		w.MOVQ(src, at)
		w.LEAQ(Mem{Base: stack, Disp: 32 * size}, rest)
		k := 0
		w.twice(rest, w.points, func(int) []vec { return w.planes(at, plane) }, w.overGradient, func(x vec) {
			w.VMOVAPS(x, Mem{Base: stack, Disp: 32 * (k%w.taps*w.taps + k/w.taps)})
			k++
		})
		for first := 0; first+4 <= size; first += 4 {
			var q [4]vec
			for i := range q {
				q[i] = w.load(Mem{Base: stack, Disp: 32 * (first + i)})
			}
			for i, x := range transpose4x4(w.generator, q) {
				m := Mem{Base: filters, Disp: 4 * (i*size + first)}
				w.VMOVUPS(x.AsX(), m)
				m.Disp += 16 * size
				w.VEXTRACTF128(U8(1), x, m)
			}
		}
		last, upper := w.load(Mem{Base: stack, Disp: 32 * (size - 1)}), w.XMM()
		w.VEXTRACTF128(U8(1), last, upper)
		for i := range 4 {
			w.VEXTRACTPS(U8(i), last.AsX(), Mem{Base: filters, Disp: 4 * (i*size + size - 1)})
			w.VEXTRACTPS(U8(i), upper, Mem{Base: filters, Disp: 4 * ((i+4)*size + size - 1)})
		}
		w.ADDQ(I32(32*size), filters)
		w.ADDQ(U8(32), src)
	})
}
