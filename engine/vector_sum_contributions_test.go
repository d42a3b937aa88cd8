package engine

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/clip"
)

// hostileRecords returns the vectors of records for vectorSumConfig: hostile and random ones.
func hostileRecords(random *rand.Rand, count int) (records [][][]float64) {
	for _, v := range hostileContributions() {
		records = append(records,
			[][]float64{v, {0.1, -0.2, 0.3}, {0.01, 0.02}},
			[][]float64{{0.1, 0.2, 0.3, 0.4}, v[:3], v[2:]},
			[][]float64{v, v[1:], {v[3], v[0]}})
	}
	for range count {
		record := [][]float64{make([]float64, 4), make([]float64, 3), make([]float64, 2)}
		for _, v := range record {
			scale := math.Ldexp(1, random.IntN(40)-30)
			for i := range v {
				v[i] = random.NormFloat64() * scale
			}
		}
		records = append(records, record)
	}
	return records
}

// A record adds integers to each group: its vectors, divided by their scales and clipped, computed
// with 200 bits. The norm is at most the lattice, computed by math/big; at most a millionth of the
// bound is lost. A record with a number that is not finite adds nothing to any group.
func TestVectorSum_MatchesBigOracle(t *testing.T) {
	rules := map[string]clip.Rule{"threshold": nil, "normalized": clip.Normalized{Gamma: 0.01}, "unbounded": hugeFactor{}}
	for name, rule := range rules {
		c := vectorSumConfig(t)
		for g := range c.Mechanism.Clipping {
			c.Mechanism.Clipping[g].Rule = rule
		}
		c.CallerDraws, c.Records = true, 1000
		s := newVectorSum(t, c)
		startLot(t, s)
		scales, bounds := [][]float64{{1}, {2, 0.25}}, []float64{0.7, 3}
		for i, record := range hostileRecords(rand.New(rand.NewPCG(1, 2)), 300) {
			sums := s.lot.Mechanism.Vectors.Sums
			before := [][]int64{slices.Clone(sums[0].Integers), slices.Clone(sums[1].Integers)}
			addVectors(t, s, i, 1, record)
			finite := true
			for _, x := range slices.Concat(record...) {
				finite = finite && !math.IsNaN(x) && !math.IsInf(x, 0)
			}
			for g, parts := range [][][]float64{record[:1], record[1:]} {
				added := slices.Clone(sums[g].Integers)
				squares := new(big.Int)
				for k := range added {
					added[k] -= before[g][k]
					squares.Add(squares, new(big.Int).Mul(big.NewInt(added[k]), big.NewInt(added[k])))
				}
				lattice := big.NewInt(sums[g].Query.Lattice)
				if squares.Cmp(lattice.Mul(lattice, lattice)) > 0 {
					t.Fatalf("%s, record %d, group %d: integers %v are longer than the lattice", name, i, g, added)
				}
				if !finite {
					if squares.Sign() != 0 {
						t.Fatalf("%s, record %d: a number is not finite, and group %d gets %v", name, i, g, added)
					}
					continue
				}
				for k, want := range clippedByBig(parts, scales[g], bounds[g], rule) {
					got := float64(added[k]) / float64(sums[g].Query.Lattice) * bounds[g]
					if math.Abs(got-want) > bounds[g]*2e-6+math.Abs(want)*1e-5 {
						t.Fatalf("%s, record %d, group %d, element %d: %v, want %v", name, i, g, k, got, want)
					}
				}
			}
		}
	}
}

// hugeFactor is a rule that ignores the bound.
type hugeFactor struct{}

func (hugeFactor) Factor(float64, float64) float64 { return 1e300 }

// clippedByBig returns vectors, divided by their scales and clipped as one, computed with 200 bits.
func clippedByBig(vectors [][]float64, scales []float64, bound float64, rule clip.Rule) (clipped []float64) {
	float := func(x float64) *big.Float { return new(big.Float).SetPrec(200).SetFloat64(x) }
	var all []*big.Float
	squares := float(0)
	for v, vector := range vectors {
		for _, x := range vector {
			scaled := float(0).Quo(float(x), float(scales[v]))
			all = append(all, scaled)
			squares.Add(squares, float(0).Mul(scaled, scaled))
		}
	}
	norm := float(0).Sqrt(squares)
	factor := float(1)
	if norm.Sign() > 0 {
		factor.Quo(float(bound), norm)
		n, _ := norm.Float64()
		switch r := rule.(type) {
		case nil:
			if norm.Cmp(float(bound)) <= 0 {
				factor = float(1)
			}
		case clip.Normalized:
			factor.Quo(float(bound), float(0).Add(norm, float(r.Gamma)))
		case hugeFactor:
			if n < 1e-15 { // the clipper leaves room for an underflow of the norm
				factor = float(bound / 1e-15)
			}
		}
	}
	for _, x := range all {
		y, _ := x.Mul(x, factor).Float64()
		clipped = append(clipped, y)
	}
	return clipped
}

