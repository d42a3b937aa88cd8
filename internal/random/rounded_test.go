package random

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
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
	more := r.moreDigits(pair)
	return r.steps(f) + r.exactCell(radius, angle, second, &more, r.rest(f))
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
			for i, got := range addRounded(t, sigma, f, sampleSize(t, 40), s, first) {
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

// independentNormals are pairs of normals computed with mpmath 1.3.0 at 60 digits. u and w have 64
// digits after those of the first words, and are in the middle of what these leave open. They include
// radii with a probability from 2^-32 to 2^-96.
var independentNormals = []struct {
	radius, angle uint32
	u, w          uint64
	x, y          string
}{
	{0x0, 0x0, 0x0, 0x0, "11.5961438861644602321432416380647195634741256", "4.59815793862258210984218352870322560496212982e-28"},
	{0x0, 0x40000000, 0x1, 0x0, "4.56043667873896092065638790168164039179106862e-28", "11.5010142357660426749556892322717803787864688"},
	{0x0, 0x9fffffff, 0x2265b, 0xd8f16adf91b7584a, "-7.39502427234498596443946860963879402778724137", "7.39502426904396630063630293869573614299919813"},
	{0x0, 0xcd613e30, 0x10c386bbc4, 0x1e2feb89414c343c, "2.93979490893921422481912136712880027233493345", "-8.62797800378090403140020683598435964094234655"},
	{0x0, 0x7ed4d57b, 0x7311d8a3c2ce6f44, 0xa6cecc1b78e51061, "-0.194422288946943579237276854453038548626698110", "6.77664357539306193333313534515431267772149719"},
	{0x1, 0x612e7696, 0x35bf992dc9e9c616, 0x7ce42c8218072e8c, "-4.55142714464898435357107277457514705183155870", "4.82335614287689852320742558163831197704822622"},
	{0xfff, 0xe0000000, 0xe4b06ce60741c7a8, 0x63ca828dd5f4b3b2, "-3.72330090663811858600040501687427757204335589", "-3.72330091088460546083466730772292784937787462"},
	{0x80000, 0x6ec9d286, 0xc324c9859b810e76, 0x8a05a6c4647159, "-1.74047076425334666424092227957212654876843947", "3.87202599493757711738868453623556012364053231"},
	{0x7fffffff, 0x20000000, 0x7204e52db2221a58, 0xb8b6d8fe442e3d43, "0.832554612191606037787915656364567526865867066", "-0.832554610433993404352884137094914497553257173"},
	{0x80000000, 0x1fffffff, 0x3a902931cd447e35, 0xf1fd42a29755d4c1, "0.832554611160380607105481660226439204794085170", "0.832554611027064487816224895580542619370440013"},
	{0xb504f333, 0x1a2b8f1f, 0x51431193e6c3f339, 0x5b6e6e307d4bedc, "0.666637126634054740652778880498523149777683222", "0.498740536137546367007553907222934535034189089"},
	{0xb504f334, 0x6839eb9, 0x8a9a021ea648a7dd, 0xf06c144a025b413f, "0.821936396344827143087558735302203893978037469", "0.132543353478429751859798755182120247411829487"},
	{0xffffffff, 0xe1988ad9, 0xafbd67f9619699cf, 0xf8130c4237730edf, "-0.00000820266478855095144132908543859776647336150525", "-0.00000887178789345021760310470816514451222209695092"},
	{0xffffffff, 0x0, 0xffffffffffffffff, 0xffffffffffffffff, "3.55271367880050092555398800683342086207164500e-15", "5.19732907117699369511100715568661950692234080e-24"},
	{0xffff0000, 0x6c0fd4f5, 0x76f3787b9d179e0, 0x38c0c8fd8712b8bc, "-0.00259673502097625426540827520251924733654990453", "0.00487593731147886325928008848980420606523302221"},
	{0xc381e88f, 0x701966a0, 0x7eed8d14f06d3fef, 0x3bab6c398d88348a, "-0.279341502672984810076745728886455555499513480", "0.679062730590930386609386219919878813907223752"},
	{0x587fd280, 0x3b1a11df, 0x380208a9ad45f23d, 0x75a89294c2cd789a, "1.44700050233103781595512472793814219942941088", "-0.174799945023521729083090445738322834227953869"},
	{0xf3c64af7, 0x4a2f20aa, 0x5805975ed2f89d9, 0xd66b829e6a8ac4ba, "0.0773835406458791883179804205216852421822197179", "0.303115116225507384053210622388285620780550097"},
	{0xea90a8f0, 0x8e73ca47, 0xa46d6753ec148cb4, 0x2f978d8719999e3f, "-0.392162687880962342348118048737535559543818624", "0.145248689186002803214351960698776062237857295"},
	{0xa11d459a, 0xfe175330, 0xdc2574bdb94067ed, 0x1ef2a4f04be03db0, "-0.0450709077203354022857929097004255391957962232", "-0.961298529230586590003939562693812700684067716"},
}

func TestRounding_AgainstIndependentNormals(t *testing.T) {
	for _, c := range independentNormals {
		for second, text := range []string{c.x, c.y} {
			want, _, err := big.ParseFloat(text, 10, 256, big.ToNearestEven)
			if err != nil {
				t.Fatal(err)
			}
			p := newPair(c.radius, c.angle, second == 1)
			within := func(name string, z *big.Float, e float64) {
				distance, _ := new(big.Float).Sub(z, want).Float64()
				if !(math.Abs(distance) <= e) {
					t.Errorf("%s: %#x, %#x, %#x, %#x: %v, want %v, distance %g, bound %g", name, c.radius, c.angle, c.u, c.w, z, want, distance, e)
				}
			}
			z, e := p.normal()
			within("float64", big.NewFloat(z), e)
			z, e = p.refine(c.u, c.w).normal()
			within("float64 with more digits", big.NewFloat(z), e)
			u, w := new(big.Int).SetUint64(uint64(c.radius)), big.NewInt(int64(int32(c.angle<<2)>>2))
			appendDigits(u, c.u)
			appendDigits(w, c.w)
			if u.Sign() > 0 {
				exact, _ := exactNormal(u, w, 1, p.sine, p.negative)
				within("any precision", exact, 1e-40) // both are in the middle
			}
			// The cell, where these digits determine it.
			r := newRounding(RoundedGaussian{0x1.5555p30}, chachaState{})
			y, _ := new(big.Float).Mul(want, big.NewFloat(r.scale)).Float64()
			digits := uniformBits{out: chachaState{uint32(c.u), uint32(c.u >> 32), uint32(c.w), uint32(c.w >> 32)}}
			if got := r.exactCell(c.radius, c.angle, second == 1, &digits, 0.25); c.u>>16|uint64(c.radius) != 0 && got != int64(math.Floor(y+0.75)) {
				t.Errorf("%#x, %#x, %#x, %#x: cell %d, want that of %v", c.radius, c.angle, c.u, c.w, got, y+0.25)
			}
		}
	}
}

// The interval of every stage contains that of a stage with more digits, for 2,000 pairs. With an
// eighth of the stated width some do not: this shows that the test can fail. The arithmetic of
// float64 alone is between 2^-53·r and its bound 2^-47·r.
func TestRounding_IntervalsAreNested(t *testing.T) {
	draws := sampleSize(t, 2000)
	if full {
		draws = 200_000
	}
	rng := rand.New(rand.NewPCG(7, 8))
	outside := map[string]int{}
	arithmetic := 0.0
	for range draws {
		radius, angle, second := rng.Uint32()>>rng.UintN(32), rng.Uint32(), rng.IntN(2) == 1
		if rng.IntN(3) == 0 {
			radius = ^radius
		}
		digits := [2][2]uint64{{rng.Uint64()>>rng.UintN(64) | 1, rng.Uint64()}, {rng.Uint64(), rng.Uint64()}}
		p := newPair(radius, angle, second)
		refined := p.refine(digits[0][0], digits[1][0])
		u, w := new(big.Int).SetUint64(uint64(radius)), big.NewInt(int64(int32(angle<<2)>>2))
		z, e := make([]*big.Float, 3), make([]*big.Float, 3)
		for n := uint(1); n <= 2; n++ {
			appendDigits(u, digits[0][n-1])
			appendDigits(w, digits[1][n-1])
			z[n], e[n] = exactNormal(u, w, n, p.sine, p.negative)
		}
		within := func(name string, outerZ, outerE *big.Float) {
			distance := new(big.Float).Sub(z[2], outerZ)
			distance.Abs(distance).Add(distance, e[2])
			if distance.Cmp(outerE) > 0 {
				outside[name]++
			}
			if distance.Mul(distance, big.NewFloat(8)).Cmp(outerE) > 0 {
				outside[name+", an eighth"]++
			}
		}
		within("any precision", z[1], e[1])
		for name, p := range map[string]pair{"float64": p, "float64 with more digits": refined} {
			if cz, ce := p.normal(); !math.IsInf(ce, 1) {
				within(name, big.NewFloat(cz), big.NewFloat(ce))
			}
		}
		if radius > 1<<20 && radius < 1<<32-1<<20 { // the digits leave less than 2^-56 open
			cz, _ := refined.normal()
			distance, _ := new(big.Float).Sub(z[2], big.NewFloat(cz)).Float64()
			arithmetic = max(arithmetic, math.Abs(distance)/radiusOf(uint64(radius)))
		}
	}
	for _, name := range []string{"float64", "float64 with more digits", "any precision"} {
		if n := outside[name]; n > 0 {
			t.Errorf("%s: %d intervals do not contain the next", name, n)
		}
		if n := outside[name+", an eighth"]; n == 0 && name != "float64 with more digits" { // its arithmetic dominates
			t.Errorf("%s: a wrong bound was not found", name)
		}
	}
	t.Logf("greatest error of float64: %.2f·2^-53 of r", arithmetic*(1<<53))
	if !(arithmetic > 0x1p-53 && arithmetic < 12*0x1p-53) {
		t.Errorf("error of float64: %g of r", arithmetic)
	}
}

// For any value there is a sum f at which the cell changes: f/g + N/g is just below the boundary
// for f - 1 and just above for f. The grid of 2^51 steps puts both within 2^-51 of it. There
// only exact intervals decide.
func TestRoundedGaussian_DecidesAtBoundaries(t *testing.T) {
	const sigma = 0x1.6p59
	s := NewSeeded(8)
	r := roundingOf(t, sigma, s)
	stages := [3]int{}
	for i := range uint64(sampleSize(t, 300)) {
		pair, radius, angle, second := roundedWordsOf(s, i)
		more := r.moreDigits(pair)
		u, w := new(big.Int).SetUint64(uint64(radius)), big.NewInt(int64(int32(angle<<2)>>2))
		for range 3 {
			appendDigits(u, more.next())
			appendDigits(w, more.next())
		}
		p := newPair(radius, angle, second)
		z, _ := exactNormal(u, w, 3, p.sine, p.negative)
		// The first f with f + N >= g/2, modulo g.
		y := new(big.Float).SetPrec(400).Mul(z, big.NewFloat(-sigma))
		f := floor(y.Add(y, big.NewFloat(math.Ldexp(0.5, r.grid))))
		f.Add(f, big.NewInt(1))
		above := f.Int64()
		for _, shift := range []int64{0, 1, -1, 12345, 1 << 34} { // the boundary is 2^0 … 2^-18 steps away
			for _, side := range []struct{ f, cell int64 }{{above + shift, 1}, {above - 1 - shift, 0}} {
				want := side.cell
				if shift < 0 {
					want = 1 - want
				}
				sums := []int64{side.f}
				if err := (RoundedGaussian{sigma}).Add(s, sums, testStream, i); err != nil {
					t.Fatal(err)
				}
				if sums[0] != want {
					t.Fatalf("value %d: %d is rounded to %d, want %d", i, side.f, sums[0], want)
				}
				more := r.moreDigits(pair)
				if _, ok := r.cell64(p, r.rest(side.f)); ok {
					stages[0]++
				} else if _, ok := r.cell64(p.refine(more.next(), more.next()), r.rest(side.f)); ok {
					stages[1]++
				} else {
					stages[2]++
				}
			}
		}
	}
	t.Logf("decided by float64: %d, with more digits: %d, by exact intervals: %d", stages[0], stages[1], stages[2])
	if stages[0] == 0 || stages[1] == 0 || stages[2] == 0 {
		t.Error("a stage was not used")
	}
}

// Undecided values need more digits than a float64 has where all first digits of u are 0.
func TestRounding_NeedsManyDigits(t *testing.T) {
	r := newRounding(RoundedGaussian{300}, chachaState{})
	zeros := uniformBits{in: newState(Key{1}, [3]uint32{})} // the first eight words are zeros of u and w
	if got := r.exactCell(0, 0, false, &zeros, 0); got < int64(300*16) || got > int64(300*21) {
		t.Errorf("u < 2^-288 gives %d", got) // √(2·288·ln 2) = 19.98
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

// Cells of about 1/300 standard deviation, as they are released. The probabilities are differences of
// float64 distribution functions, exact to 1e-12 of a cell. 10^7 values; with
// DPTRAIN_FULL 10^9.
func TestRoundedGaussian_Distribution(t *testing.T) {
	n := sampleSize(t, 1<<21)
	if full {
		n = 1 << 28
	}
	cases := []struct {
		sigma float64
		f     int64
	}{{0.2, 3}, {256, -2}, {1 << 20, 1<<40 + 777}, {0x1.3p22, -1e15 - 77}, {0x1.77p33, -1<<55 + 999}}
	if full {
		cases = cases[1:]
	}
	for i, c := range cases {
		t.Run(fmt.Sprint("σ = ", c.sigma), func(t *testing.T) {
			r := roundingOf(t, c.sigma, NewSeeded(1))
			steps, rest := r.steps(c.f), r.rest(c.f)
			reach := int(r.scale)
			for cell := float64(reach); float64(n)*math.Exp(-cell*cell/(2*r.scale*r.scale))/(r.scale*2.51) > 12; cell++ {
				reach++ // while a cell is expected at least ten times
			}
			counts, want := make([]float64, 2*reach+2), roundedCells(rest, r.scale, reach)
			sums := make([]int64, 1<<15)
			for first := 0; first < n; first += len(sums) {
				sums = sums[:min(len(sums), n-first)]
				for i := range sums {
					sums[i] = c.f
				}
				if err := (RoundedGaussian{c.sigma}).Add(NewSeeded(uint64(90+i)), sums, testStream, uint64(first)); err != nil {
					t.Fatal(err)
				}
				for _, v := range sums {
					if k := v - steps + int64(reach); k >= 0 && k <= int64(2*reach) {
						counts[k]++
					} else {
						counts[2*reach+1]++
					}
				}
			}
			for k := range want {
				want[k] *= float64(n)
			}
			checkCounts(t, "cells", counts, want)
		})
	}
}

// Given that the first 32 digits of u are 0 (6.7 standard deviations) and that the first 64 are (9.4),
// the radius has the distribution that remains.
func TestRounding_TailDistribution(t *testing.T) {
	for _, zeros := range []int{32, 50} {
		n := sampleSize(t, 1<<17)
		words := sample(t, 2*n, NewSeeded(uint64(zeros)).Uint64s, testStream)
		p := make([]float64, n)
		for i := range p {
			u, angle := words[2*i]>>(zeros-32), words[2*i+1]
			var z [2]float64
			for second := range z {
				z[second], _ = newPair(0, uint32(angle), second == 1).refine(u, angle<<30).normal()
			}
			p[i] = min(math.Exp(float64(zeros)*math.Ln2-(z[0]*z[0]+z[1]*z[1])/2), 1-0x1p-30)
		}
		checkDistribution(t, fmt.Sprint("u < 2^-", zeros), p)
	}
}

func TestRoundedGaussian_Uncorrelated(t *testing.T) {
	n := sampleSize(t, 1<<19)
	x := make([]float32, n+2048)
	for i, v := range addRounded(t, 256, 0, n+2048, NewSeeded(95), 0) {
		x[i] = float32(v) / 256
	}
	for _, lag := range []int{1, 2, 8, 15, 16, 17, 31, 32, 48, 256, 511, 512, 528, 1024} {
		checkUncorrelated(t, fmt.Sprint("lag ", lag), x[:n], x[lag:lag+n])
	}
}

// 2^18 values of each kind have these bits on every processor. The sum was computed in pure Go.
func TestRoundedGaussian_SameBitsOnEveryProcessor(t *testing.T) {
	check := func(t testing.TB, set string) {
		h := sha256.New()
		for i, sigma := range []float64{0.3, 1 << 17, 5e6, 0x1.fffffp26, 1e11} {
			binary.Write(h, binary.LittleEndian, addRounded(t, sigma, int64(i)*1e9+7, 1<<18, NewSeeded(uint64(i)), 0))
		}
		if got := hex.EncodeToString(h.Sum(nil)[:12]); got != "d4fedeaae06fa58ab5aa7312" {
			t.Errorf("%s: sum %s", set, got)
		}
	}
	check(t, "widest")
	eachSet(t, check)
}
