package random

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
// Kalinin and Pagh (2026) shift the grid at random; integers f need no shift. Canonne, Kamath and Steinke (NeurIPS 2020) replace the
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
// on the processor, or on the build. Add does not allocate, except for about one value in 10^11.
//
// The caller bounds the sums: they, and they divided by g, are at most 2^62 in absolute value.
//
// Batch c (values 512c to 512c+511) takes blocks 32c to 32c+31. Its pair 16j+l, for j and l
// from 0 to 15, takes word j of the blocks 32c+l and 32c+16+l, and gives values 512c+32j+l and
// 512c+32j+16+l; newPair explains the words. Their further digits come from another
// nonce, in which each pair has a block.
func (n RoundedGaussian) Add(s *Source, sums []int64, st Stream, first uint64) error {
	if err := n.check(); err != nil {
		return err
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
	var words [2 * roundedWords]uint32
	for len(sums) > 0 {
		batch := first / NormalBatch
		in[counterWord] = uint32(batch * roundedBlocks)
		skip := int(first % NormalBatch)
		count := min(NormalBatch-skip, len(sums))
		if count < NormalBatch {
			var part [NormalBatch]int64
			copy(part[skip:], sums[:count])
			groups(words[:roundedWords], &in)
			r.addTo(&part, (*[roundedWords]uint32)(words[:]), batch)
			copy(sums, part[skip:skip+count])
		} else { // two batches if possible: the generator is faster
			count = min(2*NormalBatch, len(sums)/NormalBatch*NormalBatch)
			groups(words[:count/NormalBatch*roundedWords], &in)
			for i := range count / NormalBatch {
				r.addTo((*[NormalBatch]int64)(sums[i*NormalBatch:]), (*[roundedWords]uint32)(words[i*roundedWords:]), batch+uint64(i))
			}
		}
		sums = sums[count:]
		first += uint64(count)
	}
	return nil
}

func (n RoundedGaussian) check() error {
	if !(n.Sigma >= minSigma && n.Sigma <= maxSigma) {
		return fmt.Errorf("noise: the standard deviation is %v lattice steps: it must be from 2^-20 to 2^60", n.Sigma)
	}
	return nil
}

// RoundingConstants are what a device needs to compute the same values. Its float32 stage has units
// of 2^-Bits grid steps; fastRounding explains Scale, Slope and Base.
type RoundingConstants struct {
	Grid, Bits         int
	SigmaInGrid        float64 // Sigma/g
	Scale, Slope, Base float32
}

// ConstantsOf returns the constants of n.
func ConstantsOf(n RoundedGaussian) (RoundingConstants, error) {
	if err := n.check(); err != nil {
		return RoundingConstants{}, err
	}
	r := newRounding(n, chachaState{})
	return RoundingConstants{
		Grid: r.grid, Bits: int(r.fast.bits), SigmaInGrid: r.scale,
		Scale: r.fast.scale, Slope: r.fast.slope, Base: r.fast.base,
	}, nil
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

// rounding computes with one Sigma.
type rounding struct {
	grid   int     // exponent of g
	scale  float64 // Sigma/g, exact, in [256, 512)
	fast   fastRounding
	digits chachaState // further digits of pair p: see moreDigits
}

func newRounding(n RoundedGaussian, digits chachaState) rounding {
	grid := n.Grid()
	scale := math.Ldexp(n.Sigma, -grid)
	return rounding{grid: grid, scale: scale, fast: newFastRounding(grid, scale), digits: digits}
}

// addTo replaces the sums of a batch.
func (r *rounding) addTo(sums *[NormalBatch]int64, words *[roundedWords]uint32, batch uint64) {
	var undecided [NormalBatch / 64]uint64
	decide := func(i int) int64 {
		return r.cell(sums[i], batch*groupWords, words, i)
	}
	if f := &r.fast; f.bits == uint64(r.grid) {
		rounds(sums, words, &undecided, f.scale, f.slope, f.base, f.bits)
		eachUndecided(&undecided, func(i int) { sums[i] = sums[i]>>r.grid + decide(i) })
		return
	}
	// The whole grid steps are added afterwards.
	var rests [NormalBatch]int64
	r.fast.split(&rests, sums, r.grid)
	rounds(&rests, words, &undecided, r.fast.scale, r.fast.slope, r.fast.base, r.fast.bits)
	eachUndecided(&undecided, func(i int) { rests[i] = decide(i) })
	left, right := max(-r.grid, 0), max(r.grid, 0) // as in steps
	for i, cell := range rests {
		sums[i] = sums[i]<<(left&63)>>(right&63) + cell
	}
}

// steps returns the whole grid steps in f, rounded down.
func (r *rounding) steps(f int64) int64 {
	if r.grid <= 0 {
		return f << -r.grid
	}
	return f >> r.grid
}

// rest returns f/g - steps(f). It is exact, because g has at most 52 binary digits.
func (r *rounding) rest(f int64) float64 {
	if r.grid <= 0 {
		return 0
	}
	return math.Ldexp(float64(f&(1<<r.grid-1)), -r.grid)
}

// cell returns round((f + N)/g) - steps(f) for value i of a batch, given the first words of
// the batch. It tries float64, then float64 with more digits, then exact intervals.
func (r *rounding) cell(f int64, firstPair uint64, words *[roundedWords]uint32, i int) int64 {
	at, second := i/(2*lanes)*lanes+i%lanes, i%(2*lanes) >= lanes
	radius, angle := words[at], words[groupWords+at]
	rest, p := r.rest(f), newPair(radius, angle, second)
	if cell, ok := r.cell64(p, rest); ok {
		return cell
	}
	more := r.moreDigits(firstPair + uint64(at))
	if cell, ok := r.cell64(p.refine(more.next(), more.next()), rest); ok {
		return cell
	}
	more = r.moreDigits(firstPair + uint64(at))
	return r.exactCell(radius, angle, second, &more, rest)
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
