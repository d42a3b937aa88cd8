package noise

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// addRounded adds noise to copies of f.
func addRounded(t testing.TB, sigma float64, f int64, n int, s *Source, first uint64) []int64 {
	t.Helper()
	sums := make([]int64, n)
	for i := range sums {
		sums[i] = f
	}
	if err := (RoundedGaussian{sigma}).Add(s, sums, testStream, first); err != nil {
		t.Fatal(err)
	}
	return sums
}

// roundedWordsOf returns the first words of the pair of value i, and whether i is its
// second value, by the definition of Add: one block at a time.
func roundedWordsOf(s *Source, i uint64) (pair uint64, radius, angle uint32, second bool) {
	nonce, err := testStream.nonce(roundedSampler)
	if err != nil {
		panic(err)
	}
	batch, k := i/512, i%512
	j, l := k/32, k%16
	word := func(part uint64) uint32 {
		in := newState(s.key, nonce)
		in[counterWord] = uint32(32*batch + 16*part + l)
		return chachaBlock(&in)[j]
	}
	return 256*batch + 16*j + l, word(0), word(1), k%32 >= 16
}

func roundingOf(t testing.TB, sigma float64, s *Source) rounding {
	t.Helper()
	nonce, err := testStream.nonce(roundedDigits)
	if err != nil {
		t.Fatal(err)
	}
	return newRounding(RoundedGaussian{sigma}, newState(s.key, nonce))
}

// exactRound is the definition: the cell by intervals of any precision, from the first digit.
func (r *rounding) exactRound(f int64, pair uint64, radius, angle uint32, second bool) int64 {
	steps, rest := r.split(f)
	more := r.moreDigits(pair)
	return steps + r.exactCell(radius, angle, second, &more, rest)
}

var roundedSigmas = []float64{0x1p-20, 0.0625, 0.3, 1, 77.7, 255.9, 256, 300, 0x1p20, 0x1.8p22, 12345678.9, 0x1.fffffffffffffp30, 0x1p40, 0x1p60}

// sumsFor are sums of every size that sigma permits.
func sumsFor(sigma float64) []int64 {
	most := int64(1) << 62
	if grid := (RoundedGaussian{sigma}).Grid(); grid < 0 {
		most >>= -grid
	}
	return []int64{0, 1, -1, 12345, -12345, most, -most, most - 1, 1 - most, most/3 + 1, -most / 7}
}

func TestRoundedGaussian_MatchesDefinition(t *testing.T) {
	s := NewSeeded(3)
	for _, sigma := range roundedSigmas {
		r := roundingOf(t, sigma, s)
		for k, f := range sumsFor(sigma) {
			first := []uint64{0, 1000, MaxRounded - 300}[k%3]
			for i, got := range addRounded(t, sigma, f, 40, s, first) {
				pair, radius, angle, second := roundedWordsOf(s, first+uint64(i))
				if want := r.exactRound(f, pair, radius, angle, second); got != want {
					t.Fatalf("σ %v, sum %d, value %d: %d, by definition %d", sigma, f, first+uint64(i), got, want)
				}
			}
		}
	}
}

// The intervals against the functions of package math, which have another algorithm.
func TestExactNormal_AgainstMath(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		radius, angle := rng.Uint32()>>rng.UintN(32), rng.Uint32()
		u, w := new(big.Int).SetUint64(uint64(radius)), big.NewInt(int64(int32(angle<<2)>>2))
		du, dw := rng.Uint64(), rng.Uint64()
		appendDigits(u, du)
		appendDigits(w, dw)
		r := math.Sqrt(-2 * math.Log((float64(radius)+(float64(du)+0.5)*0x1p-64)*0x1p-32))
		if radius>>31 == 1 {
			r = math.Sqrt(-2 * math.Log1p(-(float64(^radius)+(float64(^du)+0.5)*0x1p-64)*0x1p-32))
		}
		phi := (float64(int32(angle<<2)>>2) + float64(dw)*0x1p-64) * 0x1p-29 * math.Pi / 4
		for _, second := range []bool{false, true} {
			p := newPair(radius, angle, second)
			want := r * math.Sin(phi)
			if !p.sine {
				if want = r * math.Cos(phi); p.negative {
					want = -want
				}
			}
			z, e := exactNormal(u, w, 1, p.sine, p.negative)
			if got, _ := z.Float64(); !(math.Abs(got-want) <= 1e-14*r) {
				t.Errorf("%#x, %#x, %v: %v, want %v", radius, angle, second, got, want)
			}
			if bound, _ := e.Float64(); !(bound < 1e-17*(1+r)) && radius > 0 {
				t.Errorf("%#x: the bound is %v", radius, bound)
			}
		}
	}
}

