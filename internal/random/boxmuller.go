package random

import "math"

// BoxMuller transforms three independent uniform words into two independent standard
// normals (Box and Muller, "A Note on the Generation of Random Normal Deviates",
// 1958). The radius is √(-2 ln u) with u = (2^32·hi + lo + 1/2) / 2^64, so it
// reaches 9.49 standard deviations. Bits 31 and 30 of angle are the signs of x
// and y, bit 29 exchanges x and y, and the other bits are t in φ = (π/4)·(2t+1)/2^30, the
// angle within the octant; the 2^32 angles are evenly spaced on the circle.
//
// Every operation is a separately rounded float32 operation, without fused multiply-add, so
// every implementation that follows the same steps gives the same bits.
//
// # Distance from the Gaussian
//
// Couple the words with real numbers that are uniform in the cells that the words
// represent: u in [U, U+1]/2^64 with U = 2^32·hi + lo, and φ in (π/4)·[2t, 2t+2]/2^30.
// The real Box–Muller transform of those is exactly Gaussian. From its x (and y
// alike) the value returned here differs by
//
//   - arithmetic: at most 10·2^-24·|x|, the sum of all roundings (2^-24 each) and
//     polynomial errors; over 3·10^8 pairs the tests measured 5.3·2^-24·|x|, that is
//     1e-6 up to six standard deviations and 1.6e-6 at nine. For u within 2^-24
//     of 1, cutting u at 2^-49 adds at most min(2^-24, 2^-48/r);
//   - the cell of the angle: at most r·(π/4)·2^-30 < 7.4e-10·r;
//   - the cell of u: |dr| = du/(u·r), at most 2^-25/r where U >= 2^24.
//
// So, except with probability 2^-40 a pair (U < 2^24, where r > 7.4; the distance
// is still below 0.05 unless U = 0, which has probability 2^-64),
//
//	|X - real X| <= η(X) = 6e-7·|X| + 7e-8,
//
// and for X as returned and Φ the normal distribution function
//
//	Φ(a-η(a)) - 2^-40 <= P(X <= a) <= Φ(a+η(a)) + 2^-40,
//
// a Kolmogorov distance below 2e-7. No value exceeds 9.49. A real pair's radius exceeds this
// with probability 2^-65.
//
// This does not bound the total variation distance, which is 1 between float32 values and a
// continuous distribution: no floating-point sampler protects against an adversary who sees
// the last bits of a float32 sum (Mironov, "On Significance of
// the Least Significant Bits for Differential Privacy", CCS 2012). On values
// rounded to a grid of width h <= 1 it is about 2η/h a coordinate. Where
// this is not sufficient, use DiscreteGaussians on a lattice.
func BoxMuller(hi, lo, angle uint32) (x, y float32) {
	// The 64 bits of u in three exact floats: 24 bits, 24 bits, 16 bits and a half.
	// Products with powers of two are exact, so fusing these does not change the result.
	top := float32(int32(hi>>8)) * 0x1p-24
	mid := float32(int32(hi<<16&0xffffff|lo>>16)) * 0x1p-48
	low := (float32(int32(lo&0xffff)) + 0.5) * 0x1p-64

	// u = v + rest, v its nearest float32 (Dekker's fast two-sum).
	tail := mid + low
	v := top + tail
	rest := tail - (v - top)

	// v = m·2^e with m in [√½, √2); f = u/2^e - 1.
	b := math.Float32bits(v) - sqrtHalfBits
	e := int32(b) >> 23
	m := math.Float32frombits(b&0x7fffff + sqrtHalfBits)
	scale := math.Float32frombits(oneBits - b&0xff800000) // 2^-e
	f := (m - 1) + float32(rest*scale)

	// -2 ln u = -2e·ln 2 - 2 ln(1+f).
	p := float32(f*ln8) + ln7
	p = float32(f*p) + ln6
	p = float32(f*p) + ln5
	p = float32(f*p) + ln4
	p = float32(f*p) + ln3
	p = float32(f*p) + ln2
	p = float32(f*p) + ln1
	p = float32(f*p) + 1
	p = float32(f*p) - 2
	square := float32(float32(e)*minus2Ln2) + float32(f*p)
	r := float32(math.Sqrt(float64(square)))

	// φ = w·π/4, w in (0, 1).
	w := float32(int32(angle<<1&0x3ffffffe|1)) * 0x1p-30
	z := w * w
	sin := float32(z*sin3) + sin2
	sin = float32(z*sin) + sin1
	sin = float32(z*sin) + sin0
	sin = w * sin
	cos := float32(z*cos4) + cos3
	cos = float32(z*cos) + cos2
	cos = float32(z*cos) + cos1
	cos = float32(z*cos) + 1

	if angle<<2&signBit != 0 {
		sin, cos = cos, sin
	}
	x = math.Float32frombits(math.Float32bits(r*cos) ^ angle&signBit)
	y = math.Float32frombits(math.Float32bits(r*sin) ^ angle<<1&signBit)
	return x, y
}

const (
	signBit      = 1 << 31
	oneBits      = 0x3f800000
	sqrtHalfBits = 0x3f3504f3
)

// Minimax polynomials, computed with the Remez algorithm and rounded to float32, with their
// greatest relative errors, which the tests measure.
const (
	minus2Ln2 = -0x1.62e430p+0 // 0.05·2^-24

	// -2 ln(1+f) = f·(-2 + f·(1 + f·P(f))), √½ - 1 <= f <= √2 - 1: 0.11·2^-24.
	ln1 = -0x1.555554p-1
	ln2 = 0x1.000226p-1
	ln3 = -0x1.99a008p-2
	ln4 = 0x1.547244p-2
	ln5 = -0x1.22da1cp-2
	ln6 = 0x1.0d8540p-2
	ln7 = -0x1.055b6cp-2
	ln8 = 0x1.38b590p-3

	// sin(πw/4) = w·S(w²), 0 < w < 1: 0.57·2^-24.
	sin0 = 0x1.921fb6p-1
	sin1 = -0x1.4abbbap-4
	sin2 = 0x1.465e92p-9
	sin3 = -0x1.2d9302p-15

	// cos(πw/4) = 1 + w²·C(w²), 0 < w < 1: 0.18·2^-24.
	cos1 = -0x1.3bd3ccp-2
	cos2 = 0x1.03c1dep-6
	cos3 = -0x1.55c5e0p-12
	cos4 = 0x1.d9d57ep-19
)
