package engine

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/noise"
)

// vectorSumConfig sums three vectors of 60 records in two groups. The second is clipped jointly.
func vectorSumConfig(t testing.TB) VectorSumConfig {
	seed := uint64(5)
	return VectorSumConfig{
		Vectors:  []Vector{{"a", 4}, {"b", 3}, {"c", 2}},
		Records:  60,
		Unit:     "client",
		Sampling: Sampling{Lot: 20},
		Mechanism: Mechanism{NoiseMultiplier: 1, Clipping: []clip.Group{
			{Name: "first", Parameters: []string{"a"}, Bound: clip.Constant(0.7)},
			{Name: "rest", Parameters: []string{"b", "c"}, Scales: []float64{2, 0.25}, Bound: clip.Constant(3)},
		}},
		Lots:   100,
		Budget: Budget{Delta: 1e-4},
		Ledger: filepath.Join(t.TempDir(), "ledger.jsonl"),
		Seed:   &seed,
	}
}

func newVectorSum(t testing.TB, c VectorSumConfig) *VectorSum {
	t.Helper()
	s, err := NewVectorSum(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func startLot(t testing.TB, s *VectorSum) []int {
	t.Helper()
	lot, err := s.StartLot()
	if err != nil {
		t.Fatal(err)
	}
	return lot
}

func addVectors(t testing.TB, s *VectorSum, record int, weight float64, vectors [][]float64) {
	t.Helper()
	if err := s.Add(record, weight, vectors...); err != nil {
		t.Fatal(err)
	}
}

func releaseVectors(t testing.TB, s *VectorSum) [][]float64 {
	t.Helper()
	means, err := s.Release()
	if err != nil {
		t.Fatal(err)
	}
	return means
}

// hostileRecords returns the vectors of records for vectorSumConfig: hostile and random ones.
func hostileRecords(random *rand.Rand, count int) (records [][][]float64) {
	for _, v := range hostileVectors() {
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
			sums := s.mechanism.vectors.sums
			before := [][]int64{slices.Clone(sums[0].integers), slices.Clone(sums[1].integers)}
			addVectors(t, s, i, 1, record)
			finite := true
			for _, x := range slices.Concat(record...) {
				finite = finite && !math.IsNaN(x) && !math.IsInf(x, 0)
			}
			for g, parts := range [][][]float64{record[:1], record[1:]} {
				added := slices.Clone(sums[g].integers)
				squares := new(big.Int)
				for k := range added {
					added[k] -= before[g][k]
					squares.Add(squares, new(big.Int).Mul(big.NewInt(added[k]), big.NewInt(added[k])))
				}
				lattice := big.NewInt(sums[g].query.Lattice)
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
					got := float64(added[k]) / float64(sums[g].query.Lattice) * bounds[g]
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
		c.Weights = Weights{Cap: 4, Mean: 2.5}
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
	for g, sum := range s.mechanism.vectors.sums {
		if slices.ContainsFunc(sum.integers, func(x int64) bool { return x != 0 }) {
			t.Errorf("group %d has the sum %v", g, sum.integers)
		}
	}
	if s.Excluded() != len(malformed) {
		t.Errorf("%d records excluded, want %d", s.Excluded(), len(malformed))
	}
	addVectors(t, s, len(malformed), 1, good)
	if s.mechanism.vectors.sums[0].integers[0] == 0 {
		t.Error("a record after them adds nothing")
	}
}

// A record counts once, and only in a lot that has it.
func TestVectorSum_ChecksMembership(t *testing.T) {
	vectors := [][]float64{{1, 2, 3, 4}, {1, 2, 3}, {1, 2}}
	for _, callerDraws := range []bool{false, true} {
		c := vectorSumConfig(t)
		c.CallerDraws = callerDraws
		s := newVectorSum(t, c)
		if s.Add(0, 1, vectors...) == nil {
			t.Error("a record was added before the first lot")
		}
		if _, err := s.Release(); err == nil {
			t.Error("a release before the first lot")
		}
		lot := startLot(t, s)
		if _, err := s.StartLot(); err == nil {
			t.Error("a lot began twice")
		}
		if callerDraws {
			lot = []int{0, 59}
		}
		for record := -1; record <= 60; record++ {
			err := s.Add(record, 1, vectors...)
			if in := slices.Contains(lot, record) || callerDraws && record >= 0 && record < 60; in != (err == nil) {
				t.Errorf("caller draws %v: record %d of the lot %v: %v", callerDraws, record, lot, err)
			}
		}
		if s.Add(lot[0], 1, vectors...) == nil {
			t.Error("a record was added twice")
		}
		releaseVectors(t, s)
		if s.Add(lot[0], 1, vectors...) == nil {
			t.Error("a record was added after the release")
		}
	}
	c := vectorSumConfig(t)
	c.CallerDraws, c.Sampling.Policy, c.Sampling.Lot = true, sample.PolicyFixed, 2
	s := newVectorSum(t, c)
	startLot(t, s)
	addVectors(t, s, 0, 1, vectors)
	addVectors(t, s, 1, 1, vectors)
	if s.Add(2, 1, vectors...) == nil {
		t.Error("a lot of 2 records has a third")
	}
}

// The lots are those of the sampler that Sampling describes, and the ledger states its event, the
// queries of all groups and the adjacency. Its ε is that of the Gaussian mechanism.
func TestVectorSum_LedgerStatesLots(t *testing.T) {
	for policy, adjacency := range map[sample.Policy]ledger.Adjacency{sample.PolicyPoisson: ledger.ZeroOut, sample.PolicyFixed: ledger.ReplaceOne} {
		c := vectorSumConfig(t)
		c.Sampling.Policy = policy
		s := newVectorSum(t, c)
		var want sample.Sampler
		var err error
		if policy == sample.PolicyPoisson {
			want, err = sample.NewPoisson(20.0/60, 60, noise.NewSeeded(5))
		} else {
			want, err = sample.NewFixed(20, 60, noise.NewSeeded(5))
		}
		if err != nil {
			t.Fatal(err)
		}
		for lot := range 5 {
			if err := want.StartLot(uint64(lot)); err != nil {
				t.Fatal(err)
			}
			members := make([]int, 61)
			n, err := want.Next(members)
			if err != nil {
				t.Fatal(err)
			}
			if got := startLot(t, s); !slices.Equal(got, members[:n]) {
				t.Fatalf("%s lot %d: %v, want %v", policy, lot, got, members[:n])
			}
			releaseVectors(t, s)
		}
		epsilon, err := s.Epsilon()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		h, err := ledger.Read(c.Ledger)
		if err != nil {
			t.Fatal(err)
		}
		e := want.Event()
		lot := ledger.Lot{
			Sampling: ledger.Sampling{Policy: ledger.Policy(policy), Rate: e.Rate, LotSize: e.LotSize, Records: 60},
			Queries:  []ledger.Query{ledger.RoundedQuery("first", 0.7, 0.7*math.Sqrt2, 1<<30), ledger.RoundedQuery("rest", 3, 3*math.Sqrt2, 1<<30)},
		}
		if len(h.Lots) != 1 || h.Lots[0].Count != 5 || h.Lots[0].Lot.Sampling != lot.Sampling || h.Header.Unit != "client" || h.Header.Adjacency != adjacency || h.Header.Secure {
			t.Fatalf("%s: the ledger has %+v", policy, h)
		}
		for g, q := range h.Lots[0].Lot.Queries {
			if w := lot.Queries[g]; q.Group != w.Group || q.Lattice != w.Lattice || math.Abs(q.Noise/w.Noise-1) > 1e-12 || q.Sensitivity != w.Sensitivity {
				t.Errorf("%s: query %+v, want %+v", policy, q, w)
			}
		}
		plain := accountant.Plan{Sampling: lot.Sampling, Steps: 5, Noise: 1, Adjacency: adjacency}
		g, err := accountant.Epsilon(plain.History(), 1e-4, "")
		if err != nil || math.Abs(epsilon/g.Epsilon-1) > 1e-3 {
			t.Errorf("%s: ε = %v, want %v (%v)", policy, epsilon, g.Epsilon, err)
		}
	}
}

// The bits of a release do not depend on the order of the records nor on the goroutines that add
// them.
func TestVectorSum_IsIndependentOfOrder(t *testing.T) {
	records := hostileRecords(rand.New(rand.NewPCG(8, 9)), 60)
	var first [][]float64
	for round := range 4 {
		s := newVectorSum(t, vectorSumConfig(t))
		lot := startLot(t, s)
		rand.New(rand.NewPCG(1, uint64(round))).Shuffle(len(lot), func(i, j int) { lot[i], lot[j] = lot[j], lot[i] })
		var all sync.WaitGroup
		for _, record := range lot {
			all.Go(func() {
				if err := s.Add(record, 1, records[record]...); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		means := releaseVectors(t, s)
		if round == 0 {
			first = means
		}
		for v := range means {
			if !slices.Equal(means[v], first[v]) {
				t.Fatalf("round %d, vector %d: %v, want %v", round, v, means[v], first[v])
			}
		}
	}
}

// Adaptive bounds follow the noised counts, which the ledger has.
func TestVectorSum_AdaptsBounds(t *testing.T) {
	c := vectorSumConfig(t)
	c.Sampling = Sampling{Rate: 1}
	c.Mechanism.Clipping[0].Bound = clip.Quantile{Initial: 0.1, Target: 0.5, Rate: 0.5, Noise: 1}
	s := newVectorSum(t, c)
	for range 60 {
		for _, record := range startLot(t, s) {
			addVectors(t, s, record, 1, [][]float64{{float64(record+1) / 10, 0, 0, 0}, {0, 0, 0}, {0, 0}})
		}
		releaseVectors(t, s)
	}
	if bound := s.State().Bounds[0]; !(bound > 2 && bound < 4) { // the median norm is 3
		t.Errorf("the bound is %v, want about 3", bound)
	}
	if q := s.mechanism.entry.Queries; len(q) != 3 || q[1].Group != "first/unclipped" {
		t.Errorf("the ledger's queries are %+v", q)
	}
}

// A sum of vectors ends at its limit on ε and at its number of lots, for any vectors.
func TestVectorSum_EndsAtBudget(t *testing.T) {
	c := vectorSumConfig(t)
	c.Budget.StopAtEpsilon = 8
	s := newVectorSum(t, c)
	allowed := s.LotsLeft()
	if allowed < 1 || allowed >= c.Lots {
		t.Fatalf("%d lots are allowed", allowed)
	}
	for range allowed {
		if planned, err := s.PlannedEpsilon(); err != nil || planned > 8 || planned < 7 {
			t.Errorf("the planned ε is %v, %v", planned, err)
		}
		startLot(t, s)
		releaseVectors(t, s)
	}
	if _, err := s.StartLot(); !errors.Is(err, ErrBudget) || s.LotsLeft() != 0 {
		t.Errorf("one more lot: %v", err)
	}
	s.Close()
	if g, err := s.Spent(""); err != nil || g.Epsilon > 8 {
		t.Errorf("ε = %v, %v", g.Epsilon, err)
	}
}

// The ledger on disk has a lot before its release. Where it cannot be written, nothing is released,
// then or later.
func TestVectorSum_LedgerPrecedesRelease(t *testing.T) {
	c := vectorSumConfig(t)
	s := newVectorSum(t, c)
	for lot := 1; lot <= 5; lot++ {
		startLot(t, s)
		releaseVectors(t, s)
		if h, err := ledger.Read(c.Ledger); err != nil || h.LotCount() < lot {
			t.Fatalf("after lot %d: the ledger has %d, %v", lot, h.LotCount(), err)
		}
	}
	c = vectorSumConfig(t)
	c.Mechanism.NoiseMultiplierAt, c.Mechanism.NoiseMultiplier = func(lot int) float64 { return 1 + float64(lot) }, 0 // each lot has a line of its own
	s = newVectorSum(t, c)
	startLot(t, s)
	releaseVectors(t, s)
	if err := os.Remove(c.Ledger); err != nil {
		t.Fatal(err)
	}
	startLot(t, s)
	if means, err := s.Release(); err == nil || means != nil {
		t.Fatalf("released %v without a ledger", means)
	}
	if _, err := s.StartLot(); err == nil {
		t.Error("a lot began after the failure")
	}
}

// This is the child process of TestKilledVectorSum_Resumes.
func TestKilledVectorSum_Child(t *testing.T) {
	folder := os.Getenv("DPTRAIN_MORTAL_SUM")
	if folder == "" {
		t.Skip("the child of TestKilledVectorSum_Resumes")
	}
	c := killedVectorSum(t, folder)
	s, err := NewVectorSum(c)
	for lot := 1; err == nil; lot++ {
		if _, err = s.StartLot(); err != nil {
			break
		}
		var means [][]float64
		if means, err = s.Release(); err == nil {
			fmt.Printf("lot %d %s %s\n", lot, bitsOf(means), s.State().LedgerHead)
		}
	}
	fmt.Println("error", err)
}

func killedVectorSum(t testing.TB, folder string) VectorSumConfig {
	c := vectorSumConfig(t)
	c.Seed, c.Lots, c.Ledger = nil, 1<<30, filepath.Join(folder, "ledger.jsonl")
	return c
}

// bitsOf returns the bits of nine numbers: of two lots with independent noise they are equal with a
// probability below 10⁻²⁰, because each number has hundreds of likely values.
func bitsOf(means [][]float64) (text string) {
	for _, x := range slices.Concat(means...) {
		text += fmt.Sprintf("%x", math.Float64bits(x))
	}
	return text
}

// After kill -9 the ledger has every lot that was released. A sum that resumes with it counts them
// and draws other noise.
func TestKilledVectorSum_Resumes(t *testing.T) {
	folder := t.TempDir()
	child := startChild(t, "TestKilledVectorSum_Child", "DPTRAIN_MORTAL_SUM="+folder)
	released, noises, head := 0, map[string]bool{}, ""
	child.readLines(t, func(word []string) {
		if word[0] != "lot" {
			return
		}
		released, head = released+1, word[3]
		noises[word[2]] = true
		if released == 3 {
			child.command.Process.Kill()
		}
	})
	c := killedVectorSum(t, folder)
	h, err := ledger.Read(c.Ledger)
	if err != nil || h.LotCount() < released || released < 3 {
		t.Fatalf("%d lots were released, and the ledger has %d, %v", released, h.LotCount(), err)
	}
	if _, err := ResumeVectorSum(c, VectorSumState{Lots: released, LedgerHead: strings.Repeat("0", 64), Bounds: []float64{0, 0}}); !errors.Is(err, ErrDamaged) {
		t.Errorf("a ledger without the head: %v", err)
	}
	other := c
	other.Records = 61
	if _, err := ResumeVectorSum(other, VectorSumState{Lots: released, LedgerHead: head, Bounds: []float64{0, 0}}); err == nil {
		t.Error("resumed with another number of records")
	}
	s, err := ResumeVectorSum(c, VectorSumState{Lots: released, LedgerHead: head, Bounds: []float64{0, 0}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range released {
		startLot(t, s)
		if bits := bitsOf(releaseVectors(t, s)); noises[bits] {
			t.Errorf("the noise %s occurs again", bits)
		}
	}
	before, err := accountant.Epsilon(h, 1e-4, "")
	if err != nil {
		t.Fatal(err)
	}
	if after, err := s.Epsilon(); err != nil || !(after > before.Epsilon) {
		t.Errorf("ε = %v after %v, %v", after, before.Epsilon, err)
	}
}

func TestNewVectorSum_RefusesSettings(t *testing.T) {
	for want, change := range map[string]func(c *VectorSumConfig){
		"needs a ledger":         func(c *VectorSumConfig) { c.Ledger = "" },
		"at least 1":             func(c *VectorSumConfig) { c.Records = 0 },
		"VectorSumConfig.Lots":   func(c *VectorSumConfig) { c.Lots = 0 },
		"is private":             func(c *VectorSumConfig) { c.Mechanism.NonPrivate = true },
		"cannot choose noise":    func(c *VectorSumConfig) { c.Mechanism.Choose = func(*Progress) LotChoice { return LotChoice{} } },
		"has no vectors":         func(c *VectorSumConfig) { c.Vectors = nil },
		"two vectors have":       func(c *VectorSumConfig) { c.Vectors[1].Name = "a" },
		"has 0 elements":         func(c *VectorSumConfig) { c.Vectors[1].Size = 0 },
		"all vectors together":   func(c *VectorSumConfig) { c.Vectors[0].Size, c.Vectors[1].Size = 1<<26, 1<<26 },
		"is in no group":         func(c *VectorSumConfig) { c.Mechanism.Clipping = c.Mechanism.Clipping[:1] },
		"noise multiplier 0":     func(c *VectorSumConfig) { c.Mechanism.NoiseMultiplier = 0 },
		"lots, without":          func(c *VectorSumConfig) { c.Sampling.Policy = sample.PolicyShuffle },
		"a lot of 61":            func(c *VectorSumConfig) { c.Sampling.Lot = 61 },
		"no clipping bound":      func(c *VectorSumConfig) { c.Mechanism.Clipping[0].Bound = clip.Constant(math.Inf(1)) },
		"weights of at most":     func(c *VectorSumConfig) { c.Weights.Cap = -1 },
		"a mean weight of":       func(c *VectorSumConfig) { c.Weights.Mean = 2 },
		"one over the number":    func(c *VectorSumConfig) { c.Budget.Delta = 0.1 },
		"arithmetic \"decimal\"": func(c *VectorSumConfig) { c.Mechanism.Arithmetic = "decimal" },
		"allocation \"even\"":    func(c *VectorSumConfig) { c.Mechanism.Allocation = "even" },
	} {
		c := vectorSumConfig(t)
		change(&c)
		s, err := NewVectorSum(c)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
		if s != nil {
			s.Close()
		}
		if c.Ledger != "" {
			if _, err := os.Stat(c.Ledger); err == nil {
				t.Errorf("%q: a ledger was left", want)
			}
		}
	}
}

// One more record moves the integers of a weighted mean whose denominator depends on the lot by at
// most the lattice in the ledger, computed by math/big, for random and for adversarial lots. Some
// lots move them by more than 97% of it: the stated sensitivity is not too large either.
func TestDivideByWeight_SensitivityByBruteForce(t *testing.T) {
	const size = 4
	random := rand.New(rand.NewPCG(10, 11))
	most := 0.0
	for round := range 4000 {
		s := newNoisedSum(ledger.RoundedQuery("mean", 2, 2, 1<<(4+random.IntN(27))), size)
		if !s.setRatioQuery(s.query) {
			t.Fatal("a lattice is refused")
		}
		// Weights from none to the largest; lots around and far above the least denominator.
		least := int64(1 + random.IntN(100*weightSteps))
		sum, total := make([]int64, size), int64(0)
		direction := randomVector(random, size)
		add := func(v []float64, weight int64) {
			norm := 0.0
			for _, x := range v {
				norm = math.Hypot(norm, x)
			}
			s.addWeighted(v, s.length/norm*(1-0x1p-20), weight)
			for i := range sum {
				sum[i] += s.integers[i]
			}
			clear(s.integers)
			total += weight
		}
		for range random.IntN(2 + 2*int(least/weightSteps)) {
			v, weight := direction, int64(weightSteps)
			if round%2 == 0 {
				v, weight = randomVector(random, size), random.Int64N(weightSteps+1)
			}
			add(v, weight)
		}
		mean := func() []int64 {
			copy(s.integers, sum)
			s.divideByWeight(total, least)
			defer clear(s.integers)
			return slices.Clone(s.integers)
		}
		without := mean()
		opposite := slices.Clone(direction)
		for i := range opposite {
			opposite[i] = -opposite[i]
		}
		if round%2 == 0 {
			opposite = randomVector(random, size)
		}
		add(opposite, []int64{weightSteps, random.Int64N(weightSteps + 1)}[random.IntN(2)])
		squares := new(big.Int)
		for i, x := range mean() {
			d := big.NewInt(x - without[i])
			squares.Add(squares, d.Mul(d, d))
		}
		lattice := big.NewInt(s.query.Lattice)
		if squares.Cmp(new(big.Int).Mul(lattice, lattice)) > 0 {
			t.Fatalf("round %d: the mean moves from %v to %v, by more than %d", round, without, mean(), s.query.Lattice)
		}
		moved, _ := new(big.Float).SetInt(squares).Float64()
		most = max(most, math.Sqrt(moved)/float64(s.query.Lattice))
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
		s := &noisedSum{integers: []int64{sum}}
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
		if want.Cmp(big.NewInt(s.integers[0])) != 0 {
			t.Fatalf("%d·%d/%d: %d, want %d", sum, least, weight, s.integers[0], want)
		}
	}
}

// With little noise the release is Σ w·v / max(q·N·MinMean, Σ w), computed in float64. The ledger
// states twice the bound, with noise in proportion.
func TestVectorSum_DenominatorOfLot(t *testing.T) {
	for _, arithmetic := range []Arithmetic{ExactArithmetic, FloatArithmetic} {
		for _, minMean := range []float64{0.1, 1.9} { // below and above the mean weight of 1
			c := vectorSumConfig(t)
			c.Vectors, c.Mechanism.Clipping = []Vector{{"v", 2}}, clip.Flat(clip.Constant(0.5), nil)
			c.Mechanism.Arithmetic, c.Mechanism.NoiseMultiplier = arithmetic, 1e-12
			c.Weights = Weights{Cap: 2, MinMean: minMean}
			s := newVectorSum(t, c)
			random := rand.New(rand.NewPCG(14, 15))
			var want [2]float64
			total := 0.0
			for _, record := range startLot(t, s) {
				v, weight := randomVector(random, 2), 2*random.Float64()
				addVectors(t, s, record, weight, [][]float64{v})
				for i, x := range clippedByBig([][]float64{v}, []float64{1}, 0.5, nil) {
					want[i] += weight * x
				}
				total += weight
			}
			denominator := max(20*minMean, total)
			for i, x := range releaseVectors(t, s)[0] {
				if math.Abs(x-want[i]/denominator) > 1e-5 {
					t.Errorf("%s, least mean %v: element %d is %v, want %v", arithmetic, minMean, i, x, want[i]/denominator)
				}
			}
			if q := s.mechanism.entry.Queries[0]; q.Sensitivity != 1 || q.Noise != 1e-12 {
				t.Errorf("%s: the ledger states %+v", arithmetic, q)
			}
		}
	}
	c := vectorSumConfig(t)
	c.Weights, c.Sampling.Policy = Weights{MinMean: 0.5}, sample.PolicyFixed
	if _, err := NewVectorSum(c); err == nil {
		t.Error("fixed lots have a denominator that depends on the lot")
	}
}

// Each release is a public multiple of an integer on the grid in the ledger, also of groups that are
// clipped jointly and of weighted means whose denominator depends on the lot. A release in floating
// point is not.
func TestVectorSum_ReleasesAreOnLedgerGrid(t *testing.T) {
	onGrid := func(c VectorSumConfig) (count int) {
		s := newVectorSum(t, c)
		random := rand.New(rand.NewPCG(16, 17))
		records := hostileRecords(random, 60)
		for _, record := range startLot(t, s) {
			addVectors(t, s, record, random.Float64(), records[record])
		}
		queries := slices.Clone(s.mechanism.entry.Queries)
		for v, mean := range releaseVectors(t, s) {
			g := []int{0, 1, 1}[v]
			q := queries[g]
			sum := s.mechanism.vectors.sums[g]
			unit := s.scale * []float64{1, 2, 0.25}[v] * math.Ldexp(sum.length/float64(max(sum.bound, 1)), q.Grid)
			for _, x := range mean {
				if steps := x / unit; math.Abs(steps-math.Round(steps)) < 1e-6 && math.Abs(steps) < 1<<20 {
					count++
				}
			}
		}
		return count
	}
	for _, minMean := range []float64{0, 0.2} {
		c := vectorSumConfig(t)
		c.Weights.MinMean = minMean
		if n := onGrid(c); n != 9 {
			t.Errorf("least mean %v: %d of 9 numbers are on the grid", minMean, n)
		}
	}
	c := vectorSumConfig(t)
	c.Mechanism.Arithmetic = FloatArithmetic
	if n := onGrid(c); n > 1 { // by chance at most
		t.Errorf("%d of 9 numbers in floating point are on the grid: the test has no power", n)
	}
}
