package engine

import (
	"errors"
	"fmt"
	"math"
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
	if q := s.lot.Mechanism.Entry.Queries; len(q) != 3 || q[1].Group != "first/unclipped" {
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

// The cost can be read while lots are released: it is that of whole lots, and grows. The race detector
// watches.
func TestVectorSum_SpentDuringReleases(t *testing.T) {
	s := newVectorSum(t, vectorSumConfig(t))
	done, reader := make(chan struct{}), make(chan error)
	go func() {
		last := 0.0
		for {
			select {
			case <-done:
				reader <- nil
				return
			default:
			}
			g, err := s.Spent("rdp")
			if err == nil && g.Epsilon < last {
				err = fmt.Errorf("ε = %v after %v", g.Epsilon, last)
			}
			if err != nil {
				reader <- err
				return
			}
			last = g.Epsilon
		}
	}()
	for range 5 {
		startLot(t, s)
		releaseVectors(t, s)
	}
	close(done)
	if err := <-reader; err != nil {
		t.Error(err)
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
		"NoiseMultiplier 0":      func(c *VectorSumConfig) { c.Mechanism.NoiseMultiplier = 0 },
		"lots, without":          func(c *VectorSumConfig) { c.Sampling.Policy = sample.PolicyShuffle },
		"Sampling.Lot 61":        func(c *VectorSumConfig) { c.Sampling.Lot = 61 },
		"without a bound":        func(c *VectorSumConfig) { c.Mechanism.Clipping[0].Bound = clip.Constant(math.Inf(1)) },
		"Weights.Cap -1":         func(c *VectorSumConfig) { c.Weights.Cap = -1 },
		"Weights.Mean 2":         func(c *VectorSumConfig) { c.Weights.Mean = 2 },
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
		queries := slices.Clone(s.lot.Mechanism.Entry.Queries)
		for v, mean := range releaseVectors(t, s) {
			g := []int{0, 1, 1}[v]
			q := queries[g]
			sum := s.lot.Mechanism.Vectors.Sums[g]
			unit := s.lot.Mechanism.Step.Scale * []float64{1, 2, 0.25}[v] * math.Ldexp(sum.Length/float64(max(sum.Bound, 1)), q.Grid)
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

// With little noise the release is Σ w·v / max(q·N·MinMean, Σ w), computed in float64. The ledger
// states twice the bound, with noise in proportion.
func TestVectorSum_DenominatorOfLot(t *testing.T) {
	for _, arithmetic := range []Arithmetic{ExactArithmetic, FloatArithmetic} {
		for _, minMean := range []float64{0.1, 1.9} { // below and above the mean weight of 1
			c := vectorSumConfig(t)
			c.Vectors, c.Mechanism.Clipping = []Vector{{"v", 2}}, clip.Flat(clip.Constant(0.5), nil)
			c.Mechanism.Arithmetic, c.Mechanism.NoiseMultiplier = arithmetic, 1e-12
			c.Weights = RecordWeights{Cap: 2, MinMean: minMean}
			s := newVectorSum(t, c)
			random := rand.New(rand.NewPCG(14, 15))
			var want [2]float64
			total := 0.0
			for _, record := range startLot(t, s) {
				v, weight := randomNumbers(random, 2), 2*random.Float64()
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
			if q := s.lot.Mechanism.Entry.Queries[0]; q.Sensitivity != 1 || q.Noise != 1e-12 {
				t.Errorf("%s: the ledger states %+v", arithmetic, q)
			}
		}
	}
	c := vectorSumConfig(t)
	c.Weights, c.Sampling.Policy = RecordWeights{MinMean: 0.5}, sample.PolicyFixed
	if _, err := NewVectorSum(c); err == nil {
		t.Error("fixed lots have a denominator that depends on the lot")
	}
}

func randomNumbers(random *rand.Rand, size int) []float64 {
	v := make([]float64, size)
	for i := range v {
		v[i] = random.NormFloat64()
	}
	return v
}
