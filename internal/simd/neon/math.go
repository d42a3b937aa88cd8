package main

import "math"

// The functions of ../avo/math.go, step by step: the same polynomials, the same
// roundings.

// expQ(r) is (exp(r)-1-r)/r², |r| ≤ ln2/2.
var expQ = []float64{0.4999999403953552, 0.1666652113199234, 0.04166838899254799, 0.0083687175065279, 0.0013814596459269524}

// millsP((t-4)/(t+4))/(t+4) is Φ(-t)/exp(-t²/2), 0 ≤ t ≤ 14.5.
var millsP = []float64{0.7552851438522339, -0.6078965663909912, 0.38713690638542175, -0.1865234375, 0.06040383130311966, -0.00752527080476284, -0.0035125527065247297, 0.0015699233626946807, 0.00017935229698196054, -0.00013197283260524273}

// reduce writes x as n·ln2 + r, |r| ≤ ln2/2, and returns n as integers and
// exp(r)-1.
func (f *function) reduce(x *reg) (n, expm1 *reg) {
	const high = 0.693145751953125 // n·high is exact for |n| < 2⁸
	whole := f.nearest(f.times(x, f.part(math.Log2E)))
	r := f.copyOf(x)
	f.byLane("fmls", r, whole, f.part(high))
	f.byLane("fmls", r, whole, f.part(math.Ln2-high))
	n = f.make("fcvtns v%d.4s, v%d.4s", whole)
	q := f.polynomial(r, expQ...)
	square := f.mul(r, r)
	f.fma(r, square, q)
	return n, r
}

// power is 2ⁿ, -126 ≤ n ≤ 127.
func (f *function) power(n *reg) *reg { return f.left(f.plus(n, f.bits(127)), 23) }

// exp overflows to Inf above 88.72 and reaches 0 below -103.97 through the
// subnormal numbers.
func (f *function) exp(x *reg) *reg {
	x = f.max(f.num(-105), f.min(f.num(89), x))
	n, expm1 := f.reduce(x)
	half := f.vec()
	f.shiftRight(half, n, 1)
	rest := f.minus(n, half)
	return f.mul(f.mul(f.add(expm1, f.num(1)), f.power(half)), f.power(rest))
}

// sigmoid is 1/(1+z) above zero and z/(1+z) below, z = exp(-|x|).
func (f *function) sigmoid(x *reg) *reg {
	z := f.exp(f.or(x, f.bits(1<<31)))
	d := f.div(f.num(1), f.add(z, f.num(1)))
	return f.choose(f.sign(x), f.mul(z, d), d)
}

// tanh is -e/(2+e) with the sign of x, e = exp(-2|x|)-1.
func (f *function) tanh(x *reg) *reg {
	y := f.max(f.num(-30), f.times(f.abs(x), f.part(-2)))
	n, expm1 := f.reduce(y)
	s := f.power(n)
	e := f.sub(s, f.num(1))
	f.fma(e, s, expm1)
	return f.withSign(f.div(e, f.add(e, f.num(2))), x)
}

// normal returns t = min(|x|, 14.5), exp(-t²/2) and Φ(-t). Rounding t² would
// cost the exponential t²/2 units of the last place, so what is lost is kept.
func (f *function) normal(x *reg) (t, density, tail *reg) {
	t = f.min(f.num(14.5), f.abs(x))
	square := f.mul(t, t)
	density = f.exp(f.times(square, f.part(-0.5)))
	gained := square
	f.op("VFMLS V%d.S4, V%d.S4, V%d.S4", t, t, gained)
	half := f.times(density, f.part(0.5))
	f.fma(density, half, gained)
	inverse := f.div(f.num(1), f.add(t, f.num(4)))
	q := f.mul(f.sub(t, f.num(4)), inverse)
	tail = f.mul(density, f.mul(f.polynomial(q, millsP...), inverse))
	return t, density, tail
}

// gelu is x·Φ(x).
func (f *function) gelu(x *reg) *reg {
	t, _, tail := f.normal(x)
	below := f.or(f.mul(t, tail), f.bits(1<<31))
	above := f.mul(x, f.sub(f.num(1), tail))
	return f.choose(f.sign(x), below, above)
}

// geluGrad is Φ(x) + x·φ(x).
func (f *function) geluGrad(x *reg) *reg {
	t, density, tail := f.normal(x)
	slope := f.mul(t, f.times(density, f.part(1/math.Sqrt(2*math.Pi))))
	below := f.sub(tail, slope)
	above := f.add(f.sub(f.num(1), tail), slope)
	return f.choose(f.sign(x), below, above)
}
