package random

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"
)

// These tests compare samples with their distribution. A correct sampler fails each test with
// probability at most 1e-6; the bounds for tests of many statistics are wider. The seeds are
// fixed, so the results do not vary.

// normalBound is for statistics that are nearly standard normal. The probability beyond it is
// 1e-8, so a hundred of them together fail with probability 1e-6.
const normalBound = 5.74

func sampleSize(t *testing.T, n int) int {
	if testing.Short() {
		return n / 8
	}
	return n
}

func sample[T any](t *testing.T, n int, draw func([]T, Stream, uint64) error, st Stream) []T {
	t.Helper()
	out := make([]T, n)
	if err := draw(out, st, 0); err != nil {
		t.Fatal(err)
	}
	return out
}

// Distribution functions.
func normalCDF(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

func laplaceCDF(x float64) float64 {
	if x < 0 {
		return math.Exp(x) / 2
	}
	return 1 - math.Exp(-x)/2
}

// checkDistribution compares the sorted probabilities F(x) of a sample with the uniform
// distribution by Kolmogorov–Smirnov and Anderson–Darling.
func checkDistribution(t *testing.T, name string, p []float64) {
	t.Helper()
	slices.Sort(p)
	n := float64(len(p))
	ks, ad := 0.0, -n
	for i, v := range p {
		ks = max(ks, float64(i+1)/n-v, v-float64(i)/n)
		ad -= (2*float64(i) + 1) / n * (math.Log(v) + math.Log1p(-p[len(p)-1-i]))
	}
	// P(√n·D > c) < 2·exp(-2c²) (Massart 1990).
	if got := math.Sqrt(n) * ks; !(got < 2.7) {
		t.Errorf("%s: Kolmogorov–Smirnov statistic %.3f, bound 2.7", name, got)
	}
	// A² tends to Σ χ²/(j(j+1)), whose tail is √3·erfc(√a): the largest weight,
	// times Π_{j>1} (1 - 2/(j(j+1)))^(-1/2) = √3 for the others.
	if !(ad < 12.5) {
		t.Errorf("%s: Anderson–Darling statistic %.3f, bound 12.5", name, ad)
	}
	t.Logf("%s: KS %.3f, AD %.3f", name, math.Sqrt(n)*ks, ad)
}

// checkCounts compares counts with their expectations by χ². Its 1e-6 quantile is
// Wilson and Hilferty's.
func checkCounts(t *testing.T, name string, counts, want []float64) {
	t.Helper()
	chi := 0.0
	for i, c := range counts {
		chi += (c - want[i]) * (c - want[i]) / want[i]
	}
	k := float64(len(counts) - 1)
	bound := k * math.Pow(1-2/(9*k)+4.76*math.Sqrt(2/(9*k)), 3)
	if !(chi < bound) {
		t.Errorf("%s: χ² is %.1f for %v degrees of freedom, bound %.1f", name, chi, k, bound)
	}
}

func check(t *testing.T, name string, z float64) {
	t.Helper()
	if !(math.Abs(z) < normalBound) {
		t.Errorf("%s: %.2f standard deviations off", name, z)
	}
}

func TestNormals_Distribution(t *testing.T) {
	n := sampleSize(t, 1<<20)
	p := make([]float64, n)
	for i, x := range sample(t, n, NewSeeded(11).Normals, testStream) {
		p[i] = normalCDF(float64(x))
	}
	checkDistribution(t, "Normals", p)
	for i, x := range sample(t, n, NewSeeded(12).Normals64, testStream) {
		p[i] = normalCDF(x)
	}
	checkDistribution(t, "Normals64", p)
	for i, x := range sample(t, n, NewSeeded(13).Laplaces, testStream) {
		p[i] = laplaceCDF(x)
	}
	checkDistribution(t, "Laplaces", p)
}

// Given u < 2^-k, -ln u - k·ln 2 is exponential: this tests the distribution beyond 5.2, 7.4
// and 8.7 standard deviations, which a sample of this size does not reach.
func TestNormals_TailDistribution(t *testing.T) {
	for _, k := range []int{20, 40, 55} {
		n := sampleSize(t, 1<<18)
		words := sample(t, 2*n, NewSeeded(uint64(k)).Uint64s, testStream)
		p, p64 := make([]float64, n), make([]float64, n)
		for i := range n {
			u := words[2*i] >> k
			x, y := BoxMuller(uint32(u>>32), uint32(u), uint32(words[2*i+1]))
			p[i] = math.Exp(float64(k)*math.Ln2 - (float64(x)*float64(x)+float64(y)*float64(y))/2)
			a, b := boxMuller64(u, words[2*i+1])
			p64[i] = math.Exp(float64(k)*math.Ln2 - (a*a+b*b)/2)
		}
		if k == 55 { // 512 values of u: as counts
			counts, want := make([]float64, 512), make([]float64, 512)
			for i := range n {
				counts[min(int(p[i]*512), 511)]++
				want[i%512]++
			}
			checkCounts(t, "u < 2^-55", counts, want)
			continue
		}
		for i := range n { // float32 leaves a few above 1
			p[i], p64[i] = min(p[i], 1-0x1p-30), min(p64[i], 1-0x1p-30)
		}
		checkDistribution(t, "float32 tail", p)
		checkDistribution(t, "float64 tail", p64)
	}
}

func TestNormals_Moments(t *testing.T) {
	n := sampleSize(t, 1<<22)
	x := sample(t, n, NewSeeded(21).Normals, testStream)
	var sums [6]float64
	for _, v := range x {
		power := 1.0
		for k := range sums {
			power *= float64(v)
			sums[k] += power
		}
	}
	odd := []float64{0, 1, 0, 3, 0, 15, 0, 105, 0, 945, 0, 10395} // E x^(k+1)
	for k, s := range sums {
		variance := odd[2*k+1] - odd[k]*odd[k]
		check(t, "moment", (s/float64(n)-odd[k])/math.Sqrt(variance/float64(n)))
	}
}

func TestNormals_TailCounts(t *testing.T) {
	n := sampleSize(t, 1<<24)
	x := sample(t, n, NewSeeded(31).Normals, testStream)
	for _, a := range []float64{2, 3, 4, 5, 5.5} {
		above, below := 0, 0
		for _, v := range x {
			if float64(v) > a {
				above++
			} else if float64(v) < -a {
				below++
			}
		}
		mean := float64(n) * normalCDF(-a)
		for _, count := range []int{above, below} {
			if p := poissonBeyond(count, mean); p < 1e-7 {
				t.Errorf("%d values beyond %v, %.2f expected: probability %.1g", count, a, mean, p)
			}
		}
	}
}

// poissonBeyond bounds the probability of a count at least as far out as this one
// (Chernoff's bound, on both sides of the mean).
func poissonBeyond(count int, mean float64) float64 {
	c := float64(count)
	if count == 0 {
		return math.Exp(-mean)
	}
	return math.Exp(c - mean - c*math.Log(c/mean))
}

// Values, squares and signs are uncorrelated at every distance that an error in the layout
// could correlate: neighbours, the partner of the pair (16), the next word (32), the
// next batch (512).
func TestNormals_Uncorrelated(t *testing.T) {
	n := sampleSize(t, 1<<20)
	x := sample(t, n+2048, NewSeeded(41).Normals, testStream)
	lags := []int{1, 2, 3, 4, 8, 15, 16, 17, 31, 32, 48, 64, 256, 496, 511, 512, 513, 528, 1024, 1536}
	for _, lag := range lags {
		checkUncorrelated(t, "lag", x[:n], x[lag:lag+n])
	}
	// The partners themselves, pair by pair.
	first, second := make([]float32, 0, n), make([]float32, 0, n)
	for i := range n {
		if i%32 < 16 {
			first, second = append(first, x[i]), append(second, x[i+16])
		}
	}
	checkUncorrelated(t, "pair", first, second)
}

func checkUncorrelated(t *testing.T, name string, a, b []float32) {
	t.Helper()
	var product, squares, mixed, signs float64
	for i := range a {
		u, v := float64(a[i]), float64(b[i])
		product += u * v
		squares += (u*u - 1) * (v*v - 1)
		mixed += u * (v*v - 1)
		signs += math.Copysign(1, u) * math.Copysign(1, v)
	}
	root := math.Sqrt(float64(len(a)))
	check(t, name+" values", product/root)
	check(t, name+" squares", squares/root/2)
	check(t, name+" values and squares", mixed/root/math.Sqrt2)
	check(t, name+" signs", signs/root)
}

func TestStreams_Uncorrelated(t *testing.T) {
	n := sampleSize(t, 1<<19)
	base := sample(t, n, NewSeeded(51).Normals, testStream)
	for name, other := range map[string][]float32{
		"seed":    sample(t, n, NewSeeded(52).Normals, testStream),
		"purpose": sample(t, n, NewSeeded(51).Normals, Stream{Sampling, testStream.Lot, testStream.Vector}),
		"lot":     sample(t, n, NewSeeded(51).Normals, Stream{Release, testStream.Lot + 1, testStream.Vector}),
		"vector":  sample(t, n, NewSeeded(51).Normals, Stream{Release, testStream.Lot, testStream.Vector + 1}),
	} {
		checkUncorrelated(t, name, base, other)
	}
}

// Angle and radius of the pairs are uniform over 64 sectors by 16 rings of equal probability.
func TestBoxMuller_PairsUniformInPlane(t *testing.T) {
	n := sampleSize(t, 1<<21)
	x := sample(t, n, NewSeeded(61).Normals, testStream)
	counts, want := make([]float64, 64*16), make([]float64, 64*16)
	pairs := 0
	for i := range n {
		if i%32 >= 16 {
			continue
		}
		a, b := float64(x[i]), float64(x[i+16])
		ring := min(int(math.Exp(-(a*a+b*b)/2)*16), 15)
		sector := min(int((math.Atan2(b, a)+math.Pi)/(2*math.Pi)*64), 63)
		counts[ring*64+sector]++
		pairs++
	}
	for i := range want {
		want[i] = float64(pairs) / float64(len(want))
	}
	checkCounts(t, "sectors and rings", counts, want)
}

func TestUint64s_Uniform(t *testing.T) {
	n := sampleSize(t, 1<<20)
	words := sample(t, n, NewSeeded(71).Uint64s, testStream)
	var ones [64]float64
	counts, want := make([]float64, 256), make([]float64, 256)
	for i, w := range words {
		for b := range ones {
			ones[b] += float64(w >> b & 1)
		}
		for b := 0; b < 64; b += 8 {
			counts[byte(w>>b)]++
			want[(8*i+b/8)%256]++
		}
	}
	for _, c := range ones {
		check(t, "bit", (c-float64(n)/2)/math.Sqrt(float64(n)/4))
	}
	checkCounts(t, "bytes", counts, want)
}

func TestDiscreteGaussians_Distribution(t *testing.T) {
	for _, c := range []struct{ num, den int64 }{{1, 4}, {1, 1}, {7, 3}, {100, 1}, {12345, 7}} {
		n := sampleSize(t, 160_000)
		variance := big.NewRat(c.num, c.den)
		x := make([]int64, n)
		if err := NewSeeded(81).DiscreteGaussians(x, testStream, 0, variance); err != nil {
			t.Fatal(err)
		}
		// Counts of the values that are expected at least ten times, and of the rest.
		v := float64(c.num) / float64(c.den)
		weight := func(k int) float64 { return math.Exp(-float64(k) * float64(k) / (2 * v)) }
		total := 1.0
		for k := 1; weight(k) > 1e-18; k++ {
			total += 2 * weight(k)
		}
		reach := 0
		for float64(n)*weight(reach+1)/total >= 10 {
			reach++
		}
		counts, want := make([]float64, 2*reach+2), make([]float64, 2*reach+2)
		rest := float64(n)
		for k := -reach; k <= reach; k++ {
			want[k+reach] = float64(n) * weight(k) / total
			rest -= want[k+reach]
		}
		want[2*reach+1] = rest
		for _, k := range x {
			if k < int64(-reach) || k > int64(reach) {
				counts[2*reach+1]++
			} else {
				counts[k+int64(reach)]++
			}
		}
		checkCounts(t, "variance "+variance.String(), counts, want)
	}
}

// With σ = 2^40 the lattice is so fine that the values are close to Gaussian.
func TestDiscreteGaussians_WideIsGaussian(t *testing.T) {
	n := sampleSize(t, 100_000)
	x := make([]int64, n)
	variance := new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), 80))
	if err := NewSeeded(82).DiscreteGaussians(x, testStream, 0, variance); err != nil {
		t.Fatal(err)
	}
	p := make([]float64, n)
	for i, k := range x {
		p[i] = normalCDF(float64(k) * 0x1p-40)
	}
	checkDistribution(t, "σ = 2^40", p)
}

