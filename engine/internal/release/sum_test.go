package release

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/noise"
)

// hostileVectors are contributions that break careless arithmetic.
func hostileVectors() [][]float64 {
	nan, inf, least := math.NaN(), math.Inf(1), math.SmallestNonzeroFloat64
	return [][]float64{
		{nan, 1, 1, 1}, {1, inf, 1, 1}, {inf, inf, inf, inf}, {-inf, inf, nan, 0},
		{1e300, 1, 0, 0}, {1e300, -1e300, 1e300, 1e300}, {math.MaxFloat64, math.MaxFloat64, math.MaxFloat64, math.MaxFloat64},
		{least, least, 0, 0}, {1e-310, -1e-310, 1e-320, 0}, {1e-300, 1, 1e300, 0}, {math.Copysign(0, -1), 0, 0, 0},
		{1 << 31, 1 << 31, 1 << 31, 1 << 31}, {-(1 << 62), 1 << 62, 1 << 62, 1 << 62}, {1e19, -1e19, 0, 0},
		{0.5, 0.5, 0.5, 0.5}, {0.7, 0, 0, 0}, {math.Nextafter(0.7, 1), 0, 0, 0}, {0.7 / 2, 0.7 / 2, -0.7 / 2, 0.7 / 2},
	}
}

// The integers of a record have a norm of at most the lattice, computed by math/big. They are the
// scaled vector, computed with 200 bits, rounded toward zero, or less than two steps closer to
// zero. The sum is the sum of the records' integers.
func TestNoisedSum_MatchesBigOracle(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	vectors := hostileVectors()
	for range 3000 {
		v := make([]float64, 4)
		scale := math.Ldexp(1, random.IntN(80)-60)
		for i := range v {
			v[i] = random.NormFloat64() * scale
		}
		if random.IntN(4) == 0 { // Pythagorean: at the sensitivity, with nothing lost by rounding
			v = []float64{0.7 * 0.6, 0.7 * -0.8, 0, 0}
		}
		vectors = append(vectors, v)
	}
	for _, lattice := range []int64{CountLattice, 1000, StatisticLattice} {
		s := NewSum(ledger.RoundedQuery("s", 0.7, 1, lattice), 4)
		want := make([]*big.Int, 4)
		for i := range want {
			want[i] = new(big.Int)
		}
		for _, v := range vectors {
			before := slices.Clone(s.Integers)
			s.Add(v)
			squares := new(big.Int)
			var added []int64
			for i, sum := range s.Integers {
				added = append(added, sum-before[i])
				squares.Add(squares, new(big.Int).Mul(big.NewInt(added[i]), big.NewInt(added[i])))
				want[i].Add(want[i], big.NewInt(added[i]))
			}
			if squares.Cmp(new(big.Int).Mul(big.NewInt(lattice), big.NewInt(lattice))) > 0 {
				t.Fatalf("lattice %d: %v adds %v, which is longer than the lattice", lattice, v, added)
			}
			for i, x := range scaledInSteps(v, 0.7, lattice) {
				least, _ := new(big.Float).SetPrec(200).Abs(x).Float64()
				if got := math.Abs(float64(added[i])); got > least*(1+1e-15) || got < least*(1-0x1p-19)-2 || added[i] != 0 && (added[i] < 0) != (v[i] < 0) {
					t.Fatalf("lattice %d: %v adds %v, and number %d is %s before rounding", lattice, v, added, i, x.Text('g', 20))
				}
			}
		}
		for i, sum := range s.Integers {
			if want[i].Cmp(big.NewInt(sum)) != 0 {
				t.Errorf("lattice %d: sum %d, want %s", lattice, sum, want[i])
			}
		}
	}
}

// scaledInSteps returns a vector times min(1, S/norm) in lattice steps; zeros where it is not finite.
func scaledInSteps(v []float64, sensitivity float64, lattice int64) []*big.Float {
	number := func(x float64) *big.Float { return new(big.Float).SetPrec(200).SetFloat64(x) }
	steps := make([]*big.Float, len(v))
	squares := number(0)
	for i := range v {
		steps[i] = number(0)
		if math.IsNaN(v[i]) || math.IsInf(v[i], 0) {
			for j := range v {
				steps[j] = number(0)
			}
			return steps
		}
		squares.Add(squares, number(0).Mul(number(v[i]), number(v[i])))
	}
	length := number(0).Sqrt(squares)
	if length.Cmp(number(sensitivity)) < 0 {
		length = number(sensitivity)
	}
	for i := range v {
		steps[i].Mul(number(v[i]), number(float64(lattice)))
		steps[i].Quo(steps[i], length)
	}
	return steps
}

