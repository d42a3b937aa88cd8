package random

import (
	"math"
	"math/bits"
)

// fastRounding has the constants of the float32 path for one Sigma. It computes y = f/g + N/g
// in units of 2^-bits grid steps and decides the cell where the error bound
//
//	E = fastRelative·r·scale + fastAbsolute·scale + 3
//
// permits it.
//
// # Proof of the bound
//
// Let ε = 2^-24, the relative error of a rounding; z* and r* are the normal and the radius
// of the real numbers u* and w* behind the words, z and r the computed ones. A fused
// multiply–add rounds once where the count below has two roundings, so the bound holds for
// both. Pairs outside of 2^-13 <= u < 1 - 2^-16 are excluded.
//
//  1. t is the first word as a signed integer in float32: ε. Either t >= 0 and u = t/2^32: this moves
//     r² = -2 ln u by at most 2ε, and r² >= 1.38. Or u = 1 + t/2^32 >= 1/2: this moves r² by
//     2ε·(1-u)/u, and (1-u)/u <= -1.45 ln u. So r² has at most 1.45ε, relatively.
//  2. f = m - 1 is exact: it is t in units, or 2t + 1, or t·2^k - 1 with a result from -1/3 to 1/2
//     (Sterbenz).
//  3. L = -2 ln(1+f) = f·q: the polynomial has 0.58ε. Horner's rule on |f| <= 0.4143 leaves
//     1.9ε in 1 + f·P and 2.9ε in q, absolutely, that is 1.35ε of q; the last product has ε:
//     2.93ε·|L|.
//  4. r² = 1.3863·|e| + L. The product has 1.05ε. If e = 0 the sum is exact. If e < 0
//     then |L| <= 0.6932 and the relative error is at most
//     (1.05·1.3863 + 2.93·0.6932)/0.6931 + 1 = 6.1ε, at u = √½, where step 1 contributes 1.2ε.
//     So r² has 7.3ε, and r, after a square root, 3.65ε + ε.
//  5. The unknown digits move u by less than 2^-32, and r by at most 2^-32/(u·r). For u >= 1/2 this
//     is below 2^-24, because r >= 2^-7.5 where u is near 1. For u < 1/2 it is at most 1.78ε·r,
//     because u·r² >= 0.0022; it is largest at u = 2^-13, where steps 1 to 4 leave 2.2ε, and below 0.1ε
//     for u > 0.01. Together |r - r*| <= 4.7ε·r* + 2^-24.
//  6. radius = r·scale: ε for the product and ε for the constant. The value cos φ·radius: ε.
//     Together 7.7ε·|cos φ| of r*·scale.
//  7. The angle: w has ε, and the unknown digits move it by 0.025ε·(4/π); z = w² has 3ε. The cosine
//     1 + z·C moves by 0.93ε·z for z; its polynomial has 0.33ε + 0.8ε·z; C and its
//     product with z 0.58ε·z; the sum 0.5ε: 0.86ε + 2.31ε·z. As |cos φ| <= 1 - 0.2929z,
//     step 6 and this are at most 8.7ε. The sine w·S moves by 0.71ε for w; S has
//     0.24ε for z, 0.5ε for its sum and 0.1ε for its small terms; its polynomial has 0.46ε, the
//     product 0.5ε: 2.54ε, and with step 6, where |sin φ| <= 0.7072, 8ε.
//
// So |z - z*| <= 8.7ε·r* + 2^-24; fastRelative is 9ε, for the products of these errors and the
// roundings of E. Absolute errors, in units: 1/2 for each of two conversions to
// integers, 2^-5 for roundings of numbers near half a step (which is at most 2^18), and 1 for the
// digits of f below the unit. The tests check steps 1 to 5 for all first words, steps 6 and 7 for
// all angles, and the sum for random pairs.
type fastRounding struct {
	bits  uint64
	scale float32 // Sigma in these units
	slope float32 // error bound per unit of r
	base  float32 // half a grid step, and the part of the error bound that does not depend on r
}

const (
	// The bounds on the errors that fastRounding proves.
	fastRelative = 9 * 0x1p-24 // of r
	fastAbsolute = 0x1p-24     // of Z

	// A sum that is already in units of 2^-bits grid steps needs no split. With more than 19
	// bits a value could exceed 32 bits, with fewer than 12 rounding to units leaves more values
	// undecided.
	minFastBits = 12
	maxFastBits = 19

	// Pairs with u < 2^-13 or u > 1 - 2^-16 are not decided in float32: there the unknown
	// digits of u matter. As integers t = u·2^32 modulo 2^32 they are t in [-2^16, 2^19).
	fastNearOne  = 1 << 16
	fastExcluded = 1<<19 + fastNearOne
)

func newFastRounding(grid int, scale float64) fastRounding {
	b := maxFastBits
	if grid >= minFastBits && grid <= maxFastBits {
		b = grid
	}
	unit := math.Ldexp(scale, b)
	return fastRounding{
		bits:  uint64(b),
		scale: float32(unit),
		slope: float32(unit * fastRelative * 1.00001),
		base:  float32(math.Ldexp(0.5, b) + 1.00001*unit*fastAbsolute + 3),
	}
}

