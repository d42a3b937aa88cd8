package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func winogradFile(g *generator) {
	g.winogradFilters()
	g.winogradImage()
	g.winogradSignal()
	g.winogradResult()
	g.winogradGradients()
}

// spreadParam copies a parameter to every lane.
func (g *generator) spreadParam(name string) vec {
	x := g.YMM()
	m, err := g.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	g.VBROADCASTSS(m.Addr, x)
	return x
}

// lanes4 transposes the 4×4 floats of each half of four vectors.
func (g *generator) lanes4(q [4]vec) (out [4]vec) {
	t := [4]vec{g.YMM(), g.YMM(), g.YMM(), g.YMM()}
	g.VUNPCKLPS(q[1], q[0], t[0])
	g.VUNPCKHPS(q[1], q[0], t[1])
	g.VUNPCKLPS(q[3], q[2], t[2])
	g.VUNPCKHPS(q[3], q[2], t[3])
	for i := range out {
		out[i] = g.YMM()
		g.VSHUFPS(U8([]int{0x44, 0xee}[i%2]), t[2+i/2], t[i/2], out[i])
	}
	return out
}

// planes walks over the 16 planes from dst on, storing one vector in each.
func (g *generator) planes(dst, plane reg.Register) func(x vec) {
	to := g.GP64()
	g.MOVQ(dst, to)
	return func(x vec) {
		g.VMOVUPS(x, Mem{Base: to})
		g.ADDQ(plane, to)
	}
}

// each runs body once a vector.
func (g *generator) each(count reg.Register, body func()) {
	loop := g.label("loop")
	g.Label(loop)
	body()
	g.DECQ(count)
	g.JNE(LabelRef(loop))
	g.VZEROUPPER()
	g.RET()
}

const filterBytes = 9 * 4

// winogradFilters transforms eight filters at a time.
func (g *generator) winogradFilters() {
	g.fn("winogradFiltersAVX2", "func(dst *float32, plane int, filters *float32, vectors int)")
	dst := g.Load(g.Param("dst"), g.GP64())
	plane := g.Load(g.Param("plane"), g.GP64())
	filters := g.Load(g.Param("filters"), g.GP64())
	vectors := g.Load(g.Param("vectors"), g.GP64())
	g.SHLQ(U8(2), plane)
	half := g.num(0.5)
	g.each(vectors, func() {
		var f [9]vec
		for h := range 2 {
			var q [4]vec
			for i := range q {
				q[i] = g.YMM()
				m := Mem{Base: filters, Disp: i*filterBytes + 16*h}
				g.VBROADCASTF128(m, q[i])
				m.Disp += 4 * filterBytes
				g.VINSERTF128(U8(1), m, q[i], q[i])
			}
			q = g.lanes4(q)
			copy(f[4*h:], q[:])
		}
		f[8] = g.YMM()
		all, nines := g.YMM(), g.YMM()
		g.VPCMPEQD(all, all, all)
		g.VMOVUPS(g.words("nines", 8, func(i int) uint32 { return uint32(9 * i) }), nines)
		g.VGATHERDPS(all, Mem{Base: filters, Disp: 32, Index: nines, Scale: 4}, f[8])
		g.ADDQ(I32(8*filterBytes), filters)
		store := g.planes(dst, plane)
		g.ADDQ(U8(32), dst)
		across := func(r [3]vec) {
			ends := g.add(r[0], r[2])
			store(r[0])
			store(g.mul(g.add(ends, r[1]), half))
			store(g.mul(g.sub(ends, r[1]), half))
			store(r[2])
		}
		across([3]vec{f[0], f[1], f[2]})
		for _, combine := range []func(x vec, y Op) vec{g.add, g.sub} {
			var r [3]vec
			for j := range r {
				r[j] = g.mul(combine(g.add(f[j], f[6+j]), f[3+j]), half)
			}
			across(r)
		}
		across([3]vec{f[6], f[7], f[8]})
	})
}

