package engine

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/engine/internal/lot"
	"github.com/dptrain/dptrain/engine/internal/release"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/noise"
)

// A release is the sum over the lot plus its noise, divided by qN: the test recomputes the sums
// from the drawn records and the stream of noise.
func TestStatistics_MatchReference(t *testing.T) {
	for name, records := range map[string]Records{"example": {}, "microbatch": {Examples: 4}, "user": {Users: true, Examples: 3}, "exact": {Examples: 2}} {
		t.Run(name, func(t *testing.T) {
			c := testConfig(t)
			c.Train, c.Records, c.Sampling.Lot, c.Steps, c.Microbatch = examplesOfUsers(), records, 5, 6, 3
			c.Mechanism.Arithmetic = FloatArithmetic
			if name == "exact" {
				c.Mechanism.Arithmetic = ExactArithmetic
			}
			label := c.Train.Columns()[1]
			c.Statistics = []Statistic{Accuracy(1, 2), MeanLoss(0.8, 3), ClassCounts(1, label, 4), FeatureMeans(0, features, 1.5, 5)}
			r := newRun(t, c)
			e, err := NewEvaluator(mlp, DeviceOptions{Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			before := flatWeights(t, r)
			trainRun(t, r, func(p *Progress) error {
				drawn := drawLot(t, r, p.Lot-1)
				want := referenceStatistics(t, r, e, before, drawn)
				for s, released := range p.Released {
					stream := noise.Stream{Purpose: noise.Release, Lot: uint64(p.Lot - 1), Vector: uint32(4 + 1 + s)}
					noised, tolerance, err := addReferenceNoise(r, c.Statistics[s], want[s], stream)
					if err != nil {
						return err
					}
					for i, m := range released.Mean {
						w := noised[i] / r.Event().ExpectedLot()
						if !(math.Abs(m-w) <= tolerance) {
							t.Errorf("lot %d, %s[%d]: %v, want %v", p.Lot, released.Name, i, m, w)
						}
					}
				}
				before = flatWeights(t, r)
				return nil
			})
		})
	}
}

// addReferenceNoise adds the noise of a statistic to its sum, which may have small rounding errors.
// The result has at most the given error.
func addReferenceNoise(r *Run, s Statistic, sum []float64, stream noise.Stream) (noised []float64, tolerance float64, err error) {
	noised = make([]float64, len(sum))
	tolerance = 1e-5
	if r.config.Mechanism.Arithmetic == FloatArithmetic {
		err = r.source.Normals64(noised, stream, 0)
		for i := range noised {
			noised[i] = sum[i] + s.Noise*noised[i]
		}
		return noised, tolerance, err
	}
	step := math.Ldexp(s.Sensitivity, -30)
	steps := make([]int64, len(sum))
	for i, x := range sum {
		steps[i] = int64(x / step)
	}
	n := noise.RoundedGaussian{Sigma: s.Noise / step}
	err = n.Add(r.source, steps, stream, 0)
	for i := range noised {
		noised[i] = step * math.Ldexp(float64(steps[i]), n.Grid())
	}
	return noised, tolerance + math.Ldexp(step, n.Grid()), err // the error of a sum moves it by at most one cell
}

// drawLot draws the records of a lot again.
func drawLot(t *testing.T, r *Run, lot int) []int {
	t.Helper()
	if err := r.sampler.StartLot(uint64(lot)); err != nil {
		t.Fatal(err)
	}
	all := make([]int, r.index.Records+1)
	n, err := r.sampler.Next(all)
	if err != nil {
		t.Fatal(err)
	}
	return all[:n]
}

// rowsOf returns the rows of a record and their weights.
func rowsOf(r *Run, record int) (rows []int, share []float32) {
	rows, share = make([]int, r.index.PerRecord), make([]float32, r.index.PerRecord)
	r.index.WriteRows(record, rows, share)
	return rows, share
}

// referenceStatistics computes the clipped sums of the four statistics over records, by
// evaluating one example at a time.
func referenceStatistics(t *testing.T, r *Run, e *Evaluator, flat []float32, records []int) [4][]float64 {
	t.Helper()
	weights := e.Weights()
	for _, w := range weights {
		copy(w, flat)
		flat = flat[len(w):]
	}
	sums := [4][]float64{make([]float64, 1), make([]float64, 1), make([]float64, classes), make([]float64, features)}
	for _, record := range records {
		rows, share := rowsOf(r, record)
		one := [4][]float64{make([]float64, 1), make([]float64, 1), make([]float64, classes), make([]float64, features)}
		for i, row := range rows {
			part := float64(share[i])
			if part == 0 {
				continue
			}
			x, label := make([]float32, features), make([]float32, 1)
			if err := r.config.Train.Read([][]float32{x, label}, []int{row}); err != nil {
				t.Fatal(err)
			}
			score, err := e.Score(weights, newTable(x, label, nil))
			if err != nil {
				t.Fatal(err)
			}
			one[0][0] += part * score.Accuracy
			one[1][0] += part * score.Loss
			one[2][int(label[0])] += part
			for j, v := range x {
				one[3][j] += part * float64(v)
			}
		}
		for s, bound := range []float64{1, 0.8, 1, 1.5} {
			norm := 0.0
			for _, v := range one[s] {
				norm += v * v
			}
			cut := min(1, bound/math.Sqrt(norm))
			if norm == 0 {
				cut = 1
			}
			for i, v := range one[s] {
				sums[s][i] += cut * v
			}
		}
	}
	return sums
}

// No record changes the sum by more than the sensitivity, for any result of its function.
func TestStatistic_IsClipped(t *testing.T) {
	say := make([]float64, 3)
	for _, arithmetic := range []Arithmetic{FloatArithmetic, ExactArithmetic} {
		s := Statistic{Name: "s", Size: 3, Sensitivity: 0.7, Noise: 1, Of: func(dst []float64, _ []load.Example) { copy(dst, say) }}
		c := Config{Mechanism: Mechanism{Arithmetic: arithmetic}}
		checkClipped(t, say, accumulatorOf(c, s, 60))
	}
}

// accumulator sums one statistic.
type accumulator struct {
	*lot.Statistics
	*release.Sum
}

// accumulatorOf returns the sum of a statistic in a run of c over a number of records.
func accumulatorOf(c Config, s Statistic, records int) accumulator {
	c.Statistics = []Statistic{s}
	sums := release.NewSums(c.releases(records), nil, 0)
	return accumulator{lot.NewStatistics(sums, []lot.Statistic{{Name: s.Name, Of: s.Of}}), sums.Sum(0)}
}

// released returns the last release of a statistic.
func released(r *Run, statistic int) []float64 {
	return r.lot.Sums.Result(r.config.entryOf(statistic))
}

func checkClipped(t *testing.T, say []float64, tally accumulator) {
	t.Helper()
	for _, v := range [][]float64{
		{0, 0, 0}, {0.7, 0, 0}, {0.5, 0.5, 0.5}, {1e300, 1, 1}, {1e-300, 1e-300, 0}, {-1e9, 1e9, 1e-9}, {1e154, 1e154, 1e154}, {1e308, 1e308, 0},
		{math.Inf(1), 0, 0}, {math.NaN(), 1, 1}, {0.7 / math.Sqrt(3), 0.7 / math.Sqrt(3), 0.7 / math.Sqrt(3)},
		{math.MaxFloat64, math.MaxFloat64, math.MaxFloat64}, {0, math.Inf(-1), math.NaN()}, {math.Nextafter(0.7, 1), 0, 0},
	} {
		copy(say, v)
		clear(tally.Floats)
		clear(tally.Integers)
		if err := tally.AddRecord(nil); err != nil {
			t.Fatal(err)
		}
		sum, isFloat := slices.Clone(tally.Floats), tally.Floats != nil
		for _, steps := range tally.Integers {
			sum = append(sum, 0.7*math.Ldexp(float64(steps), -30))
		}
		norm := math.Hypot(math.Hypot(sum[0], sum[1]), sum[2])
		if !(norm <= 0.7) {
			t.Errorf("%v moves the sum by %v", v, norm)
		}
		// Hypot does not overflow unless the norm itself does.
		finite := !slices.ContainsFunc(v, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) })
		if large := math.Hypot(math.Hypot(v[0], v[1]), v[2]); finite && large > 0.7 {
			for i, x := range v {
				if want := 0.7 * (x / math.Abs(v[0]) / math.Hypot(math.Hypot(1, v[1]/v[0]), v[2]/v[0])); !(math.Abs(sum[i]-want) <= 1e-9) {
					t.Errorf("%v became %v: number %d should be %v", v, sum, i, want)
				}
			}
		}
		if !finite && norm != 0 {
			t.Errorf("%v moves the sum by %v: it is not finite", v, norm)
		}
		if small := math.Hypot(math.Hypot(v[0], v[1]), v[2]); small < 0.69 && !(math.Abs(norm-small) <= 2e-9) || isFloat && small < 0.69 && norm != small {
			t.Errorf("%v became %v", v, sum)
		}
	}
}

