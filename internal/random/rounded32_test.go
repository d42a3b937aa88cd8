package random

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"
)

// full is true in .ci/full: tests then visit the whole space of their arguments.
var full = os.Getenv("DPTRAIN_FULL") != ""

type roundsFunc func(sums *[NormalBatch]int64, words *[roundedWords]uint32, undecided *[NormalBatch / 64]uint64, scale, slope, base float32, bits uint64)

// eachRounds runs a test for pure Go and for the kernels of this processor.
func eachRounds(t *testing.T, run func(t *testing.T, rounds roundsFunc)) {
	t.Run("Go", func(t *testing.T) { run(t, roundsGeneric) })
	eachSet(t, func(_ testing.TB, set string) {
		t.Run(set, func(t *testing.T) { run(t, rounds) })
	})
}

// fastValues returns what a kernel computes for pairs, before rounding to the grid: with no
// bits and no error bound it writes the value in units of 1/scale, and 2^27 units are finer than a
// float32 above 2^-3.
func fastValues(rounds roundsFunc, words *[roundedWords]uint32) (values [NormalBatch]float64) {
	const scale = 1 << 27
	var sums [NormalBatch]int64
	var undecided [NormalBatch / 64]uint64
	rounds(&sums, words, &undecided, scale, 0, 0, 0)
	eachUndecided(&undecided, func(i int) { sums[i] = math.MaxInt32 })
	for i, v := range sums {
		if values[i] = float64(v) / scale; v == math.MaxInt32 {
			values[i] = math.NaN()
		}
	}
	return values
}

// radiusOf is √(-2 ln u) for u = n/2^32.
func radiusOf(n uint64) float64 {
	if n >= 1<<31 {
		return math.Sqrt(-2 * math.Log1p(-float64(1<<32-n)*0x1p-32))
	}
	return math.Sqrt(-2 * math.Log(float64(n)*0x1p-32))
}

func excluded(radius uint32) bool {
	return radius < 1<<19 || radius >= 1<<32-1<<16
}

// Step 5 of the proof of fastRounding: the radius at angle 0, where the cosine is 1. With DPTRAIN_FULL all first words,
// else 2^21 spread evenly and those at the ends of the intervals of the computation.
func TestFastRounding_RadiusWithinBound(t *testing.T) {
	eachRounds(t, func(t *testing.T, rounds roundsFunc) {
		var words [roundedWords]uint32
		worst, worstNearOne := 0.0, 0.0
		check := func(first uint32, step uint32) {
			for i := range uint32(groupWords) {
				words[i] = first + i*step
			}
			last := uint64(first)
			below := radiusOf(max(last, 1))
			for i, v := range fastValues(rounds, &words) {
				if i%(2*lanes) >= lanes {
					continue
				}
				word := words[i/(2*lanes)*lanes+i%lanes]
				if excluded(word) {
					if !math.IsNaN(v) {
						t.Fatalf("%#x is not excluded", word)
					}
					continue
				}
				// u is in [word, word+1]/2^32, r between two radii.
				if uint64(word) != last {
					below = radiusOf(uint64(word))
				}
				high, low := below, radiusOf(uint64(word)+1)
				last, below = uint64(word)+1, low
				distance := max(high-v, v-low) - 0x1p-28
				if word > 1<<32-1<<23 {
					worstNearOne = max(worstNearOne, distance)
				} else {
					worst = max(worst, distance/low)
				}
				if !(distance <= 4.7*0x1p-24*low+0x1p-24) {
					t.Fatalf("%#x: r = %v, should be from %v to %v", word, v, low, high)
				}
			}
		}
		if full {
			for first := uint64(0); first < 1<<32; first += groupWords {
				check(uint32(first), 1)
			}
		} else {
			step := uint32(1<<32/uint64(sampleSize(t, 1<<21)) + 1)
			for first := uint64(0); first < 1<<32; first += groupWords * uint64(step) {
				check(uint32(first), step)
			}
			for _, edge := range []uint32{0, 1 << 19, 1 << 24, 1 << 25, 1 << 30, 1 << 31, 0x5a82799a, 0xb504f333, 0xff000000, 0xffff0000, math.MaxUint32} {
				for _, around := range []uint32{edge - 3*groupWords, edge - groupWords/2, edge + 3*groupWords} {
					check(around, 1)
				}
			}
		}
		t.Logf("greatest error: %.2f·2^-24 of r; near u = 1 %.2f·2^-24", worst*(1<<24), worstNearOne*(1<<24))
	})
}

