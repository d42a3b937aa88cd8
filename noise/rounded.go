package noise

import (
	"fmt"
	"math"
)

// A RoundedGaussian releases integer sums with Gaussian noise that is correctly rounded: for
// an integer f it computes
//
//	r = round((f + N) / g),  N ~ N(0, Sigma²) over the reals,  g = 2^Grid().
//
// # Guarantee
//
// f + N is the Gaussian mechanism over the real numbers, not an approximation of it. Rounding
// to the public grid is post-processing: r is a function of f + N and of public numbers. So
// every statement about the Gaussian mechanism of standard deviation Sigma, subsampled and
// composed, holds for the integers r, to the last bit, if the sensitivity of f is bounded in
// integers. Floating-point samplers do not have this property: a float32 sum with float32
// noise reaches only some values, and which ones can identify a record (Mironov, "On
// Significance of the Least Significant Bits for Differential Privacy", CCS 2012).
//
// What is assumed: the key of the Source is secret and ChaCha20 is indistinguishable from a
// random function (see the package documentation). The running time depends on the noise
// drawn: an undecided value (below) takes longer.
//
// # Why the real number is computed exactly
//
// N = Sigma·Z, and Z is a function of uniform real numbers u and w whose binary digits are an
// infinite stream of ChaCha20: the transform of Box and Muller (1958). Only the
// grid cell that contains f + N is needed. A computation with finitely many digits gives an
// interval that contains Z: the arithmetic error and the unknown digits are part of its
// width. If the interval lies in one cell, the cell is known. Otherwise a more exact
// computation follows: float32, then float64, then float64 with 64 more digits, then
// intervals of any precision. Each computes the cell of the same real number. So all
// processors give the same integers, however they compute, and no stage changes the distribution.
//
// Kalinin and Pagh ("Randomized rounding for exact Gaussian noise", 2026) shift the grid at
// random; integers f need no shift. Canonne, Kamath and Steinke (NeurIPS 2020) replace the
// Gaussian by one on the integers, which has a privacy analysis of its own and no fast
// sampler; see [Source.DiscreteGaussians].
//
// # Accuracy
//
// The grid is between Sigma/512 and Sigma/256, so rounding adds g²/12, at most
// 1.3·10⁻⁶ of Sigma², to the variance of g·r.
type RoundedGaussian struct {
	// Sigma is the standard deviation of the noise, in units of f. It is from 2^-20 to 2^60.
	Sigma float64
}

const (
	minSigma = 0x1p-20
	maxSigma = 0x1p60
)

// Grid returns the exponent of the grid, ⌊log₂ Sigma⌋ - 8.
func (n RoundedGaussian) Grid() int { return math.Ilogb(n.Sigma) - 8 }

// Add replaces each sum f by round((f + N)/g), where N is the noise with the numbers first,
// first+1, … of the stream. The result does not depend on how a range is split into calls,
// on the processor, or on the build. Add does not allocate.
//
// The sums are at most 2^62 in absolute value, and so are the sums divided by g.
//
// Batch c (values 512c to 512c+511) takes blocks 32c to 32c+31. Its pair 16j+l, for j and l
// from 0 to 15, takes word j of the blocks 32c+l and 32c+16+l, and gives values 512c+32j+l and
// 512c+32j+16+l; boxMullerDigits explains the words. Their further digits come from another
// nonce, in which each pair has a block.
func (n RoundedGaussian) Add(s *Source, sums []int64, st Stream, first uint64) error {
	if !(n.Sigma >= minSigma && n.Sigma <= maxSigma) {
		return fmt.Errorf("noise: the standard deviation is %v lattice steps: it must be from 2^-20 to 2^60", n.Sigma)
	}
	in, err := s.open(st, roundedSampler, first, len(sums), MaxRounded)
	if err != nil {
		return err
	}
	digits, err := s.open(st, roundedDigits, first, len(sums), MaxRounded)
	if err != nil {
		return err
	}
	r := newRounding(n, digits)
	var words [roundedWords]uint32
	for len(sums) > 0 {
		batch := first / NormalBatch
		in[counterWord] = uint32(batch * roundedBlocks)
		groups(words[:], &in)
		skip := int(first % NormalBatch)
		count := min(NormalBatch-skip, len(sums))
		for i := range sums[:count] {
			pair, second := pairOf(skip + i)
			sums[i] = r.round(sums[i], batch*groupWords+uint64(pair), words[pair], words[groupWords+pair], second)
		}
		sums = sums[count:]
		first += uint64(count)
	}
	return nil
}

// AddOne returns round((f + N)/g) for a single statistic: a count, a sum or a score. N is the
// first value of the stream.
func (n RoundedGaussian) AddOne(s *Source, f int64, st Stream) (int64, error) {
	sums := [1]int64{f}
	err := n.Add(s, sums[:], st, 0)
	return sums[0], err
}

const (
	roundedWords  = 2 * groupWords // a pair takes two words
	roundedBlocks = 2 * lanes
)

// pairOf returns the pair of value i of a batch, and whether i is its second value.
func pairOf(i int) (pair int, second bool) {
	return i/(2*lanes)*lanes + i%lanes, i%(2*lanes) >= lanes
}

// rounding rounds values one at a time.
type rounding struct {
	grid   int         // exponent of g
	scale  float64     // Sigma/g, exact, in [256, 512)
	digits chachaState // further digits of pair p: see moreDigits
}

func newRounding(n RoundedGaussian, digits chachaState) rounding {
	grid := n.Grid()
	return rounding{grid: grid, scale: math.Ldexp(n.Sigma, -grid), digits: digits}
}

// split returns the whole grid steps in f and the rest, 0 <= rest < 1. Both are exact, because
// 2^grid has at most 52 binary digits.
func (r *rounding) split(f int64) (steps int64, rest float64) {
	if r.grid <= 0 {
		return f << -r.grid, 0
	}
	steps = f >> r.grid
	return steps, math.Ldexp(float64(f-steps<<r.grid), -r.grid)
}

// round returns round((f + N)/g) for the first or second value of a pair, given its first
// words. It tries float64, then float64 with more digits, then exact intervals.
func (r *rounding) round(f int64, pair uint64, radius, angle uint32, second bool) int64 {
	steps, rest := r.split(f)
	p := newPair(radius, angle, second)
	if cell, ok := r.cell64(p, rest); ok {
		return steps + cell
	}
	more := r.moreDigits(pair)
	if cell, ok := r.cell64(p.refine(more.next(), more.next()), rest); ok {
		return steps + cell
	}
	more = r.moreDigits(pair)
	return steps + r.exactCell(radius, angle, second, &more, rest)
}

// moreDigits returns the digits of u and w of a pair after the first 32 and 30, in turn 64 of
// each. They come from a generator whose key is the first eight words of the pair's block.
func (r *rounding) moreDigits(pair uint64) uniformBits {
	in := r.digits
	in[counterWord] = uint32(pair)
	out := chachaBlock(&in)
	var digits uniformBits
	digits.restart(Key(out[:8]))
	return digits
}
