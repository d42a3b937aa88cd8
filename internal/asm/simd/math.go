package simd

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
)

// The polynomials are weighted minimax fits, computed with Lawson's iteration in 40 digits and
// rounded to float32.

// expQ(r) is (exp(r)-1-r)/r² for |r| ≤ ln2/2, with a relative error of exp(r) of 3.1e-9.
var expQ = []float64{0.4999999403953552, 0.1666652113199234, 0.04166838899254799, 0.0083687175065279, 0.0013814596459269524}

// millsP((t-4)/(t+4))/(t+4) is Φ(-t)/exp(-t²/2) for 0 ≤ t ≤ 14.5, with a relative error of
// 8.6e-9. The change of variable is that of Shepherd and Laframboise, Mathematics of
// Computation 36, 1981.
var millsP = []float64{0.7552851438522339, -0.6078965663909912, 0.38713690638542175, -0.1865234375,
	0.06040383130311966, -0.00752527080476284, -0.0035125527065247297, 0.0015699233626946807,
	0.00017935229698196054, -0.00013197283260524273}

// reduceExp writes x as n·ln2 + r with |r| ≤ ln2/2, and returns n as integers and exp(r)-1.
func reduceExp(g *generator, x vec) (n, expm1 vec) {
	const high = 0.693145751953125 // n·high is exact for |n| < 2⁸
	whole := g.mul(x, g.num(math.Log2E))
	if g.lanes == 16 {
		g.VRNDSCALEPS(U8(0), whole, whole)
	} else {
		g.VROUNDPS(U8(0), whole, whole)
	}
	r := g.copyOf(x)
	g.VFNMADD231PS(g.num(high), whole, r)
	g.VFNMADD231PS(g.num(math.Ln2-high), whole, r)
	n = g.vector()
	g.VCVTPS2DQ(whole, n)
	q := polynomial(g, r, expQ...)
	return n, g.fma(g.mul(r, r), q, r)
}

// powerOfTwo returns 2ⁿ for -126 ≤ n ≤ 127.
func powerOfTwo(g *generator, n vec) vec {
	z := g.vector()
	g.VPADDD(g.bits(127), n, z)
	g.VPSLLD(U8(23), z, z)
	return z
}

// exp returns eˣ. It overflows to Inf above 88.72. It passes through the subnormal numbers and
// is 0 below -103.97.
func exp(g *generator, x vec) vec {
	x = g.min(g.copyOf(g.num(89)), x)
	x = g.max(g.copyOf(g.num(-105)), x)
	n, expm1 := reduceExp(g, x)
	half, rest := g.vector(), g.vector()
	g.VPSRAD(U8(1), n, half)
	g.VPSUBD(half, n, rest)
	return g.mul(g.mul(g.add(expm1, g.num(1)), powerOfTwo(g, half)), powerOfTwo(g, rest))
}

func abs(g *generator, x vec) vec  { return g.and(x, g.bits(1<<31-1)) }
func sign(g *generator, x vec) vec { return g.and(x, g.bits(1<<31)) }

// sigmoid returns 1/(1+z) for positive x and z/(1+z) for negative x, where z = exp(-|x|).
func sigmoid(g *generator, x vec) vec {
	z := exp(g, g.or(x, g.bits(1<<31)))
	d := g.div(g.copyOf(g.num(1)), g.add(z, g.num(1)))
	return selectBySign(g, x, g.mul(z, d), d)
}

// tanh returns -e/(2+e) with the sign of x, where e = exp(-2|x|)-1.
func tanh(g *generator, x vec) vec {
	y := g.max(g.copyOf(g.num(-30)), g.mul(abs(g, x), g.num(-2)))
	n, expm1 := reduceExp(g, y)
	s := powerOfTwo(g, n)
	e := g.fma(s, expm1, g.sub(s, g.num(1)))
	t := g.div(e, g.add(e, g.num(2)))
	return g.or(abs(g, t), sign(g, x))
}

// normalTail returns t = min(|x|, 14.5), exp(-t²/2) and Φ(-t). Rounding t² alone would cost
// the exponential t²/2 units in the last place, so the rounding error of t² is added back.
func normalTail(g *generator, x vec) (t, density, tail vec) {
	t = g.min(g.copyOf(g.num(14.5)), abs(g, x))
	square := g.mul(t, t)
	lost := g.copyOf(t)
	g.VFMSUB213PS(square, t, lost)
	e := exp(g, g.mul(square, g.num(-0.5)))
	density = g.fnma(g.mul(e, g.num(0.5)), lost, e)
	inverse := g.div(g.copyOf(g.num(1)), g.add(t, g.num(4)))
	q := g.mul(g.sub(t, g.num(4)), inverse)
	tail = g.mul(density, g.mul(polynomial(g, q, millsP...), inverse))
	return t, density, tail
}

// gelu returns x·Φ(x).
func gelu(g *generator, x vec) vec {
	t, _, tail := normalTail(g, x)
	negative := g.or(g.mul(t, tail), g.bits(1<<31))
	return selectBySign(g, x, negative, g.mul(x, g.sub(g.copyOf(g.num(1)), tail)))
}

// geluGrad returns Φ(x) + x·φ(x).
func geluGrad(g *generator, x vec) vec {
	t, density, tail := normalTail(g, x)
	slope := g.mul(t, g.mul(density, g.num(1/math.Sqrt(2*math.Pi))))
	return selectBySign(g, x, g.sub(tail, slope), g.add(g.sub(g.copyOf(g.num(1)), tail), slope))
}