// split sets rests to the sums less their whole grid steps, in units, rounded down.
func (f *fastRounding) split(rests, sums *[NormalBatch]int64, grid int) {
	if grid <= 0 {
		return // there is no rest
	}
	bits := int(f.bits)
	left, right, mask := max(bits-grid, 0), max(grid-bits, 0), int64(1)<<grid-1
	for i, sum := range sums {
		rests[i] = sum & mask << (left & 63) >> (right & 63)
	}
}

// roundsGeneric computes a batch in float32: it replaces the sums f, which are in units of
// 2^-bits grid steps, by round(f/2^bits + scale·Z) and sets the bits of undecided for those
// that it does not decide and does not change.
//
// A value is decided if all of [y-E, y+E] lies in one cell, for the value y in units
// and the bound E on its error. With E and half a step added, the cell is a shift, and the
// distance to its lower end is in the low bits.
func roundsGeneric(sums *[NormalBatch]int64, words *[roundedWords]uint32, undecided *[NormalBatch / 64]uint64,
	scale, slope, base float32, bits uint64) {
	for i := range groupWords {
		square, x, y, known := fastPair(words[i], words[groupWords+i])
		r := float32(math.Sqrt(float64(square)))
		radius, shifted := r*scale, r*slope+base // E and half a step
		twiceError := uint32(toInt32(shifted)) << ((33 - bits) & 63)
		if !known {
			twiceError = math.MaxUint32 // the low bits below are never all ones
		}
		at := i/lanes*2*lanes + i%lanes
		for _, z := range [2]float32{x, y} {
			sum := sums[at] + int64(toInt32(z*radius+shifted))
			if uint32(sum)<<((32-bits)&63) >= twiceError {
				sums[at] = sum >> (bits & 63)
			} else {
				undecided[at/64] |= 1 << (at % 64)
			}
			at += lanes
		}
	}
}

// fastPair returns r², and ±cos φ and sin φ or the reverse, of the first words of a pair, and whether
// the bounds of fastRounding hold.
func fastPair(radius, angle uint32) (square, x, y float32, known bool) {
	// u = (t + c)/2^32 with t = float(int32), which is exact enough near 0 and near 1.
	integer := int32(radius)
	known = uint32(integer+fastNearOne) >= fastExcluded
	t := float32(integer)
	c := math.Float32frombits(uint32(integer>>31) & (oneBits + 32<<23)) // 0 or 2^32
	// u = m·2^e with m in [√½, √2); f = m - 1, exactly.
	b := math.Float32bits(t+c) - (sqrtHalfBits + 32<<23)
	e := int32(b) >> 23
	unit := math.Float32frombits(oneBits - 32<<23 - b&0xff800000) // 2^(-e-32)
	f := t*unit + (c*unit - 1)
	// -2 ln u = -2e·ln 2 - 2 ln(1+f).
	p := f*fastLn7 + fastLn6
	p = f*p + fastLn5
	p = f*p + fastLn4
	p = f*p + fastLn3
	p = f*p + fastLn2
	p = f*p + fastLn1
	p = f*p + 1
	p = f*p - 2
	square = f*p + float32(e)*minus2Ln2

	w := float32(int32(angle<<2)) * 0x1p-31
	z := w * w
	sin := z*fastSin3 + fastSin2
	sin = z*sin + fastSin1
	sin = z*sin + fastSin0
	sin *= w
	cos := z*fastCos3 + fastCos2
	cos = z*cos + fastCos1
	cos = z*cos + 1
	cos = math.Float32frombits(math.Float32bits(cos) ^ angle&signBit)
	if angle&(1<<30) != 0 {
		return square, sin, cos, known
	}
	return square, cos, sin, known
}

// toInt32 rounds to the nearest integer: the low bits of the sum with 1.5·2^52.
func toInt32(x float32) int32 { return int32(math.Float64bits(float64(x) + 0x1.8p52)) }

// Minimax polynomials as in BoxMuller, shorter by one term; fastRounding has their errors.
const (
	fastLn1 = -0x1.5556d8p-1
	fastLn2 = 0x1.000382p-1
	fastLn3 = -0x1.98d7f4p-2
	fastLn4 = 0x1.538248p-2
	fastLn5 = -0x1.317452p-2
	fastLn6 = 0x1.2432bep-2
	fastLn7 = -0x1.645edcp-3

	fastSin0 = 0x1.921fb4p-1
	fastSin1 = -0x1.4abba8p-4
	fastSin2 = 0x1.465a72p-9
	fastSin3 = -0x1.2cfcc8p-15

	fastCos1 = -0x1.3bd3aep-2
	fastCos2 = 0x1.03b3bep-6
	fastCos3 = -0x1.4f107ap-12
)

// eachUndecided calls visit with the number of each undecided value of a batch.
func eachUndecided(undecided *[NormalBatch / 64]uint64, visit func(i int)) {
	for k, set := range undecided {
		for ; set != 0; set &= set - 1 {
			visit(64*k + bits.TrailingZeros64(set))
		}
	}
}