// isWithin agrees with math/big at the bound and one step beyond, and where squares would overflow.
func TestIsWithin_MatchesBig(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	large := []int64{0, 1, -1, 1 << 30, -(1 << 30), 1<<30 + 1, 1 << 31, -(1 << 31), 1<<31 + 1, 1 << 32, 1 << 62, math.MaxInt64, math.MinInt64}
	for range 20_000 {
		bound := int64(1) << random.IntN(32)
		v := make([]int64, 1+random.IntN(5))
		squares := new(big.Int)
		for i := range v {
			if v[i] = random.Int64N(2*bound+1) - bound; random.IntN(5) == 0 {
				v[i] = large[random.IntN(len(large))]
			}
			if random.IntN(3) == 0 { // 3² + 4² = 5²
				v[i] = []int64{0, 3, 4}[random.IntN(3)] * bound / 5
			}
			squares.Add(squares, new(big.Int).Mul(big.NewInt(v[i]), big.NewInt(v[i])))
		}
		want := squares.Cmp(new(big.Int).Mul(big.NewInt(bound), big.NewInt(bound))) <= 0
		if got := isWithin(v, bound); got != want {
			t.Fatalf("%v within %d: %v, want %v", v, bound, got, want)
		}
	}
}

// A release is the integer sum with the noise of the sampler, for any order of the records, and
// differs between two data sets by the record's integers alone: nothing else of the sum moves.
func TestNoisedSum_ReleasesRoundedGaussian(t *testing.T) {
	q := ledger.RoundedQuery("s", 0.7, 5, StatisticLattice)
	source, stream := noise.NewSeeded(9), noise.Stream{Purpose: noise.Release, Lot: 4, Vector: 2}
	vectors := slices.Concat(hostileVectors(), [][]float64{{0.1, 0.2, 0.3, 0.4}, {-1, 2, -3, 4}})
	release := func(order []int) []float64 {
		s, out := NewSum(q, 4), make([]float64, 4)
		for _, i := range order {
			s.Add(vectors[i])
		}
		if err := s.Release(out, source, stream); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(s.Integers, func(v int64) bool { return v != 0 }) {
			t.Error("a release leaves a sum behind")
		}
		return out
	}
	order := rand.New(rand.NewPCG(5, 6)).Perm(len(vectors))
	first := release(order)
	slices.Sort(order)
	if got := release(order); !slices.Equal(got, first) {
		t.Errorf("another order releases %v, not %v", got, first)
	}
	sums := make([]int64, 4)
	for _, v := range vectors {
		s := NewSum(q, 4)
		s.Add(v)
		for i := range sums {
			sums[i] += s.Integers[i]
		}
	}
	sampler := noise.RoundedGaussian{Sigma: 5 / 0.7 * (1 << 30) * (1 + 0x1p-52)}
	if err := sampler.Add(source, sums, stream, 0); err != nil {
		t.Fatal(err)
	}
	for i, v := range first {
		if want := float64(sums[i]) * math.Ldexp(0.7, q.Grid-30); v != want {
			t.Errorf("number %d is released as %v, want %v", i, v, want)
		}
	}
}

// Vectors of integers barely longer than the lattice, in the unit of the sensitivity: their norm in
// float64 is the sensitivity, and they are integers after scaling. The check in integers finds them.
func TestNoisedSum_RoundsAgainBeyondLattice(t *testing.T) {
	const lattice = StatisticLattice
	random := rand.New(rand.NewPCG(7, 8))
	beyond := 0
	for range 300_000 {
		g := []int64{random.Int64N(lattice / 2), random.Int64N(lattice / 2), 0, 0}
		rest := lattice*lattice - g[0]*g[0] - g[1]*g[1]
		g[2] = int64(math.Sqrt(float64(rest)))
		rest -= g[2] * g[2]
		g[3] = int64(math.Sqrt(float64(max(0, rest)))) + 1
		if excess := g[3]*g[3] - rest; excess < 1 || excess > 200 {
			continue
		}
		v := make([]float64, 4)
		for i := range v {
			v[i] = math.Ldexp(float64(g[i]), -30)
		}
		s := NewSum(ledger.RoundedQuery("s", 1, 1, lattice), 4)
		s.Add(v)
		if isWithin(g, lattice) {
			t.Fatal("the vector is not longer than the lattice")
		}
		if _, norm := scaledNorm(v); norm <= 1 {
			beyond++
		}
		if !isWithin(s.Integers, lattice) || s.Integers[2] < int64(float64(g[2])*(1-0x1p-19)) {
			t.Fatalf("%v adds %v", g, s.Integers)
		}
	}
	if beyond < 10 {
		t.Errorf("only %d vectors look as if they were within the sensitivity", beyond)
	}
}
