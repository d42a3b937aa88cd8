package engine

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/engine/sample"
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
	for _, lattice := range []int64{countLattice, 1000, statisticLattice} {
		s := newNoisedSum(ledger.RoundedQuery("s", 0.7, 1, lattice), 4)
		want := make([]*big.Int, 4)
		for i := range want {
			want[i] = new(big.Int)
		}
		for _, v := range vectors {
			before := slices.Clone(s.integers)
			s.add(v)
			squares := new(big.Int)
			var added []int64
			for i, sum := range s.integers {
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
		for i, sum := range s.integers {
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

// The lattice keeps sums and noise within 64 bits for every number of records, and noise that is
// too small or too large for that is refused in one line.
func TestCheckQuery_KeepsSumsWithin64Bits(t *testing.T) {
	for _, test := range []struct {
		lattice    int64
		noise      float64
		records    int
		population int
		want       int64 // 0: refused
	}{
		{statisticLattice, 1, 60_000, 0, 1 << 30},
		{statisticLattice, 1, math.MaxInt32, 0, 1 << 30},
		{statisticLattice, 1e9, 100, 0, 1 << 26},
		{statisticLattice, 1e17, 100, 0, 1},
		{statisticLattice, 1e19, 100, 0, 0},
		{statisticLattice, 1e-9, 100, 0, 1 << 30},
		{statisticLattice, 1e-9, 1 << 27, 0, 0},
		{statisticLattice, 1e-20, 1, 0, 0},
		{projectionLattice, 4, 60_000, 0, 1 << 36},
		{projectionLattice, 4, 1 << 26, 0, 1 << 35},
		{projectionLattice, 4, 100, 5, 1 << 30},
		{countLattice, 10, math.MaxInt32, 0, 1},
	} {
		c := Config{Sampling: Sampling{Population: test.population}, Mechanism: Mechanism{Arithmetic: ExactArithmetic}}
		q := c.query("s", 1, test.noise, test.lattice, test.records)
		err := c.checkQuery(q, test.records)
		if (err == nil) != (test.want > 0) || err == nil && q.Lattice != test.want {
			t.Errorf("%+v: lattice %d, %v", test, q.Lattice, err)
		}
		if err != nil && (strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "float")) {
			t.Errorf("%+v: the error %q is not one line with a way out", test, err)
		}
		if err == nil {
			// The largest sums with noise of 9 deviations stay within the limits of the sampler.
			most := max(c.contributors(test.records)*float64(q.Lattice), math.Ldexp(c.contributors(test.records)*float64(q.Lattice), -q.Grid))
			if most > 0x1p61 || q.LatticeNoise() > 0x1p57 {
				t.Errorf("%+v: sums up to %v with noise of %v", test, most, q.LatticeNoise())
			}
		}
	}
}

// A release is the integer sum with the noise of the sampler, for any order of the records, and
// differs between two data sets by the record's integers alone: nothing else of the sum moves.
func TestNoisedSum_ReleasesRoundedGaussian(t *testing.T) {
	q := ledger.RoundedQuery("s", 0.7, 5, statisticLattice)
	source, stream := noise.NewSeeded(9), noise.Stream{Purpose: noise.Release, Lot: 4, Vector: 2}
	vectors := slices.Concat(hostileVectors(), [][]float64{{0.1, 0.2, 0.3, 0.4}, {-1, 2, -3, 4}})
	release := func(order []int) []float64 {
		s, out := newNoisedSum(q, 4), make([]float64, 4)
		for _, i := range order {
			s.add(vectors[i])
		}
		if err := s.release(out, source, stream); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(s.integers, func(v int64) bool { return v != 0 }) {
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
		s := newNoisedSum(q, 4)
		s.add(v)
		for i := range sums {
			sums[i] += s.integers[i]
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

// The attack: all other records contribute exactly 0 to 256 coordinates, and the attacker asks of
// each released number whether noise alone can reach it, σ·z for some float64 z. At ε below 0.005
// one lot of a float run shows with certainty whether the record is there. A lot of an exact run
// gives the same numbers of reachable coordinates with and without the record: a difference of six
// deviations between the 64 lots with it and the 64 without it is a false alarm in 5·10⁸ runs,
// and the seeds are fixed.
func TestStatistic_ResistsFloatAttack(t *testing.T) {
	const size, lots = 256, 64
	for _, arithmetic := range []Arithmetic{FloatArithmetic, ExactArithmetic} {
		unreachable := map[bool][]int{}
		for _, present := range []bool{true, false} {
			c := testConfig(t)
			c.Mechanism.Arithmetic, c.Mechanism.NoiseMultiplier, c.Steps = arithmetic, 1e5, lots
			seed := uint64(100)
			if present {
				seed++
			}
			c.Seed = &seed
			c.Sampling = Sampling{Rate: 1}
			c.Network, c.Train = linearNetwork(1), newColumnTable(64, func(i, k, j int) float32 {
				if i == 17 && present {
					return 1
				}
				return 0
			}, 1)
			c.Statistics = []Statistic{{Name: "attacked", Size: size, Sensitivity: 1, Noise: 1400, Of: func(dst []float64, record []load.Example) {
				for i := range dst {
					dst[i] = float64(record[0].Columns[0][0]) / 16
				}
			}}}
			r := newRun(t, c)
			trainRun(t, r, func(p *Progress) error {
				count := 0
				for _, mean := range p.Released[0].Mean {
					if !isReachable(mean*64, 1400) { // 64 records expected: the product is exact
						count++
					}
				}
				unreachable[present] = append(unreachable[present], count)
				return nil
			})
			r.Close()
			one := ledger.History{Header: ledger.Header{Adjacency: ledger.ZeroOut}, Lots: []ledger.RepeatedLot{{Lot: readLedger(t, c.Files.Ledger).Lots[0].Lot, Count: 1}}}
			if a, err := accountant.Epsilon(one, 1e-4, "pld"); err != nil || a.Epsilon > 0.005 {
				t.Fatalf("a lot costs ε = %v, %v", a.Epsilon, err)
			}
		}
		with, without := unreachable[true], unreachable[false]
		if arithmetic == FloatArithmetic {
			if slices.Max(without) != 0 || slices.Min(with) == 0 {
				t.Errorf("the attack does not work on floats, so the test has no power: %v with, %v without", with, without)
			}
			continue
		}
		sum := func(counts []int) (n float64) {
			for _, c := range counts {
				n += float64(c)
			}
			return n
		}
		share := (sum(with) + sum(without)) / (2 * lots * size)
		deviation := math.Sqrt(2 * lots * size * share * (1 - share))
		if math.Abs(sum(with)-sum(without)) > 6*deviation {
			t.Errorf("%v numbers are unreachable with the record, %v without it, deviation %v", sum(with), sum(without), deviation)
		}
	}
}

// isReachable reports whether σ·z, rounded, is x for some float64 z.
func isReachable(x, sigma float64) bool {
	z := x / sigma
	for _, c := range []float64{z, math.Nextafter(z, math.Inf(1)), math.Nextafter(z, math.Inf(-1))} {
		if sigma*c == x {
			return true
		}
	}
	return false
}

// A released count, a validation and a statistic are multiples of the grid in the ledger: nothing
// of a released number depends on more than the rounded integer.
func TestExactReleases_AreOnLedgerGrid(t *testing.T) {
	c := validationConfig(t, 8)
	c.Mechanism.Arithmetic = ExactArithmetic
	c.Statistics = []Statistic{FeatureMeans(0, features, 1.5, 5)}
	r := newRun(t, c)
	onGrid := func(value float64, q ledger.Query) bool {
		cells := value / math.Ldexp(q.Sensitivity/float64(q.Lattice), q.Grid)
		return math.Abs(cells-math.Round(cells)) < 1e-6 && math.Abs(cells) < 1<<20
	}
	trainRun(t, r, func(p *Progress) error {
		for _, m := range p.Released[0].Mean {
			if q := r.statistics.accumulators[0].query; !onGrid(m*r.Event().ExpectedLot(), q) {
				t.Errorf("%v is not on the grid of %+v", m, q)
			}
		}
		return nil
	})
	got, err := r.Validate()
	if err != nil {
		t.Fatal(err)
	}
	h := readLedger(t, c.Files.Ledger)
	q := h.Lots[len(h.Lots)-1].Lot.Queries[0]
	if q.Mechanism != ledger.RoundedGaussian || !onGrid(got.Score*400, q) {
		t.Errorf("a score of %v for %+v", got.Score, q)
	}
	parameters, err := r.BorrowParameters()
	if err != nil {
		t.Fatal(err)
	}
	base, err := sumOverHeldOut(&r.config, Values(parameters))
	if err != nil {
		t.Fatal(err)
	}
	want, err := noise.RoundedGaussian{Sigma: q.LatticeNoise()}.AddOne(r.source, int64(base)<<30, r.streams.validation(r.step))
	if err != nil || math.Ldexp(float64(want), q.Grid-30)/400 != got.Score {
		t.Errorf("a score of %v, want %v grid steps, %v", got.Score, want, err)
	}
}

// A run with exact sums repeats with its seed, continues from a checkpoint with the same state, and
// cannot continue with other arithmetic. A checkpoint without the setting is of a float run.
func TestExactRun_SeedAndResume(t *testing.T) {
	config := func() Config {
		c := projectionConfig(t)
		c.Mechanism.Arithmetic = ExactArithmetic
		c.Statistics = []Statistic{ClassCounts(1, data.Column{Kind: data.Label, Classes: classes}, 4)}
		c.Validation = Validation{Set: mlpExamples(50, 9), Noise: 3}
		return c
	}
	var states []string
	for range 2 {
		r := newRun(t, config())
		var released []float64
		trainRun(t, r, func(p *Progress) error {
			released = append(released, p.Released[0].Mean...)
			return nil
		})
		v, err := r.Validate()
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, fmt.Sprint(runState(r), released, r.Directions(), v))
		r.Close()
	}
	if states[0] != states[1] {
		t.Error("two runs with one seed differ")
	}
	c := config()
	first := newRun(t, c)
	stop := fmt.Errorf("stop")
	if err := first.Train(t.Context(), func(p *Progress) error {
		if p.Lot == 2 {
			return stop
		}
		return nil
	}); err != stop {
		t.Fatal(err)
	}
	state := runState(first)
	first.Close()
	other := c
	other.Mechanism.Arithmetic = FloatArithmetic
	if _, err := Resume(other); err == nil || !strings.Contains(err.Error(), "arithmetic is float (it was exact)") {
		t.Errorf("a float run continues an exact one: %v", err)
	}
	second := resumeRun(t, c)
	if runState(second) != state {
		t.Error("the resumed run has another state")
	}
	trainRun(t, second, nil)
	second.Close()
	for _, lot := range readLedger(t, c.Files.Ledger).Lots {
		for _, q := range lot.Lot.Queries {
			if q.Group != "gradient" && q.Mechanism != ledger.RoundedGaussian {
				t.Errorf("query %+v", q)
			}
		}
	}

	c = checkpointedConfig(t)
	c.Mechanism.Arithmetic = FloatArithmetic
	newRun(t, c).Close()
	for _, other := range []Arithmetic{ExactArithmetic, ""} {
		c.Mechanism.Arithmetic = other
		if _, err := Resume(c); err == nil || !strings.Contains(err.Error(), "arithmetic is exact (it was float)") {
			t.Errorf("arithmetic %q continues a float run: %v", other, err)
		}
	}
}

// Every query of an exact run has a lattice and passes the ledger's checks;
// the ε of the plan is that of the ledger.
func TestExactRun_LedgerMatchesPlan(t *testing.T) {
	for _, policy := range []sample.Policy{sample.PolicyPoisson, sample.PolicyFixed, sample.PolicyShuffle} {
		c := projectionConfig(t)
		c.Mechanism.Arithmetic, c.Sampling.Policy = ExactArithmetic, policy
		c.Mechanism.Clipping = clip.Flat(clip.Quantile{Initial: 1, Target: 0.5, Rate: 0.2, Noise: 4}, nil)
		c.Statistics = []Statistic{MeanLoss(0.3, 2)}
		c.Validation = Validation{Set: mlpExamples(50, 9), Noise: 3}
		r := newRun(t, c)
		trainRun(t, r, nil)
		if _, err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		r.Close()
		spent, err := r.Spent("rdp")
		if err != nil {
			t.Fatal(err)
		}
		c.Budget.Delta = r.config.Budget.Delta
		planned, err := accountant.Epsilon(PlannedHistory(c), c.Budget.Delta, "rdp")
		if err != nil || !(math.Abs(planned.Epsilon-spent.Epsilon) <= 1e-9*spent.Epsilon) {
			t.Errorf("%s: the plan costs %v, the ledger %v, %v", policy, planned.Epsilon, spent.Epsilon, err)
		}
		for _, lot := range PlannedHistory(c).Lots {
			for _, q := range lot.Lot.Queries {
				if q.Mechanism != ledger.RoundedGaussian {
					t.Errorf("%s: the plan states %+v", policy, q)
				}
			}
		}
		exact := 0
		for _, lot := range readLedger(t, c.Files.Ledger).Lots {
			for _, q := range lot.Lot.Queries {
				if q.Mechanism == ledger.RoundedGaussian {
					exact += lot.Count
				}
			}
		}
		if want := 1 + 2*c.Steps + 1; exact < want {
			t.Errorf("%s: %d exact releases, want %d", policy, exact, want)
		}
	}
}

// Vectors of integers barely longer than the lattice, in the unit of the sensitivity: their norm in
// float64 is the sensitivity, and they are integers after scaling. The check in integers finds them.
func TestNoisedSum_RoundsAgainBeyondLattice(t *testing.T) {
	const lattice = statisticLattice
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
		s := newNoisedSum(ledger.RoundedQuery("s", 1, 1, lattice), 4)
		s.add(v)
		if isWithin(g, lattice) {
			t.Fatal("the vector is not longer than the lattice")
		}
		if _, norm := scaledNorm(v); norm <= 1 {
			beyond++
		}
		if !isWithin(s.integers, lattice) || s.integers[2] < int64(float64(g[2])*(1-0x1p-19)) {
			t.Fatalf("%v adds %v", g, s.integers)
		}
	}
	if beyond < 10 {
		t.Errorf("only %d vectors look as if they were within the sensitivity", beyond)
	}
}
