package random

import "math"

// Normals64 fills dst with the standard normals first, first+1, … of the stream
// as float64 values, for short vectors for which float32 is too coarse. The values do not
// depend on how a range is split into calls.
//
// Normals 2p and 2p+1 are the Box–Muller transform of the stream's 64-bit values
// 2p (radius) and 2p+1 (angle), laid out as in [BoxMuller] with 61 bits for the
// angle within the octant. The coupling of BoxMuller holds with an arithmetic
// error below 12·2^-53·|x|, an angle within r·2^-61 and the same cells of u.
func (s *Source) Normals64(dst []float64, st Stream, first uint64) error {
	if _, err := s.open(st, normal64Sampler, first, len(dst), MaxValues); err != nil {
		return err
	}
	var words [groupUint64s]uint64
	for len(dst) > 0 {
		skip := int(first % groupUint64s)
		n := min(groupUint64s-skip, len(dst))
		if err := s.uint64s(words[:], st, normal64Sampler, first-uint64(skip)); err != nil {
			return err
		}
		for i := range dst[:n] {
			at := skip + i
			x, y := boxMuller64(words[at&^1], words[at|1])
			if at&1 == 0 {
				dst[i] = x
			} else {
				dst[i] = y
			}
		}
		dst = dst[n:]
		first += uint64(n)
	}
	return nil
}

func boxMuller64(radius, angle uint64) (x, y float64) {
	r := math.Sqrt(2 * negativeLog(radius))
	phi := float64(angle<<1&(1<<62-1)|1) * (math.Pi / 4 / (1 << 62))
	z := phi * phi
	sin := phi * horner(z, sinSeries[:])
	cos := horner(z, cosSeries[:])
	if angle>>61&1 != 0 {
		sin, cos = cos, sin
	}
	const sign = 1 << 63
	x = math.Float64frombits(math.Float64bits(r*cos) ^ angle&sign)
	y = math.Float64frombits(math.Float64bits(r*sin) ^ angle<<1&sign)
	return x, y
}

// negativeLog is -ln((u + 1/2) / 2^64), by the steps of BoxMuller. It does not use
// math.Log, whose last bit may differ between machines.
func negativeLog(u uint64) float64 {
	top := float64(u>>32) * 0x1p-32
	low := (float64(uint32(u)) + 0.5) * 0x1p-64
	v := top + low
	rest := low - (v - top)

	const sqrtHalf = 0x3fe6a09e667f3bcd // bits of √½
	b := math.Float64bits(v) - sqrtHalf
	e := int64(b) >> 52
	m := math.Float64frombits(b&(1<<52-1) + sqrtHalf)
	scale := math.Float64frombits(0x3ff<<52 - b&^(1<<52-1)) // 2^-e
	f := (m - 1) + float64(rest*scale)

	s := f / (2 + f) // ln(1+f) = 2 artanh(s)
	log := float64(s * horner(float64(s*s), artanhSeries[:]))
	return float64(float64(-e)*math.Ln2) - log
}

// horner evaluates a polynomial, highest coefficient first, and rounds each step.
func horner(z float64, coefficients []float64) float64 {
	p := 0.0
	for _, c := range coefficients {
		p = float64(p*z) + c
	}
	return p
}

// Taylor series in z, truncated below 2^-54 of the sum: 2 artanh(√z)/√z for z < 0.0295,
// sin(√z)/√z and cos √z for z < (π/4)².
var (
	artanhSeries = [...]float64{2. / 21, 2. / 19, 2. / 17, 2. / 15, 2. / 13, 2. / 11, 2. / 9, 2. / 7, 2. / 5, 2. / 3, 2}
	sinSeries    = [...]float64{-1. / 1307674368000, 1. / 6227020800, -1. / 39916800, 1. / 362880, -1. / 5040, 1. / 120, -1. / 6, 1}
	cosSeries    = [...]float64{1. / 20922789888000, -1. / 87178291200, 1. / 479001600, -1. / 3628800,
		1. / 40320, -1. / 720, 1. / 24, -1. / 2, 1}
)
