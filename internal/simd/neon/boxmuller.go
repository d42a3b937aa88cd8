package main

// boxMuller is boxMullersGeneric of package noise, where the steps and the
// constants are explained. No multiplication is fused with an addition.
func boxMuller() []*function {
	f := newFunction("boxMullersNEON", "func(dst *[512]float32, words *[768]uint32)")
	dst, words, n, halves := f.load("dst"), f.load("words"), f.gp(), f.gp()
	f.op("MOVD $16, R%d", n)
	f.repeat(n, func() {
		f.op("MOVD $2, R%d", halves)
		f.repeat(halves, func() {
			hi, lo, angle := f.vectorsAt(words, 0, 2), f.vectorsAt(words, groupBytes, 2), f.vectorsAt(words, 2*groupBytes, 2)
			x, y := make([]*reg, 2), make([]*reg, 2)
			normals := func(i int) func() {
				return func() { x[i], y[i] = f.normals(hi[i], lo[i], angle[i]) }
			}
			f.together(normals(0), normals(1))
			f.storeAll(x, dst, 0)
			f.storeAll(y, dst, 4*blockLanes)
			f.addTo(words, 32)
			f.addTo(dst, 32)
		})
		f.addTo(dst, 4*blockLanes)
	})
	f.ret()
	return []*function{f}
}

// horner evaluates a polynomial, highest coefficient first, rounding each step.
func (f *function) horner(z *reg, c ...float64) *reg {
	p := f.times(z, f.part(c[0]))
	for i, k := range c[1:] {
		if i > 0 {
			p = f.mul(p, z)
		}
		p = f.add(p, f.read(k))
	}
	return p
}

// normals follows BoxMuller step by step.
func (f *function) normals(hi, lo, angle *reg) (x, y *reg) {
	const sqrtHalf = 0x3f3504f3
	top := f.times(f.float(f.right(hi, 8)), f.part(0x1p-24))
	middle := f.and(f.or(f.left(hi, 16), f.right(lo, 16)), f.bits(0xffffff))
	mid := f.times(f.float(middle), f.part(0x1p-48))
	low := f.times(f.add(f.float(f.and(lo, f.bits(0xffff))), f.num(0.5)), f.part(0x1p-64))

	tail := f.add(mid, low)
	v := f.add(top, tail)
	rest := f.sub(tail, f.sub(v, top))

	b := f.minus(v, f.bits(sqrtHalf))
	e := f.vec()
	f.shiftRight(e, b, 23)
	m := f.plus(f.and(b, f.bits(0x7fffff)), f.bits(sqrtHalf))
	scale := f.minus(f.num(1), f.and(b, f.bits(0xff800000)))
	fraction := f.add(f.sub(m, f.num(1)), f.mul(rest, scale))

	p := f.horner(fraction, 0x1.38b590p-3, -0x1.055b6cp-2, 0x1.0d8540p-2, -0x1.22da1cp-2, 0x1.547244p-2,
		-0x1.99a008p-2, 0x1.000226p-1, -0x1.555554p-1, 1, -2)
	square := f.add(f.times(f.float(e), f.part(-0x1.62e430p+0)), f.mul(fraction, p))
	r := f.make("fsqrt v%d.4s, v%d.4s", square)

	shifted := f.left(angle, 1)
	w := f.times(f.float(f.or(f.and(shifted, f.bits(0x3ffffffe)), f.bits(1))), f.part(0x1p-30))
	z := f.mul(w, w)
	sin := f.mul(w, f.horner(z, -0x1.2d9302p-15, 0x1.465e92p-9, -0x1.4abbbap-4, 0x1.921fb6p-1))
	cos := f.horner(z, 0x1.d9d57ep-19, -0x1.55c5e0p-12, 0x1.03c1dep-6, -0x1.3bd3ccp-2, 1)

	swap := f.sign(f.left(angle, 2))
	x = f.mul(r, f.choose(f.copyOf(swap), sin, cos))
	y = f.mul(r, f.choose(swap, cos, sin))
	sign := f.bits(1 << 31)
	return f.xor(x, f.and(angle, sign)), f.xor(y, f.and(shifted, sign))
}