// Steps 6 and 7: the values of all angles at one radius, divided by it. With DPTRAIN_FULL all angles, else 2^21.
func TestFastRounding_AngleWithinBound(t *testing.T) {
	eachRounds(t, func(t *testing.T, rounds roundsFunc) {
		const radius = 0x1b9ca2ff
		var words [roundedWords]uint32
		for i := range groupWords {
			words[i] = radius
		}
		r := fastValues(rounds, &words)[0] // at angle 0
		worstCos, worstSin := 0.0, 0.0
		check := func(angle func(i uint32) uint32) {
			for i := range uint32(groupWords) {
				words[groupWords+i] = angle(i)
			}
			values := fastValues(rounds, &words)
			for i := range groupWords {
				at := i/lanes*2*lanes + i%lanes
				a, b := values[at], values[at+lanes]
				word := words[groupWords+i]
				if word>>30&1 == 1 {
					a, b = b, a
				}
				if word>>31 == 1 {
					a = -a
				}
				w := float64(int32(word<<2)>>2) * 0x1p-29
				sin, cos := math.Sincos(math.Pi / 4 * w)
				next, nextCos := math.Sincos(math.Pi / 4 * (w + 0x1p-29)) // the other end
				dc := max(math.Abs(a/r-cos), math.Abs(a/r-nextCos))
				ds := max(math.Abs(b/r-sin), math.Abs(b/r-next))
				worstCos, worstSin = max(worstCos, dc), max(worstSin, ds)
				const e = 0x1p-24
				// The products with r are part of step 6, one rounding each; the units are 2^-27.
				if !(dc <= e*(0.86+2.31*w*w+cos)+0x1p-27) || !(ds <= e*(2.54+math.Abs(sin))+0x1p-27) {
					t.Fatalf("angle %#x: %v, %v; want %v, %v", word, a/r, b/r, cos, sin)
				}
			}
		}
		if full {
			for first := uint64(0); first < 1<<30; first += groupWords {
				check(func(i uint32) uint32 { return uint32(first) + i | uint32(first)<<22&0xc0000000 })
			}
		} else {
			rng := rand.New(rand.NewPCG(9, 9))
			for range sampleSize(t, 1<<21) / groupWords {
				check(func(i uint32) uint32 { return rng.Uint32() })
			}
			for _, edge := range []uint32{0, 1 << 23, 1 << 24, 1 << 28, 1<<29 - groupWords/2, 1 << 29, 3 << 28, 1<<30 - groupWords, 1<<31 - 100, 3<<30 - 100} {
				check(func(i uint32) uint32 { return edge - groupWords/2 + i })
			}
		}
		t.Logf("greatest error: cosine %.2f·2^-24, sine %.2f·2^-24", worstCos*(1<<24), worstSin*(1<<24))
	})
}

// The errors of the polynomials alone, in float64, at 2^20 points.
func TestFastRounding_PolynomialsWithinBounds(t *testing.T) {
	polynomial := func(x float64, c ...float64) (p float64) {
		for _, k := range c {
			p = p*x + k
		}
		return p
	}
	const n, e = 1 << 20, 0x1p-24
	for i := range n + 1 {
		f := math.Sqrt2/2 - 1 + float64(i)/n*(math.Sqrt2/2)
		log := -2 * math.Log1p(f)
		got := f * polynomial(f, fastLn7, fastLn6, fastLn5, fastLn4, fastLn3, fastLn2, fastLn1, 1, -2)
		if !(math.Abs(got-log) <= 0.58*e*math.Abs(log)) {
			t.Fatalf("-2 ln(1+%v) is %v, want %v", f, got, log)
		}
		w := float64(i) / n
		z := w * w
		sin, cos := math.Sincos(math.Pi / 4 * w)
		if got := w * polynomial(z, fastSin3, fastSin2, fastSin1, fastSin0); !(math.Abs(got-sin) <= 0.46*e) {
			t.Fatalf("sine at %v is %v, want %v", w, got, sin)
		}
		if got := polynomial(z, fastCos3, fastCos2, fastCos1, 1); !(math.Abs(got-cos) <= e*(0.33+0.8*z)) {
			t.Fatalf("cosine at %v is %v, want %v", w, got, cos)
		}
	}
}

// countWrong rounds random sums with a part of the proven bound and counts the decided values that
// differ from the real cell, and the undecided ones.
func countWrong(t *testing.T, rounds roundsFunc, batches int, share float64) (wrong, undecidedCount int) {
	rng := rand.New(rand.NewPCG(10, 11))
	var words [roundedWords]uint32
	for range batches {
		sigma := math.Ldexp(1+rng.Float64(), 8+minFastBits+rng.IntN(maxFastBits-minFastBits+1))
		r := newRounding(RoundedGaussian{sigma}, newState(Key{rng.Uint32()}, [3]uint32{}))
		for i := range words {
			words[i] = rng.Uint32()
		}
		for i := range groupWords { // some radii at the ends of their range
			switch rng.IntN(16) {
			case 0:
				words[i] = rng.Uint32() >> rng.IntN(14)
			case 1:
				words[i] = ^(rng.Uint32() >> rng.IntN(17))
			}
		}
		var sums, before [NormalBatch]int64
		for i := range sums {
			sums[i] = int64(rng.Uint64()) >> (2 + rng.IntN(60))
		}
		before = sums
		var undecided [NormalBatch / 64]uint64
		f := r.fast
		base := float32(math.Ldexp(0.5, int(f.bits)))
		rounds(&sums, &words, &undecided, f.scale, f.slope*float32(share), base+(f.base-base)*float32(share), f.bits)
		for i, got := range sums {
			if undecided[i/64]>>(i%64)&1 == 1 {
				if undecidedCount++; got != before[i] {
					t.Fatalf("an undecided sum changed from %d to %d", before[i], got)
				}
			} else if want := r.steps(before[i]) + r.cell(before[i], 0, &words, i); got != want {
				wrong++
			}
		}
	}
	return wrong, undecidedCount
}

// No decided value is wrong. A bound that is too small by a factor of 8 is found: this shows
// that the test can fail.
func TestFastRounding_DecidesRealCells(t *testing.T) {
	batches := sampleSize(t, 6000)
	if full {
		batches = 2_000_000 // 10^9 values
	}
	eachRounds(t, func(t *testing.T, rounds roundsFunc) {
		wrong, undecided := countWrong(t, rounds, batches, 1)
		if wrong > 0 {
			t.Errorf("%d values are wrong", wrong)
		}
		// About 0.1% of uniform words, and the added ends.
		share := float64(undecided) / float64(batches*NormalBatch)
		if t.Logf("undecided: %.3f%%", 100*share); !(share > 1e-4 && share < 0.03) {
			t.Errorf("%.3f%% are undecided", 100*share)
		}
		if wrong, _ := countWrong(t, rounds, 2000, 1./8); wrong == 0 {
			t.Error("a wrong bound was not found")
		}
	})
}