// winogradSignal transforms a row of tiles of two rows each, eight tiles at a
// time, the adjoint of winogradResult.
func (g *generator) winogradSignal() {
	g.fn("winogradSignalAVX2", "func(dst *float32, plane int, rows *float32, ld, vectors int)")
	dst := g.Load(g.Param("dst"), g.GP64())
	plane := g.Load(g.Param("plane"), g.GP64())
	rows := g.Load(g.Param("rows"), g.GP64())
	ld := g.Load(g.Param("ld"), g.GP64())
	vectors := g.Load(g.Param("vectors"), g.GP64())
	g.SHLQ(U8(2), plane)
	g.SHLQ(U8(2), ld)
	zero := g.zero()
	g.each(vectors, func() {
		store := g.planes(dst, plane)
		g.ADDQ(U8(32), dst)
		var d [2][2]vec
		for r := range d {
			at := Mem{Base: rows}
			if r == 1 {
				at.Index, at.Scale = ld, 1
			}
			low, high := g.YMM(), g.YMM()
			g.VMOVUPS(at, low)
			at.Disp = 32
			g.VMOVUPS(at, high)
			for j, choice := range []int{0x88, 0xdd} {
				d[r][j] = g.YMM()
				g.VSHUFPS(U8(choice), high, low, d[r][j])
				g.VPERMPD(U8(0xd8), d[r][j], d[r][j])
			}
		}
		g.ADDQ(U8(64), rows)
		across := func(r [2]vec) {
			store(r[0])
			store(g.add(r[0], r[1]))
			store(g.sub(r[0], r[1]))
			store(g.sub(zero, r[1]))
		}
		across(d[0])
		across([2]vec{g.add(d[0][0], d[1][0]), g.add(d[0][1], d[1][1])})
		across([2]vec{g.sub(d[0][0], d[1][0]), g.sub(d[0][1], d[1][1])})
		across([2]vec{g.sub(zero, d[1][0]), g.sub(zero, d[1][1])})
	})
}

// winogradGradients is the adjoint of winogradFilters.
func (g *generator) winogradGradients() {
	g.fn("winogradGradientsAVX2", "func(filters, src *float32, plane, vectors int)")
	filters := g.Load(g.Param("filters"), g.GP64())
	src := g.Load(g.Param("src"), g.GP64())
	plane := g.Load(g.Param("plane"), g.GP64())
	vectors := g.Load(g.Param("vectors"), g.GP64())
	g.SHLQ(U8(2), plane)
	half := g.num(0.5)
	g.each(vectors, func() {
		row := [4]reg.GPVirtual{g.GP64(), g.GP64(), g.GP64(), g.GP64()}
		g.MOVQ(src, row[0])
		for i := 1; i < 4; i++ {
			g.LEAQ(Mem{Base: row[i-1], Index: plane, Scale: 4}, row[i])
		}
		g.ADDQ(U8(32), src)
		// across folds the numbers of a row: a + (b+c)/2, (b-c)/2, (b+c)/2 + d.
		across := func(i int) [3]vec {
			s := [4]vec{g.YMM(), g.YMM(), g.YMM(), g.YMM()}
			for j, x := range s {
				g.VMOVUPS(Mem{Base: row[i]}, x)
				if j < 3 {
					g.ADDQ(plane, row[i])
				}
			}
			sum := g.mul(g.add(s[1], s[2]), half)
			return [3]vec{g.add(s[0], sum), g.mul(g.sub(s[1], s[2]), half), g.add(sum, s[3])}
		}
		second, third := across(1), across(2)
		var f [9]vec
		var sum [3]vec
		for j := range sum {
			sum[j] = g.mul(g.add(second[j], third[j]), half)
			f[3+j] = g.mul(g.sub(second[j], third[j]), half)
		}
		for j, x := range across(0) {
			f[j] = g.add(x, sum[j])
		}
		for j, x := range across(3) {
			f[6+j] = g.add(sum[j], x)
		}
		for h := range 2 {
			q := g.lanes4([4]vec{f[4*h], f[4*h+1], f[4*h+2], f[4*h+3]})
			for i, x := range q {
				m := Mem{Base: filters, Disp: i*filterBytes + 16*h}
				g.VMOVUPS(x.AsX(), m)
				m.Disp += 4 * filterBytes
				g.VEXTRACTF128(U8(1), x, m)
			}
		}
		upper := g.XMM()
		g.VEXTRACTF128(U8(1), f[8], upper)
		for i := range 4 {
			g.VEXTRACTPS(U8(i), f[8].AsX(), Mem{Base: filters, Disp: i*filterBytes + 32})
			g.VEXTRACTPS(U8(i), upper, Mem{Base: filters, Disp: (i+4)*filterBytes + 32})
		}
		g.ADDQ(I32(8*filterBytes), filters)
	})
}