// Each statistic is a query in the ledger, and the run's ε is that of gradient and statistics
// together.
func TestStatistics_AreInLedger(t *testing.T) {
	spent := map[bool]float64{}
	for _, asked := range []bool{false, true} {
		c := testConfig(t)
		if asked {
			c.Statistics = []Statistic{Accuracy(1, 2), MeanLoss(0.8, 1.6)}
		}
		r := newRun(t, c)
		trainRun(t, r, nil)
		r.Close()
		a, err := r.Spent("")
		if err != nil {
			t.Fatal(err)
		}
		spent[asked] = a.Epsilon
		if !asked {
			continue
		}
		queries := readLedger(t, c.Files.Ledger).Lots[0].Lot.Queries
		want := []ledger.Query{
			{Group: "gradient", Mechanism: queries[0].Mechanism, Sensitivity: 1, Noise: 1, Lattice: queries[0].Lattice, Grid: queries[0].Grid},
			r.config.arithmetic().Query("accuracy", 1, 2, release.StatisticLattice, 60),
			r.config.arithmetic().Query("loss", 0.8, 1.6, release.StatisticLattice, 60),
		}
		if len(queries) != 3 || queries[0] != want[0] || queries[1] != want[1] || queries[2] != want[2] {
			t.Errorf("queries %+v, want %+v", queries, want)
		}
		// 1 + ¼ + ¼ is the square of one query's ratio.
		single := accountant.Plan{Sampling: readLedger(t, c.Files.Ledger).Lots[0].Lot.Sampling, Steps: c.Steps, Noise: math.Sqrt(1 / 1.5)}
		b, err := accountant.Epsilon(single.History(), accountant.DefaultDelta(60), "")
		if err != nil || !(math.Abs(b.Epsilon-a.Epsilon) <= 1e-6) {
			t.Errorf("ε = %v, of one query that costs the same %v (%v)", a.Epsilon, b.Epsilon, err)
		}
	}
	if spent[true] <= spent[false] {
		t.Errorf("ε = %v with statistics, %v without", spent[true], spent[false])
	}
}

