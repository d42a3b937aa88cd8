package random

import "math"

// A pair is what is known of the uniform real numbers u in [0, 1] and w in [-1, 1] of a pair
// of normals: each lies in an interval.
//
//	u  in 2^-64·[radius + 1/2 - radiusWidth, radius + 1/2 + radiusWidth]
//	w  in 2^-63·[angle - angleWidth, angle + angleWidth]
//
// The real Box–Muller transform is: φ = (π/4)·w, r = √(-2 ln u), and the normals are ±r·cos φ
// and r·sin φ, exchanged if a bit is set. φ covers a quarter of the circle, the sign and the
// exchange its four copies. For uniform u, w and bits the two normals are independent and standard.
type pair struct {
	radius                  uint64
	angle                   int64
	radiusWidth, angleWidth float64
	negative, sine          bool // the value is -r·cos φ; is r·sin φ
}

// newPair interprets the two first words of a pair. The first word has the highest 32 digits of u.
// Of the second, bit 31 is the sign of the cosine, bit 30 exchanges the normals, and
// bits 29 to 0 are the highest digits of w in two's complement.
func newPair(radius, angle uint32, second bool) pair {
	return pair{
		radius:      uint64(radius)<<32 | 0x7fffffff, // the middle, less 1/2
		angle:       int64(uint64(angle)<<34) + 1<<33,
		radiusWidth: 0x1p31 + 1,
		angleWidth:  0x1p33,
		negative:    angle>>31 == 1,
		sine:        (angle>>30&1 == 1) != second,
	}
}

// refine adds 64 digits of u and of w, of which the highest 32 and 34 fit.
func (p pair) refine(u, w uint64) pair {
	p.radius = p.radius&^0xffffffff | u>>32
	p.angle = p.angle&^(1<<34-1) | int64(w>>30)
	p.radiusWidth, p.angleWidth = 0.5, 1
	return p
}

// cell64 returns round(rest + scale·Z) if float64 decides it.
//
// # The error of Z
//
// Let ε = 2^-53. Z is computed at the middle of the two intervals.
//
//   - negativeLog: top + low is exact as v + rest (Dekker's fast two-sum). f has one rounding, which
//     moves ln(1+f) by 1.2ε of itself; s = f/(2+f) has two; the series 1.2 (s² < 0.03 damps its other
//     roundings) and 0.5 for its rest; the product one: 6ε of ln(1+f). e·ln 2 has 1.5ε. The difference
//     is smallest for e = -1 and ln(1+f) = 0.3466: (1.5·0.6931 + 6·0.3466)/0.3466 + 1 = 10ε.
//   - r: half of it, and one for the square root: 6ε.
//   - φ has 2.5ε, φ² six; the cosine moves by less than 2ε, the sine by 3ε, and their series
//     have less than 2ε: 5ε.
//   - The product with r: ε.
//
// The sum is 12ε·r; 2^-47·r is used, five times as much. The unknown digits add:
//
//   - |ln u - ln c| <= h/(c-h) for u in [c-h, c+h]. With D = 2h/(c-h), r² moves by D at most
//     and r by D/r, as |√a - √b| = |a-b|/(√a+√b).
//   - The cosine and sine move by (π/4)·width of w, times (r + D/r).
//
// Then scale·Z has a relative rounding of 2ε and the sum with rest one of ε: 2^-50·(|y|+1).
func (r *rounding) cell64(p pair, rest float64) (int64, bool) {
	z, e := p.normal()
	y := rest + r.scale*z
	e = 1.001*r.scale*e + 0x1p-50*(math.Abs(y)+1)
	low, high := math.Floor(y-e+0.5), math.Floor(y+e+0.5)
	return int64(low), low == high
}

// normal returns the normal at the middle of the intervals and a bound on its distance from the real
// one; cell64 proves it.
func (p pair) normal() (z, e float64) {
	centre := float64(p.radius) + 0.5
	if centre <= p.radiusWidth {
		return 0, math.Inf(1) // u can be 0
	}
	radius := math.Sqrt(2 * negativeLog(p.radius))
	phi := float64(p.angle) * (math.Pi / 4 * 0x1p-63)
	square := phi * phi
	if p.sine {
		z = radius * (phi * horner(square, sinSeries[:]))
	} else if z = radius * horner(square, cosSeries[:]); p.negative {
		z = -z
	}
	moved := 2 * p.radiusWidth / ((centre - p.radiusWidth) * radius)
	return z, 0x1p-47*radius + moved + (radius+moved)*(math.Pi/4*0x1p-63)*p.angleWidth
}