// Every path computes an interval that contains that of a path with more digits.
func TestRounding_IntervalsAreNested(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 1000 {
		radius, angle, second := rng.Uint32()>>rng.UintN(32), rng.Uint32(), rng.IntN(2) == 1
		if rng.IntN(3) == 0 {
			radius = ^radius
		}
		digits := [2][3]uint64{{rng.Uint64() >> rng.UintN(64), rng.Uint64(), rng.Uint64()}, {rng.Uint64(), rng.Uint64(), rng.Uint64()}}
		p := newPair(radius, angle, second)
		u, w := new(big.Int).SetUint64(uint64(radius)), big.NewInt(int64(int32(angle<<2)>>2))
		within := func(name string, z, e, outerZ, outerE *big.Float) {
			distance := new(big.Float).Sub(z, outerZ)
			if distance.Abs(distance).Add(distance, e).Cmp(outerE) > 0 {
				t.Errorf("%s: %#x, %#x, %v, %x: %v ± %v is outside %v ± %v", name, radius, angle, second, digits, z, e, outerZ, outerE)
			}
		}
		var outerZ, outerE *big.Float
		for n := uint(1); n <= 3; n++ {
			appendDigits(u, digits[0][n-1])
			appendDigits(w, digits[1][n-1])
			if u.Sign() == 0 {
				continue
			}
			z, e := exactNormal(u, w, n, p.sine, p.negative)
			if outerZ != nil {
				within(fmt.Sprint("digits ", n), z, e, outerZ, outerE)
			}
			if outerZ, outerE = z, e; n == 3 {
				for name, p := range map[string]pair{"float64": p, "refined": p.refine(digits[0][0], digits[1][0])} {
					if cz, ce := p.normal(); !math.IsInf(ce, 1) {
						within(name, z, e, big.NewFloat(cz), big.NewFloat(1.001*ce))
					}
				}
			}
		}
	}
}

func TestRoundedGaussian_RejectsInvalidInput(t *testing.T) {
	s, sums := NewSeeded(1), make([]int64, 2)
	for _, sigma := range []float64{0, -1, math.NaN(), math.Inf(1), 0x1p-21, 0x1p61} {
		if err := (RoundedGaussian{sigma}).Add(s, sums, testStream, 0); err == nil {
			t.Errorf("σ = %v: no error", sigma)
		}
	}
	if err := (RoundedGaussian{1}).Add(s, sums, testStream, MaxRounded-1); err == nil {
		t.Error("past the last value: no error")
	}
	if err := (RoundedGaussian{1}).Add(s, sums, Stream{}, 0); err == nil {
		t.Error("no purpose: no error")
	}
	if !slices.Equal(sums, []int64{0, 0}) {
		t.Errorf("sums changed: %v", sums)
	}
}

// roundedCells returns the exact probabilities of the cells -reach … reach of round(rest +
// scale·Z), and of all others together.
func roundedCells(rest, scale float64, reach int) []float64 {
	p := make([]float64, 2*reach+2)
	total := 0.0
	for k := -reach; k <= reach; k++ {
		a, b := (float64(k)-0.5-rest)/scale, (float64(k)+0.5-rest)/scale
		if a > 0 { // from the smaller tail
			a, b = -b, -a
		}
		p[k+reach] = normalCDF(b) - normalCDF(a)
		total += p[k+reach]
	}
	p[2*reach+1] = max(1-total, 0)
	return p
}

// Cells of about 1/300 standard deviation, as they are released.
func TestRoundedGaussian_Distribution(t *testing.T) {
	n := sampleSize(t, 1<<20)
	for i, c := range []struct {
		sigma float64
		f     int64
	}{{0.2, 3}, {256, -2}, {1 << 20, 1<<40 + 777}, {0x1.77p33, -1<<55 + 999}} {
		r := roundingOf(t, c.sigma, NewSeeded(1))
		steps, rest := r.split(c.f)
		reach := int(3 * r.scale)
		counts, want := make([]float64, 2*reach+2), roundedCells(rest, r.scale, reach)
		for _, v := range addRounded(t, c.sigma, c.f, n, NewSeeded(uint64(90+i)), 0) {
			if k := v - steps + int64(reach); k >= 0 && k <= int64(2*reach) {
				counts[k]++
			} else {
				counts[2*reach+1]++
			}
		}
		for k := range want {
			want[k] *= float64(n)
		}
		checkCounts(t, fmt.Sprint("σ = ", c.sigma), counts, want)
	}
}
