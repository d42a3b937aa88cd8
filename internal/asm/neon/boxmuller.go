package neon

// boxMuller emits the NEON form of package noise's Box-Muller transform, where the steps and
// the constants are explained. No multiplication is fused with an addition.
func boxMuller() []*function {
	f := newFunction("boxMullersNEON", "func(dst *[512]float32, words *[768]uint32)")
	dst, words, n, halves := f.load("dst"), f.load("words"), f.gp(), f.gp()
	f.op("MOVD $16, R%d", n)
	repeat(f, n, func() {
		f.op("MOVD $2, R%d", halves)
		repeat(f, halves, func() {
			hi, lo, angle := loadVectors(f, words, 0, 2), loadVectors(f, words, groupBytes, 2), loadVectors(f, words, 2*groupBytes, 2)
			x, y := make([]*reg, 2), make([]*reg, 2)
			normals := func(i int) func() {
				return func() { x[i], y[i] = boxMullerPair(f, hi[i], lo[i], angle[i]) }
			}
			f.interleave(normals(0), normals(1))
			storeVectors(f, x, dst, 0)
			storeVectors(f, y, dst, 4*blockLanes)
			increment(f, words, 32)
			increment(f, dst, 32)
		})
		increment(f, dst, 4*blockLanes)
	})
	f.ret()
	return []*function{f}
}

// horner evaluates a polynomial, highest coefficient first. It rounds each step.
func horner(f *function, z *reg, c ...float64) *reg {
	p := mulLane(f, z, f.numLane(c[0]))
	for i, k := range c[1:] {
		if i > 0 {
			p = mul(f, p, z)
		}
		p = add(f, p, f.loadNum(k))
	}
	return p
}

// boxMullerPair follows BoxMuller of package noise step by step.
func boxMullerPair(f *function, hi, lo, angle *reg) (x, y *reg) {
	const sqrtHalf = 0x3f3504f3
	top := mulLane(f, toFloat(f, shiftRight(f, hi, 8)), f.numLane(0x1p-24))
	middle := and(f, or(f, shiftLeft(f, hi, 16), shiftRight(f, lo, 16)), f.bits(0xffffff))
	mid := mulLane(f, toFloat(f, middle), f.numLane(0x1p-48))
	low := mulLane(f, add(f, toFloat(f, and(f, lo, f.bits(0xffff))), f.num(0.5)), f.numLane(0x1p-64))

	tail := add(f, mid, low)
	v := add(f, top, tail)
	rest := sub(f, tail, sub(f, v, top))

	b := subInts(f, v, f.bits(sqrtHalf))
	e := f.vec()
	shiftRightSigned(f, e, b, 23)
	m := addInts(f, and(f, b, f.bits(0x7fffff)), f.bits(sqrtHalf))
	scale := subInts(f, f.num(1), and(f, b, f.bits(0xff800000)))
	fraction := add(f, sub(f, m, f.num(1)), mul(f, rest, scale))

	p := horner(f, fraction, 0x1.38b590p-3, -0x1.055b6cp-2, 0x1.0d8540p-2, -0x1.22da1cp-2, 0x1.547244p-2,
		-0x1.99a008p-2, 0x1.000226p-1, -0x1.555554p-1, 1, -2)
	square := add(f, mulLane(f, toFloat(f, e), f.numLane(-0x1.62e430p+0)), mul(f, fraction, p))
	r := f.make("fsqrt v%d.4s, v%d.4s", square)

	shifted := shiftLeft(f, angle, 1)
	w := mulLane(f, toFloat(f, or(f, and(f, shifted, f.bits(0x3ffffffe)), f.bits(1))), f.numLane(0x1p-30))
	z := mul(f, w, w)
	sin := mul(f, w, horner(f, z, -0x1.2d9302p-15, 0x1.465e92p-9, -0x1.4abbbap-4, 0x1.921fb6p-1))
	cos := horner(f, z, 0x1.d9d57ep-19, -0x1.55c5e0p-12, 0x1.03c1dep-6, -0x1.3bd3ccp-2, 1)

	swap := signMask(f, shiftLeft(f, angle, 2))
	x = mul(f, r, selectBits(f, copyOf(f, swap), sin, cos))
	y = mul(f, r, selectBits(f, swap, cos, sin))
	sign := f.bits(1 << 31)
	return xor(f, x, and(f, angle, sign)), xor(f, y, and(f, shifted, sign))
}
