package ledger

import (
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

// The noise in lattice steps is the least float64 that is not below the quotient of rational
// numbers, and the grid is its exponent.
func TestRoundedQuery_NoiseAndGrid(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	draw := func() float64 { return math.Ldexp(1+random.Float64(), random.IntN(16)-8) }
	rational := func(x float64) *big.Rat { return new(big.Rat).SetFloat64(x) }
	for i := range 4_000 {
		sensitivity, noise, lattice := draw(), draw(), int64(1)<<random.IntN(23)
		switch i % 4 {
		case 1: // quotients next to a power of two
			noise = math.Nextafter(sensitivity*math.Ldexp(1, random.IntN(9)), float64(random.IntN(2))*1e9)
		case 2:
			lattice = 1 + random.Int64N(1<<22)
		}
		q := RoundedQuery("all", sensitivity, noise, lattice)
		exact := new(big.Rat).Quo(new(big.Rat).Mul(rational(noise), new(big.Rat).SetInt64(lattice)), rational(sensitivity))
		sigma := q.LatticeNoise()
		if rational(sigma).Cmp(exact) < 0 || rational(math.Nextafter(sigma, 0)).Cmp(exact) >= 0 {
			t.Fatalf("%+v has noise of %v lattice steps, want %s rounded up", q, sigma, exact.FloatString(30))
		}
		if low := math.Ldexp(256, q.Grid); !(low <= sigma && sigma < 2*low) {
			t.Fatalf("%+v: %v is not from 256 to 512 grid steps", q, sigma)
		}
		if err := (Lot{Sampling{Policy: FullBatch}, []Query{q}}).Validate(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestValidate_RejectsImpossibleRoundedGaussians(t *testing.T) {
	good := RoundedQuery("all", 0.5, 5, 1<<22)
	for _, test := range []struct {
		why    string
		change func(*Query)
	}{
		{"", func(*Query) {}},
		{"", func(q *Query) { *q = RoundedQuery("all", 0.5, 5, 1<<52) }},
		{"lattice 0", func(q *Query) { q.Lattice, q.Grid = 0, 0 }},
		{"lattice -1", func(q *Query) { q.Lattice = -1 }},
		{"from 1 to 2^52", func(q *Query) { *q = RoundedQuery("all", 0.5, 5, 1<<52+1) }},
		{"grid 18 must be 17", func(q *Query) { q.Grid++ }},
		{"grid 16 must be 17", func(q *Query) { q.Grid-- }},
		{"grid 17 must be 18", func(q *Query) { q.Noise = 10 }},
		{"grid 17 must be 16", func(q *Query) { q.Sensitivity = 1 }},
		{"grid 17 must be 16", func(q *Query) { q.Lattice /= 2 }},
		{"belong to rounded-gaussian", func(q *Query) { q.Mechanism = Gaussian }},
		{"", func(q *Query) { *q = DiscreteLaplaceQuery("all", 0.7, 12345678, 1<<22) }},
		{"", func(q *Query) { *q = DiscreteLaplaceQuery("all", 0.7, 12345678, 1e6+1) }},
		{"not a whole number of lattice steps", func(q *Query) {
			*q = DiscreteLaplaceQuery("all", 0.7, 12345678, 1<<22)
			q.Noise = math.Nextafter(q.Noise, 1e9)
		}},
		{"grid 1 must be 0", func(q *Query) { *q = DiscreteLaplaceQuery("all", 0.7, 12345678, 1<<22); q.Grid = 1 }},
		{"from 1 to 2^49", func(q *Query) { *q = DiscreteLaplaceQuery("all", 0.7, 1<<50, 1<<22) }},
		{"from 1 to 2^49", func(q *Query) { *q = DiscreteLaplaceQuery("all", 0.7, 0, 1<<22); q.Noise = 1e-9 }},
		{"lattice 0", func(q *Query) { *q = DiscreteLaplaceQuery("all", 0.7, 5, 1<<22); q.Lattice = 0 }},
		{"belong to rounded-gaussian", func(q *Query) { q.Mechanism = PermuteAndFlip }},
		{"belong to rounded-gaussian", func(q *Query) { q.Mechanism, q.Lattice = Laplace, 0 }},
		{"from 2^-20 to 2^60", func(q *Query) { *q = RoundedQuery("all", 1, 1e-7, 1) }},
		{"from 2^-20 to 2^60", func(q *Query) { *q = RoundedQuery("all", 1, 1e300, 1<<22) }},
		{"sensitivity NaN", func(q *Query) { q.Sensitivity = math.NaN() }},
		{"noise 0", func(q *Query) { q.Noise = 0 }},
	} {
		q := good
		test.change(&q)
		why := checkLot(Lot{Sampling{Policy: FullBatch}, []Query{q}})
		if test.why == "" && why != "" || !strings.Contains(why, test.why) {
			t.Errorf("%+v: %q, want %q", q, why, test.why)
		}
	}
}

// A grid of 0 is not omitted, and other mechanisms have neither key.
func TestQuery_MarshalJSON(t *testing.T) {
	for want, q := range map[string]Query{
		`{"group":"all","mechanism":"rounded-gaussian","sensitivity":1,"noise":256,"lattice":1,"grid":0}`: RoundedQuery("all", 1, 256, 1),
		`{"group":"all","mechanism":"gaussian","sensitivity":1,"noise":4}`:                                {Group: "all", Mechanism: Gaussian, Sensitivity: 1, Noise: 4},
	} {
		got, err := json.Marshal(q)
		if err != nil || string(got) != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
		var back Query
		if err := json.Unmarshal(got, &back); err != nil || back != q {
			t.Errorf("%s is read as %+v, %v", got, back, err)
		}
	}
}
