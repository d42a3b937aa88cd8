package random

import "math/big"

// exactCell returns round(rest + scale·Z) with as many digits of u and w as it takes. digits
// are at their start.
//
// A step has 64·n more digits than the first words. It computes Z at the middle of the known
// intervals of u and w, with 64·n + 256 bits, and a bound on the distance to the real Z: the
// unknown digits as in cell64, and 2^-(64n+128)·(1+r) for the roundings, of which there are
// fewer than 2^12 with a relative error of 2^-(64n+255), enlarged by at most 2^16 where square
// roots bring u close to 1.
func (r *rounding) exactCell(radius, angle uint32, second bool, digits *uniformBits, rest float64) int64 {
	p := newPair(radius, angle, second)
	u := new(big.Int).SetUint64(uint64(radius))
	w := big.NewInt(int64(int32(angle<<2) >> 2))
	for n := uint(1); ; n++ {
		appendDigits(u, digits.next())
		appendDigits(w, digits.next())
		if u.Sign() == 0 {
			continue // u can be 0
		}
		z, e := exactNormal(u, w, n, p.sine, p.negative)
		// y = rest + scale·z + 1/2, in the same precision.
		a := arithmetic{z.Prec()}
		scale := a.float(r.scale)
		y := a.add(a.mul(scale, z), a.float(rest))
		y = a.add(y, a.float(0.5))
		e = a.add(a.mul(scale, e), a.scale(a.add(a.float(1), a.abs(y)), -int(64*n+128)))
		low, high := floor(a.sub(y, e)), floor(a.add(y, e))
		if low.Cmp(high) == 0 {
			return low.Int64()
		}
	}
}

func appendDigits(x *big.Int, digits uint64) {
	x.Lsh(x, 64)
	x.Add(x, new(big.Int).SetUint64(digits))
}

func floor(x *big.Float) *big.Int {
	i, accuracy := x.Int(nil) // towards zero
	if x.Sign() < 0 && accuracy != big.Exact {
		i.Sub(i, big.NewInt(1))
	}
	return i
}

// exactNormal returns the normal at the middle of the intervals
//
//	u in 2^-(32+64n)·[U, U+1],  w in 2^-(29+64n)·[W, W+1],  U > 0,
//
// and a bound on its distance from the normal of every u and w in them.
func exactNormal(u, w *big.Int, n uint, sine, negative bool) (z, e *big.Float) {
	a := arithmetic{64*n + 256}
	digits := int(64 * n)
	middle := func(x *big.Int, exponent int) *big.Float {
		return a.scale(a.add(a.new().SetInt(x), a.float(0.5)), exponent)
	}
	radius := a.sqrt(a.scale(a.minusLog(middle(u, -32-digits)), 1))
	quarter := a.scale(a.pi(), -2)
	phi := a.mul(quarter, middle(w, -29-digits))
	if z = a.mul(radius, a.sinCos(phi, sine)); negative && !sine {
		z.Neg(z)
	}
	// D/r = 2h/(c-h)/r with c - h = U and h = 1/2.
	moved := a.quo(a.quo(a.float(1), a.new().SetInt(u)), radius)
	reach := a.add(radius, moved)
	e = a.add(moved, a.mul(reach, a.scale(a.float(1), -30-digits)))
	return z, a.add(e, a.scale(a.add(a.float(1), radius), -digits-128))
}

// arithmetic computes with floating-point numbers of a given precision, rounded to nearest.
type arithmetic struct{ precision uint }

func (a arithmetic) new() *big.Float                { return new(big.Float).SetPrec(a.precision) }
func (a arithmetic) float(x float64) *big.Float     { return a.new().SetFloat64(x) }
func (a arithmetic) add(x, y *big.Float) *big.Float { return a.new().Add(x, y) }
func (a arithmetic) sub(x, y *big.Float) *big.Float { return a.new().Sub(x, y) }
func (a arithmetic) mul(x, y *big.Float) *big.Float { return a.new().Mul(x, y) }
func (a arithmetic) quo(x, y *big.Float) *big.Float { return a.new().Quo(x, y) }
func (a arithmetic) sqrt(x *big.Float) *big.Float   { return a.new().Sqrt(x) }
func (a arithmetic) abs(x *big.Float) *big.Float    { return a.new().Abs(x) }
func (a arithmetic) scale(x *big.Float, exponent int) *big.Float {
	return a.new().SetMantExp(x, exponent)
}

// negligible reports whether a term is below 2^-(precision+8).
func (a arithmetic) negligible(term *big.Float) bool {
	return term.Sign() == 0 || term.MantExp(nil) < -int(a.precision)-8
}

// minusLog returns -ln x for 0 < x < 1. It takes square roots until x is at least 0.9; then
// -ln x = 2·artanh((1-x)/(1+x)), a series whose terms fall by 2^-8.
func (a arithmetic) minusLog(x *big.Float) *big.Float {
	doublings := 1
	for near := a.float(0.9); x.Cmp(near) < 0; doublings++ {
		x = a.sqrt(x)
	}
	one := a.float(1)
	s := a.quo(a.sub(one, x), a.add(one, x))
	return a.scale(a.mul(s, a.series(a.mul(s, s), func(k int64) (num, den int64) { return 2*k - 1, 2*k + 1 })), doublings)
}

// series sums 1 + c₁·z + c₁·c₂·z² + …, where cₖ = num/den.
func (a arithmetic) series(z *big.Float, quotient func(k int64) (num, den int64)) *big.Float {
	sum, term := a.float(1), a.float(1)
	for k := int64(1); !a.negligible(term); k++ {
		num, den := quotient(k)
		term = a.mul(term, z)
		term = a.quo(a.mul(term, a.new().SetInt64(num)), a.new().SetInt64(den))
		sum = a.add(sum, term)
	}
	return sum
}

// sinCos returns the sine or the cosine of |x| <= π/4.
func (a arithmetic) sinCos(x *big.Float, sine bool) *big.Float {
	square := a.mul(x, x)
	if sine {
		return a.mul(x, a.series(square, func(k int64) (num, den int64) { return -1, 2 * k * (2*k + 1) }))
	}
	return a.series(square, func(k int64) (num, den int64) { return -1, 2 * k * (2*k - 1) })
}

// pi is 16·arctan(1/5) - 4·arctan(1/239) (Machin 1706).
func (a arithmetic) pi() *big.Float {
	arctan := func(inverse float64) *big.Float {
		x := a.quo(a.float(1), a.float(inverse))
		return a.mul(x, a.series(a.mul(x, x), func(k int64) (num, den int64) { return 1 - 2*k, 2*k + 1 }))
	}
	return a.sub(a.scale(arctan(5), 4), a.scale(arctan(239), 2))
}