func TestDiscreteGaussians_RejectInvalidVariance(t *testing.T) {
	s, dst := NewSeeded(1), make([]int64, 2)
	for name, variance := range map[string]*big.Rat{
		"none": nil, "0": new(big.Rat), "negative": big.NewRat(-1, 2),
		"above 2^100": new(big.Rat).Add(maxVariance, big.NewRat(1, 3)),
	} {
		if err := s.DiscreteGaussians(dst, testStream, 0, variance); err == nil {
			t.Errorf("variance %s: no error", name)
		}
	}
	if err := s.DiscreteGaussians(dst, testStream, MaxDiscrete-1, big.NewRat(1, 1)); err == nil {
		t.Error("past the last value: no error")
	}
	if err := s.DiscreteGaussians(dst, testStream, 0, maxVariance); err != nil {
		t.Error(err)
	}
}

// At n = 3·2⁶² a quarter of the words are sample again; without that a third of the
// numbers would come twice as often. Bounds are 5.2 standard deviations: 2e-7.
func TestUniformBits_Below(t *testing.T) {
	const n, draws = 3 << 62, 30000
	var bits uniformBits
	bits.restart(KeyOf(NewSeeded(21)))
	var thirds [3]float64
	for range draws {
		thirds[bits.below(n)%3]++
	}
	for i, got := range thirds {
		if !(math.Abs(got-draws/3) <= 5.2*math.Sqrt(draws*2./9)) {
			t.Errorf("%v of %d numbers are %d mod 3", got, draws, i)
		}
	}
}

