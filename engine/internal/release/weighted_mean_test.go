package release

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/internal/load"
)

// One more record moves the integers of a weighted mean whose denominator depends on the lot by at
// most the lattice in the ledger, computed by math/big, for random and for adversarial lots. Some
// lots move them by more than 97% of it: the stated sensitivity is not too large either.
func TestDivideByWeight_SensitivityByBruteForce(t *testing.T) {
	const size = 4
	random := rand.New(rand.NewPCG(10, 11))
	most := 0.0
	for round := range 4000 {
		s := NewSum(ledger.RoundedQuery("mean", 2, 2, 1<<(4+random.IntN(27))), size)
		if !s.setRatioQuery(s.Query) {
			t.Fatal("a lattice is refused")
		}
		// Weights from none to the largest; lots around and far above the least denominator.
		least := int64(1 + random.IntN(100*load.WeightSteps))
		sum, total := make([]int64, size), int64(0)
		direction := randomVector(random, size)
		add := func(v []float64, weight int64) {
			norm := 0.0
			for _, x := range v {
				norm = math.Hypot(norm, x)
			}
			s.addWeighted(v, s.Length/norm*(1-0x1p-20), weight)
			for i := range sum {
				sum[i] += s.Integers[i]
			}
			clear(s.Integers)
			total += weight
		}
		for range random.IntN(2 + 2*int(least/load.WeightSteps)) {
			v, weight := direction, int64(load.WeightSteps)
			if round%2 == 0 {
				v, weight = randomVector(random, size), random.Int64N(load.WeightSteps+1)
			}
			add(v, weight)
		}
		mean := func() []int64 {
			copy(s.Integers, sum)
			s.divideByWeight(total, least)
			defer clear(s.Integers)
			return slices.Clone(s.Integers)
		}
		without := mean()
		opposite := slices.Clone(direction)
		for i := range opposite {
			opposite[i] = -opposite[i]
		}
		if round%2 == 0 {
			opposite = randomVector(random, size)
		}
		add(opposite, []int64{load.WeightSteps, random.Int64N(load.WeightSteps + 1)}[random.IntN(2)])
		squares := new(big.Int)
		for i, x := range mean() {
			d := big.NewInt(x - without[i])
			squares.Add(squares, d.Mul(d, d))
		}
		lattice := big.NewInt(s.Query.Lattice)
		if squares.Cmp(new(big.Int).Mul(lattice, lattice)) > 0 {
			t.Fatalf("round %d: the mean moves from %v to %v, by more than %d", round, without, mean(), s.Query.Lattice)
		}
		moved, _ := new(big.Float).SetInt(squares).Float64()
		most = max(most, math.Sqrt(moved)/float64(s.Query.Lattice))
	}
	if most < 0.97 {
		t.Errorf("a record moves the mean by at most %v of the sensitivity", most)
	}
}

func randomVector(random *rand.Rand, size int) []float64 {
	v := make([]float64, size)
	for i := range v {
		v[i] = random.NormFloat64()
	}
	return v
}

// The quotient is that of math/big, rounded to the nearest integer, also where products exceed 64
// bits.
func TestDivideByWeight_MatchesBigOracle(t *testing.T) {
	random := rand.New(rand.NewPCG(12, 13))
	for range 20000 {
		sum := random.Int64N(1<<61) >> random.IntN(61)
		if random.IntN(2) == 0 {
			sum = -sum
		}
		least := 1 + random.Int64N(1<<51)>>random.IntN(51)
		weight := 1 + random.Int64N(1<<51)>>random.IntN(51)
		s := &Sum{Integers: []int64{sum}}
		s.divideByWeight(weight, least)
		want := new(big.Int).Mul(big.NewInt(max(sum, -sum)), big.NewInt(least))
		t2 := big.NewInt(max(weight, least))
		want.Add(want, new(big.Int).Rsh(t2, 1)).Quo(want, t2)
		if weight <= least {
			want = big.NewInt(max(sum, -sum))
		}
		if sum < 0 {
			want.Neg(want)
		}
		if want.Cmp(big.NewInt(s.Integers[0])) != 0 {
			t.Fatalf("%d·%d/%d: %d, want %d", sum, least, weight, s.Integers[0], want)
		}
	}
}
