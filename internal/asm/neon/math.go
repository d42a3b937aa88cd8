package neon

import "math"

// The functions of ../avo/math.go, with the same polynomials and the same roundings.

// expQ(r) is (exp(r)-1-r)/r² for |r| ≤ ln2/2.
var expQ = []float64{0.4999999403953552, 0.1666652113199234, 0.04166838899254799, 0.0083687175065279, 0.0013814596459269524}

// millsP((t-4)/(t+4))/(t+4) is Φ(-t)/exp(-t²/2) for 0 ≤ t ≤ 14.5.
var millsP = []float64{0.7552851438522339, -0.6078965663909912, 0.38713690638542175, -0.1865234375,
	0.06040383130311966, -0.00752527080476284, -0.0035125527065247297, 0.0015699233626946807,
	0.00017935229698196054, -0.00013197283260524273}

// reduceExp writes x as n·ln2 + r with |r| ≤ ln2/2, and returns n as integers and exp(r)-1.
func reduceExp(f *function, x *reg) (n, expm1 *reg) {
	const high = 0.693145751953125 // n·high is exact for |n| < 2⁸
	whole := roundToInt(f, mulLane(f, x, f.numLane(math.Log2E)))
	r := copyOf(f, x)
	f.byLane("fmls", r, whole, f.numLane(high))
	f.byLane("fmls", r, whole, f.numLane(math.Ln2-high))
	n = f.make("fcvtns v%d.4s, v%d.4s", whole)
	q := polynomial(f, r, expQ...)
	square := mul(f, r, r)
	fma(f, r, square, q)
	return n, r
}

// powerOfTwo returns 2ⁿ for -126 ≤ n ≤ 127.
func powerOfTwo(f *function, n *reg) *reg { return shiftLeft(f, addInts(f, n, f.bits(127)), 23) }

// exp returns eˣ. It overflows to Inf above 88.72. It passes through the subnormal numbers and
// is 0 below -103.97.
func exp(f *function, x *reg) *reg {
	x = fmax(f, f.num(-105), fmin(f, f.num(89), x))
	n, expm1 := reduceExp(f, x)
	half := f.vec()
	shiftRightSigned(f, half, n, 1)
	rest := subInts(f, n, half)
	return mul(f, mul(f, add(f, expm1, f.num(1)), powerOfTwo(f, half)), powerOfTwo(f, rest))
}

// sigmoid returns 1/(1+z) for positive x and z/(1+z) for negative x, where z = exp(-|x|).
func sigmoid(f *function, x *reg) *reg {
	z := exp(f, or(f, x, f.bits(1<<31)))
	d := div(f, f.num(1), add(f, z, f.num(1)))
	return selectBits(f, signMask(f, x), mul(f, z, d), d)
}

// tanh returns -e/(2+e) with the sign of x, where e = exp(-2|x|)-1.
func tanh(f *function, x *reg) *reg {
	y := fmax(f, f.num(-30), mulLane(f, abs(f, x), f.numLane(-2)))
	n, expm1 := reduceExp(f, y)
	s := powerOfTwo(f, n)
	e := sub(f, s, f.num(1))
	fma(f, e, s, expm1)
	return copySign(f, div(f, e, add(f, e, f.num(2))), x)
}

// normalTail returns t = min(|x|, 14.5), exp(-t²/2) and Φ(-t). Rounding t² alone would cost
// the exponential t²/2 units in the last place, so the rounding error of t² is added back.
func normalTail(f *function, x *reg) (t, density, tail *reg) {
	t = fmin(f, f.num(14.5), abs(f, x))
	square := mul(f, t, t)
	density = exp(f, mulLane(f, square, f.numLane(-0.5)))
	roundingError := square
	f.op("VFMLS V%d.S4, V%d.S4, V%d.S4", t, t, roundingError)
	half := mulLane(f, density, f.numLane(0.5))
	fma(f, density, half, roundingError)
	inverse := div(f, f.num(1), add(f, t, f.num(4)))
	q := mul(f, sub(f, t, f.num(4)), inverse)
	tail = mul(f, density, mul(f, polynomial(f, q, millsP...), inverse))
	return t, density, tail
}

// gelu returns x·Φ(x).
func gelu(f *function, x *reg) *reg {
	t, _, tail := normalTail(f, x)
	below := or(f, mul(f, t, tail), f.bits(1<<31))
	above := mul(f, x, sub(f, f.num(1), tail))
	return selectBits(f, signMask(f, x), below, above)
}

// geluGrad returns Φ(x) + x·φ(x).
func geluGrad(f *function, x *reg) *reg {
	t, density, tail := normalTail(f, x)
	slope := mul(f, t, mulLane(f, density, f.numLane(1/math.Sqrt(2*math.Pi))))
	below := sub(f, tail, slope)
	above := add(f, sub(f, f.num(1), tail), slope)
	return selectBits(f, signMask(f, x), below, above)
}