// winogradImage transforms a row of tiles, eight at a time: four rows of a
// picture become 16 planes. Lanes are in the order 0 1 4 5 2 3 6 7 that VSHUFPS
// leaves, until they are stored.
func (g *generator) winogradImage() {
	g.fn("winogradImageAVX2", "func(dst *float32, plane int, rows *float32, ld, vectors int)")
	dst := g.Load(g.Param("dst"), g.GP64())
	plane := g.Load(g.Param("plane"), g.GP64())
	rows := g.Load(g.Param("rows"), g.GP64())
	ld := g.Load(g.Param("ld"), g.GP64())
	vectors := g.Load(g.Param("vectors"), g.GP64())
	g.SHLQ(U8(2), plane)
	g.SHLQ(U8(2), ld)
	ld3 := g.GP64()
	g.LEAQ(Mem{Base: ld, Index: ld, Scale: 2}, ld3)
	g.each(vectors, func() {
		// across gives the four columns of row r, combined.
		across := func(r int) [4]vec {
			at := Mem{Base: rows}
			switch r {
			case 1, 2:
				at.Index, at.Scale = ld, uint8(r)
			case 3:
				at.Index, at.Scale = ld3, 1
			}
			pick := func(disp int) (even, odd vec) {
				low, high := g.YMM(), g.YMM()
				at.Disp = disp
				g.VMOVUPS(at, low)
				at.Disp += 32
				g.VMOVUPS(at, high)
				even, odd = g.YMM(), g.YMM()
				g.VSHUFPS(U8(0x88), high, low, even)
				g.VSHUFPS(U8(0xdd), high, low, odd)
				return even, odd
			}
			d0, d1 := pick(0)
			d2, d3 := pick(8)
			return [4]vec{g.sub(d0, d2), g.add(d1, d2), g.sub(d2, d1), g.sub(d1, d3)}
		}
		next := g.planes(dst, plane)
		store := func(x vec) {
			y := g.YMM()
			g.VPERMPD(U8(0xd8), x, y)
			next(y)
		}
		third := across(2)
		first := across(0)
		for i := range first {
			store(g.sub(first[i], third[i]))
		}
		second := across(1)
		for i := range second {
			store(g.add(second[i], third[i]))
		}
		for i := range second {
			store(g.sub(third[i], second[i]))
		}
		fourth := across(3)
		for i := range second {
			store(g.sub(second[i], fourth[i]))
		}
		g.ADDQ(U8(64), rows)
		g.ADDQ(U8(32), dst)
	})
}

// winogradResult turns 16 planes into a row of tiles: two rows of the result.
func (g *generator) winogradResult() {
	g.fn("winogradResultAVX2", "func(top, bottom, src *float32, plane, vectors int, bias, floor float32)")
	rows := [2]reg.Register{g.Load(g.Param("top"), g.GP64()), g.Load(g.Param("bottom"), g.GP64())}
	src := g.Load(g.Param("src"), g.GP64())
	plane := g.Load(g.Param("plane"), g.GP64())
	vectors := g.Load(g.Param("vectors"), g.GP64())
	g.SHLQ(U8(2), plane)
	bias, floor := g.spreadParam("bias"), g.spreadParam("floor")
	plane3 := g.GP64()
	g.LEAQ(Mem{Base: plane, Index: plane, Scale: 2}, plane3)
	g.each(vectors, func() {
		quarters := [4]reg.GPVirtual{g.GP64(), g.GP64(), g.GP64(), g.GP64()}
		g.MOVQ(src, quarters[0])
		for i := 1; i < 4; i++ {
			g.LEAQ(Mem{Base: quarters[i-1], Index: plane, Scale: 4}, quarters[i])
		}
		at := func(i, j int) Mem {
			m := Mem{Base: quarters[i]}
			switch j {
			case 1, 2:
				m.Index, m.Scale = plane, uint8(j)
			case 3:
				m.Index, m.Scale = plane3, 1
			}
			return m
		}
		var down [2][4]vec
		for j := range 4 {
			one, two := g.YMM(), g.YMM()
			g.VMOVUPS(at(1, j), one)
			g.VMOVUPS(at(2, j), two)
			top := g.add(one, at(0, j))
			down[0][j] = g.add(top, two)
			down[1][j] = g.sub(g.sub(one, two), at(3, j))
		}
		for r, s := range down {
			left := g.max(floor, g.add(g.add(g.add(s[0], s[1]), s[2]), bias))
			right := g.max(floor, g.add(g.sub(g.sub(s[1], s[2]), s[3]), bias))
			low, high, x := g.YMM(), g.YMM(), g.YMM()
			g.VUNPCKLPS(right, left, low)
			g.VUNPCKHPS(right, left, high)
			g.VPERM2F128(U8(0x20), high, low, x)
			g.VMOVUPS(x, Mem{Base: rows[r]})
			g.VPERM2F128(U8(0x31), high, low, x)
			g.VMOVUPS(x, Mem{Base: rows[r], Disp: 32})
			g.ADDQ(U8(64), rows[r])
		}
		g.ADDQ(U8(32), src)
	})
}