// Counts of the values that are expected at least ten times, and of the rest.
func TestDiscreteLaplaces_Distribution(t *testing.T) {
	for _, scale := range []uint64{1, 2, 9, 100} {
		n := sampleSize(t, 160_000)
		x := make([]int64, n)
		if err := NewSeeded(83).DiscreteLaplaces(x, testStream, 0, scale); err != nil {
			t.Fatal(err)
		}
		a := math.Exp(-1 / float64(scale))
		expected := func(k int) float64 { return float64(n) * (1 - a) / (1 + a) * math.Pow(a, math.Abs(float64(k))) }
		reach := 0
		for expected(reach+1) >= 10 {
			reach++
		}
		counts, want := make([]float64, 2*reach+2), make([]float64, 2*reach+2)
		rest := float64(n)
		for k := -reach; k <= reach; k++ {
			want[k+reach] = expected(k)
			rest -= expected(k)
		}
		want[2*reach+1] = rest
		for _, k := range x {
			if k < int64(-reach) || k > int64(reach) {
				counts[2*reach+1]++
			} else {
				counts[k+int64(reach)]++
			}
		}
		checkCounts(t, fmt.Sprint("scale ", scale), counts, want)
	}
}

func TestDiscreteLaplaces_WideIsLaplace(t *testing.T) {
	n := sampleSize(t, 100_000)
	x := make([]int64, n)
	if err := NewSeeded(84).DiscreteLaplaces(x, testStream, 0, 1<<40); err != nil {
		t.Fatal(err)
	}
	p := make([]float64, n)
	for i, k := range x {
		p[i] = laplaceCDF(float64(k) * 0x1p-40)
	}
	checkDistribution(t, "scale 2^40", p)
}

func TestDiscreteLaplaces_RejectInvalidScale(t *testing.T) {
	s, dst := NewSeeded(1), make([]int64, 2)
	for _, scale := range []uint64{0, MaxLaplaceScale + 1} {
		if err := s.DiscreteLaplaces(dst, testStream, 0, scale); err == nil {
			t.Errorf("scale %d: no error", scale)
		}
	}
	if err := s.DiscreteLaplaces(dst, testStream, MaxDiscrete-1, 1); err == nil {
		t.Error("past the last value: no error")
	}
	if err := s.DiscreteLaplaces(dst, testStream, 0, MaxLaplaceScale); err != nil {
		t.Error(err)
	}
}