// A panic ends the run with an error that quotes no record.
func TestStatistic_PanicHidesRecord(t *testing.T) {
	c := testConfig(t)
	c.Statistics = []Statistic{{Name: "count", Size: 1, Sensitivity: 1, Noise: 1, Of: func(dst []float64, record []load.Example) {
		if record[0].Columns[0][0] != 0 {
			dst[int(1000*record[0].Columns[0][0])]++
		}
	}}}
	r := newRun(t, c)
	err := r.Train(t.Context(), nil)
	if err == nil || err.Error() != "lot 0: statistic count: its function panicked on a training record; test it on public records" {
		t.Errorf("error %v", err)
	}
	c = testConfig(t)
	c.Statistics = []Statistic{ClassCounts(2, data.Column{Classes: 3}, 1)}
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "an example of zeros") {
		t.Errorf("error %v for a column that is not there", err)
	}
}

// A function with a state would let one record change the vectors of others.
func TestStatistic_RefusesState(t *testing.T) {
	calls, sum := 0.0, 0.0
	for name, test := range map[string]struct {
		of      func(dst []float64, record []load.Example)
		refused bool
	}{
		"a counter":   {func(dst []float64, _ []load.Example) { calls++; dst[0] = calls }, true},
		"a sum":       {func(dst []float64, record []load.Example) { sum += float64(record[0].Columns[0][0]); dst[0] = sum }, true},
		"no state":    {func(dst []float64, record []load.Example) { dst[0] = float64(record[0].Columns[0][0]) + 1 }, false},
		"not numbers": {func(dst []float64, _ []load.Example) { dst[0] = math.NaN() }, false},
	} {
		c := testConfig(t)
		c.Statistics = []Statistic{{Name: "s", Size: 1, Sensitivity: 1, Noise: 1, Of: test.of}}
		r, err := New(c)
		if err == nil {
			err = r.Close()
		} else if !strings.Contains(err.Error(), "statistic s: its function gives different vectors for the same record") {
			t.Errorf("%s: %v", name, err)
		}
		if (err != nil) != test.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A statistic that some lots release is in the ledger's entries of these lots only, costs what they
// cost, and is a mean over the records of its lot alone. The noise is far below one record.
func TestStatistic_EverySecondLot(t *testing.T) {
	for _, policy := range []sample.Policy{sample.PolicyPoisson, sample.PolicyShuffle} {
		c := testConfig(t)
		c.Steps, c.Sampling.Policy = 7, policy
		c.Statistics = []Statistic{LotSize(1e-4), MeanLoss(1, 5)}
		c.Statistics[0].Every = 2
		r := newRun(t, c)
		lots := []int{}
		trainRun(t, r, func(p *Progress) error {
			size, loss := p.Released[0], p.Released[1]
			if size.Lot != p.Lot-p.Lot%2 || loss.Lot != p.Lot || size.Deviation != 1e-4/12 || loss.Deviation != 5.0/12 {
				t.Errorf("%s, lot %d: %+v, %+v", policy, p.Lot, size, loss)
			}
			if p.Lot%2 == 0 {
				lots = append(lots, p.Lot)
				if got, want := 12*size.Mean[0], float64(r.PrivateStats().Records); math.Abs(got-want) > 0.01 {
					t.Errorf("%s, lot %d: a size of %v, want %v", policy, p.Lot, got, want)
				}
			}
			return nil
		})
		r.Close()
		lot := 0
		for _, spent := range readLedger(t, c.Files.Ledger).Lots {
			for range spent.Count {
				lot++
				names := []string{}
				for _, q := range spent.Lot.Queries {
					names = append(names, q.Group)
				}
				want := []string{"gradient", "lot size", "loss"}
				if lot%2 == 1 {
					want = []string{"gradient", "loss"}
				}
				if !slices.Equal(names, want) {
					t.Errorf("%s, lot %d: the ledger states %v, want %v", policy, lot, names, want)
				}
			}
		}
		if lot != c.Steps || len(lots) != 3 {
			t.Errorf("%s: %d lots, released in %v", policy, lot, lots)
		}
	}
}

// The lots that a budget allows include those that release a statistic: ε of the closed ledger is
// within the budget, and the next lot would exceed it. AffordableSteps finds the same number.
func TestStatistic_EveryWithinBudget(t *testing.T) {
	c := testConfig(t)
	c.Mechanism.NoiseMultiplier, c.Steps, c.Budget.StopAtEpsilon, c.Budget.Delta = 4, 4000, 3, 1e-5
	c.Statistics = []Statistic{LotSize(4)}
	c.Statistics[0].Every = 3
	c.Files.CheckpointFolder = filepath.Join(t.TempDir(), "checkpoints")
	allowed, err := c.AffordableSteps()
	if err != nil {
		t.Fatal(err)
	}
	r := newRun(t, c)
	trainRun(t, r, nil)
	r.Close()
	if allowed != r.StepsDone() || allowed < 3 || allowed == c.Steps {
		t.Errorf("%d lots affordable, %d run", allowed, r.StepsDone())
	}
	a, err := r.Spent(c.Budget.Accountant)
	if err != nil || a.Epsilon > c.Budget.StopAtEpsilon {
		t.Errorf("ε = %v (%v)", a.Epsilon, err)
	}
	c.Budget.StopAtEpsilon, c.Steps = 0, allowed+1
	c.Mechanism.Arithmetic = r.config.Mechanism.Arithmetic
	over, err := accountant.Epsilon(c.PlannedHistory(), c.Budget.Delta, c.Budget.Accountant)
	if err != nil || over.Epsilon <= 3 {
		t.Errorf("one lot more costs ε = %v (%v), within the budget", over.Epsilon, err)
	}
}

// The share of clipped records is that of the lot, for bounds that clip no record, some and all; and
// also where users contribute changes.
func TestClippedShare_CountsScaledRecords(t *testing.T) {
	for name, base := range map[string]func(testing.TB) Config{"gradients": testConfig, "changes": localConfig} {
		some := false
		for _, bound := range []float64{1e6, 2, 0.5, 1e-6} {
			c := base(t)
			c.Mechanism.Clipping, c.Steps = clip.Flat(clip.Constant(bound), nil), 3
			c.Statistics = []Statistic{ClippedShare(1e-3)}
			r := newRun(t, c)
			trainRun(t, r, func(p *Progress) error {
				private := r.PrivateStats()
				clipped := private.Records - private.Unclipped
				if got := p.Released[0].Mean[0] * r.Event().ExpectedLot(); math.Abs(got-float64(clipped)) > 0.01 {
					t.Errorf("%s, bound %v, lot %d: %v clipped, want %d of %d", name, bound, p.Lot, got, clipped, private.Records)
				}
				if bound == 1e6 && clipped != 0 || bound == 1e-6 && clipped != private.Records {
					t.Errorf("%s, bound %v: %d of %d records are clipped", name, bound, clipped, private.Records)
				}
				some = some || clipped > 0 && clipped < private.Records
				return nil
			})
		}
		if !some {
			t.Errorf("%s: no bound clipped some of the records", name)
		}
	}
}
