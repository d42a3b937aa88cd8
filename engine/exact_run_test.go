package engine

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/engine/internal/release"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/noise"
)

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
			if q := r.lot.Sums.List[r.config.entryOf(0)].Query; !onGrid(m*r.Event().ExpectedLot(), q) {
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
	want, err := noise.RoundedGaussian{Sigma: q.LatticeNoise()}.AddOne(r.source, int64(base)<<30, r.lot.Sums.Stream(r.lot.Sums.Find(release.ScoreWeights), r.step))
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
		planned, err := accountant.Epsilon(c.PlannedHistory(), c.Budget.Delta, "rdp")
		if err != nil || !(math.Abs(planned.Epsilon-spent.Epsilon) <= 1e-9*spent.Epsilon) {
			t.Errorf("%s: the plan costs %v, the ledger %v, %v", policy, planned.Epsilon, spent.Epsilon, err)
		}
		for _, lot := range c.PlannedHistory().Lots {
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