// With little noise the release is the weighted mean of the clipped vectors, computed in float64,
// for both arithmetics. The noise is 10⁻⁷ of the tolerance.
func TestVectorSum_ReleasesWeightedMean(t *testing.T) {
	for _, arithmetic := range []Arithmetic{ExactArithmetic, FloatArithmetic} {
		c := vectorSumConfig(t)
		c.Mechanism.Arithmetic, c.Mechanism.NoiseMultiplier = arithmetic, 1e-12
		c.Weights = RecordWeights{Cap: 4, Mean: 2.5}
		s := newVectorSum(t, c)
		random := rand.New(rand.NewPCG(3, 4))
		for range 3 {
			want := [][]float64{make([]float64, 4), make([]float64, 3), make([]float64, 2)}
			for _, record := range startLot(t, s) {
				vectors := hostileRecords(random, 1)
				record1 := vectors[len(vectors)-1]
				weight := []float64{-1, math.NaN(), 0, 0.5, 3, 4, 9, math.Inf(1)}[random.IntN(8)]
				addVectors(t, s, record, weight, record1)
				weight = []float64{0, weight}[btoi(weight > 0)]
				first := clippedByBig(record1[:1], []float64{1}, 0.7, nil)
				rest := clippedByBig(record1[1:], []float64{2, 0.25}, 3, nil)
				for v, part := range [][]float64{first, rest[:3], rest[3:]} {
					for i, x := range part {
						want[v][i] += x * []float64{1, 2, 0.25}[v] * min(weight, 4) / (s.Event().ExpectedLot() * 2.5)
					}
				}
			}
			for v, mean := range releaseVectors(t, s) {
				for i, x := range mean {
					if math.Abs(x-want[v][i]) > 1e-5 {
						t.Fatalf("%s: vector %d, element %d: %v, want %v", arithmetic, v, i, x, want[v][i])
					}
				}
			}
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A record whose vectors have a wrong number, size or content counts in the lot, contributes
// nothing and causes no error.
func TestVectorSum_IgnoresMalformedRecords(t *testing.T) {
	c := vectorSumConfig(t)
	c.CallerDraws = true
	s := newVectorSum(t, c)
	startLot(t, s)
	good := [][]float64{{1, 2, 3, 4}, {1, 2, 3}, {1, 2}}
	malformed := [][][]float64{
		nil, {}, {{}, {}, {}}, {nil, nil, nil}, good[:2], append(slices.Clone(good), []float64{1}),
		{{1, 2, 3}, {1, 2, 3}, {1, 2}}, {{1, 2, 3, 4, 5}, {1, 2, 3}, {1, 2}}, {good[0], good[1], nil},
		{good[0], good[1], {1, math.NaN()}}, {{math.Inf(1), 0, 0, 0}, good[1], good[2]},
		{good[0], good[1], make([]float64, 1<<16)},
	}
	for i, vectors := range malformed {
		addVectors(t, s, i, 1, vectors)
	}
	for g, sum := range s.lot.Mechanism.Vectors.Sums {
		if slices.ContainsFunc(sum.Integers, func(x int64) bool { return x != 0 }) {
			t.Errorf("group %d has the sum %v", g, sum.Integers)
		}
	}
	if s.Excluded() != len(malformed) {
		t.Errorf("%d records excluded, want %d", s.Excluded(), len(malformed))
	}
	addVectors(t, s, len(malformed), 1, good)
	if s.lot.Mechanism.Vectors.Sums[0].Integers[0] == 0 {
		t.Error("a record after them adds nothing")
	}
}

// hostileContributions are contributions that break careless arithmetic.
func hostileContributions() [][]float64 {
	nan, inf, least := math.NaN(), math.Inf(1), math.SmallestNonzeroFloat64
	return [][]float64{
		{nan, 1, 1, 1}, {1, inf, 1, 1}, {inf, inf, inf, inf}, {-inf, inf, nan, 0},
		{1e300, 1, 0, 0}, {1e300, -1e300, 1e300, 1e300}, {math.MaxFloat64, math.MaxFloat64, math.MaxFloat64, math.MaxFloat64},
		{least, least, 0, 0}, {1e-310, -1e-310, 1e-320, 0}, {1e-300, 1, 1e300, 0}, {math.Copysign(0, -1), 0, 0, 0},
		{1 << 31, 1 << 31, 1 << 31, 1 << 31}, {-(1 << 62), 1 << 62, 1 << 62, 1 << 62}, {1e19, -1e19, 0, 0},
		{0.5, 0.5, 0.5, 0.5}, {0.7, 0, 0, 0}, {math.Nextafter(0.7, 1), 0, 0, 0}, {0.7 / 2, 0.7 / 2, -0.7 / 2, 0.7 / 2},
	}
}
