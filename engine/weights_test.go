package engine

import (
	"math"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/device/plan"
)

// hostileWeights are weights of examples, and each limited to [0, 4] and divided by 4.
var hostileWeights = []struct{ weight, share float64 }{
	{1, .25}, {0, 0}, {4, 1}, {math.NaN(), 0}, {-1, 0}, {5, 1}, {math.Inf(1), 1}, {math.Inf(-1), 0},
	{math.SmallestNonzeroFloat64, 0}, {math.MaxFloat64, 1}, {2, .5}, {3, .75},
}

// weightedConfig has 12 examples of 4 users, with hostileWeights and the gradient (3, 4).
func weightedConfig(t testing.TB) Config {
	c := testConfig(t)
	c.Network = linearNetwork(2)
	table := newColumnTable(12, func(_, _, j int) float32 { return float32(3 + j) }, 2)
	users := make([]int32, 12)
	weights := make([]float64, 12)
	for i := range users {
		users[i], weights[i] = int32(i%4), hostileWeights[i].weight
	}
	owned, err := data.NewTable(table.Columns(), [][]float32{columnOf(t, table)}, users)
	if err != nil {
		t.Fatal(err)
	}
	if c.Train, err = data.WithWeights(owned, weights); err != nil {
		t.Fatal(err)
	}
	c.Weights = RecordWeights{Cap: 4, Mean: 2}
	c.Sampling, c.Steps = Sampling{Rate: 1}, 1
	useUnitSteps(&c)
	return c
}

// columnOf returns the numbers of a set's only column.
func columnOf(t testing.TB, s data.Set) []float32 {
	t.Helper()
	rows := make([]int, s.Len())
	for i := range rows {
		rows[i] = i
	}
	numbers := make([]float32, s.Len()*s.Columns()[0].Size())
	if err := s.Read([][]float32{numbers}, rows); err != nil {
		t.Fatal(err)
	}
	return numbers
}

// A record adds its clipped gradient times weight/Cap, where the weight of several examples is
// their mean, and the sum is divided by q·N·Mean/Cap: with every unit of privacy, arithmetic and
// microbatch, and without privacy.
func TestWeights_OfGradients(t *testing.T) {
	share := func(examples ...int) (sum float64) {
		for _, i := range examples {
			sum += hostileWeights[i].share / float64(len(examples))
		}
		return sum
	}
	units := []struct {
		records Records
		members [][]int
	}{
		{Records{}, [][]int{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}, {9}, {10}, {11}}},
		{Records{Examples: 5}, [][]int{{0, 1, 2, 3, 4}, {5, 6, 7, 8, 9}, {10, 11}}},
		{Records{Users: true, Examples: 3}, [][]int{{0, 4, 8}, {1, 5, 9}, {2, 6, 10}, {3, 7, 11}}},
		{Records{Users: true, Examples: 2}, [][]int{{0, 4}, {1, 5}, {2, 6}, {3, 7}}}, // the third example of a user does not count
	}
	for _, unit := range units {
		total := 0.0
		for _, examples := range unit.members {
			total += share(examples...)
		}
		for _, arithmetic := range []Arithmetic{ExactArithmetic, FloatArithmetic} {
			for _, microbatch := range []int{1, 3, 12} {
				for _, private := range []bool{true, false} {
					c := weightedConfig(t)
					c.Records, c.Microbatch, c.Mechanism.Arithmetic = unit.records, microbatch, arithmetic
					c.Mechanism.NonPrivate = !private
					r, norm := trainWithoutNoise(t, c)
					for i, w := range flatWeights(t, r) {
						want := -norm * []float64{.6, .8}[i] * total / (float64(len(unit.members)) * 2 / 4)
						if math.Abs(float64(w)-want) > 5e-3*norm {
							t.Errorf("%+v, %s, microbatch %d, private %v: weight %d is %v, want %v", unit.records, arithmetic, microbatch, private, i, w, want)
						}
					}
					r.Close()
					if private {
						if q := readLedger(t, c.Files.Ledger).Lots[0].Lot.Queries; len(q) != 1 || q[0].Sensitivity != 1 || q[0].Noise != 1 {
							t.Errorf("the ledger states %+v", q)
						}
					}
				}
			}
		}
	}
}

// trainWithoutNoise trains a configuration, and returns the norm of a record's contribution: the bound,
// or that of the gradient without privacy.
func trainWithoutNoise(t *testing.T, c Config) (r *Run, norm float64) {
	t.Helper()
	r, norm = newRun(t, c), 5
	if !c.Mechanism.NonPrivate {
		disableNoise(r)
		norm = 1
	}
	trainRun(t, r, nil)
	return r, norm
}

// With MinMean, the sum of gradients, or of changes in local steps, is divided by the sum of the lot's
// weights, at least by q·N·MinMean. The ledger then states twice the bound and twice the noise, and ε is
// that of a run without weights.
func TestWeights_DenominatorOfLot(t *testing.T) {
	for _, device := range []string{"cpu", "gorgonia"} {
		for _, local := range []LocalTraining{{}, {Steps: 1, Rate: 1}} {
			checkDenominatorOfLot(t, device, local)
		}
	}
}

func checkDenominatorOfLot(t *testing.T, device string, local LocalTraining) {
	total := 0.0 // in units of the cap
	for _, w := range hostileWeights {
		total += w.share / 3
	}
	for _, arithmetic := range []Arithmetic{ExactArithmetic, FloatArithmetic} {
		for _, private := range []bool{true, false} {
			for minMean, denominator := range map[float64]float64{1: total, 3: 3} {
				c := weightedConfig(t)
				c.Records, c.LocalTraining, c.Device.Name = Records{Users: true, Examples: 3}, local, device
				c.Weights = RecordWeights{Cap: 4, MinMean: minMean}
				c.Mechanism.Arithmetic, c.Mechanism.NonPrivate = arithmetic, !private
				r, norm := trainWithoutNoise(t, c)
				for i, w := range flatWeights(t, r) {
					want, tolerance := -norm*[]float64{.6, .8}[i]*total/denominator, 1e-5
					if private && local.Steps == 0 {
						tolerance = 5e-3 // clip factors leave room for roundings
					}
					if math.Abs(float64(w)-want) > tolerance {
						t.Errorf("%s, %+v, %s, private %v, a least mean of %v: weight %d is %v, want %v", device, local, arithmetic, private, minMean, i, w, want)
					}
				}
				r.Close()
				if !private {
					continue
				}
				h := readLedger(t, c.Files.Ledger)
				if q := h.Lots[0].Lot.Queries; len(q) != 1 || q[0].Sensitivity != 2 || q[0].Noise != 2 {
					t.Errorf("the ledger states %+v", q)
				}
				cost, err := accountant.Epsilon(h, 1e-3, "")
				planned, plannedErr := accountant.Epsilon(c.PlannedHistory(), 1e-3, "")
				if err != nil || plannedErr != nil || math.Abs(cost.Epsilon/planned.Epsilon-1) > 1e-6 {
					t.Errorf("ε is %v and was planned as %v (%v, %v)", cost.Epsilon, planned.Epsilon, err, plannedErr)
				}
			}
		}
	}
}

// Another weight of a record changes the integers of a lot by at most the lattice, and a record with
// the largest weight adds what it adds without weights.
func TestWeights_SensitivityInIntegers(t *testing.T) {
	sums := func(weight float64) []int64 {
		c := weightedConfig(t)
		weights := slices.Repeat([]float64{4}, 12)
		weights[7] = weight
		var err error
		if c.Train, err = data.WithWeights(c.Train, weights); err != nil {
			t.Fatal(err)
		}
		r := newRun(t, c)
		if err := r.sumLot(); err != nil {
			t.Fatal(err)
		}
		return slices.Clone(r.network.Executable.(interface{ IntegerSum(v int) []int64 }).IntegerSum(0))
	}
	none := sums(0)
	for _, w := range append(hostileWeights, struct{ weight, share float64 }{4, 1}) {
		squares := 0.0
		for i, x := range sums(w.weight) {
			squares += float64(x-none[i]) * float64(x-none[i])
		}
		if got := math.Sqrt(squares) / (1 << 22); got > 1 || math.Abs(got-w.share) > 5e-3 {
			t.Errorf("weight %v: the sum moves by %v of the lattice, want %v", w.weight, got, w.share)
		}
	}
}

// One more record moves the integers of a lot that is divided by its weight by at most the lattice. A
// record with the largest weight and the opposite gradient moves them by 11/12 of it, where the weight of
// the others is the least denominator.
func TestWeights_DenominatorSensitivityInIntegers(t *testing.T) {
	for _, device := range []string{"cpu", "gorgonia"} {
		for minMean, worst := range map[float64]float64{11. / 3: 11. / 12, 1: 3. / 12, 4: 1. / 2} {
			sums := func(weight, share float64) []int64 {
				c := weightedConfig(t)
				table := newColumnTable(12, func(i, _, j int) float32 {
					if i == 7 {
						return float32(-3 - j)
					}
					return float32(3 + j)
				}, 2)
				weights := slices.Repeat([]float64{4}, 12)
				weights[7] = weight
				var err error
				if c.Train, err = data.WithWeights(table, weights); err != nil {
					t.Fatal(err)
				}
				c.Weights, c.Device.Name = RecordWeights{Cap: 4, MinMean: minMean}, device
				r := newRun(t, c)
				if err := r.sumLot(); err != nil {
					t.Fatal(err)
				}
				if m := r.lot.Mechanism; m.Largest != 1<<21-1 || !slices.Contains(m.Contributions.Bounds[0], int64(float64(m.Largest)*share)) {
					t.Errorf("weight %v: the bounds of records are %d", weight, m.Contributions.Bounds)
				}
				ints := slices.Clone(r.network.Executable.(interface{ IntegerSum(v int) []int64 }).IntegerSum(0))
				plan.Ratio{Weight: r.lot.Loader.LotWeight, Least: r.lot.Mechanism.Step.Ratio.Least}.DivideInts(ints)
				return ints
			}
			none, most := sums(0, 0), 0.0
			for _, w := range append(hostileWeights, struct{ weight, share float64 }{4, 1}) {
				squares := 0.0
				for i, x := range sums(w.weight, w.share) {
					squares += float64(x-none[i]) * float64(x-none[i])
				}
				most = max(most, math.Sqrt(squares)/(1<<22))
			}
			if most > 1 || math.Abs(most-worst) > 5e-3 {
				t.Errorf("%s, a least mean of %v: a record moves the sum by %v of the lattice, want %v", device, minMean, most, worst)
			}
		}
	}
}

// Adaptive bounds count records, not weights.
func TestWeights_DoNotChangeCounts(t *testing.T) {
	c := weightedConfig(t)
	c.Mechanism.Clipping = clip.Flat(clip.Quantile{Initial: 6, Target: 0.5, Rate: 0.2, Noise: 1}, nil)
	r := newRun(t, c)
	if err := r.sumLot(); err != nil {
		t.Fatal(err)
	}
	if n := r.lot.Mechanism.Clipper.QuantileCount(0); n != 6 {
		t.Errorf("the count is %v, want half of 12 records", n)
	}
}

func TestWeights_RefusesSettings(t *testing.T) {
	for name, change := range map[string]func(c *Config){
		"no weights in the data": func(c *Config) { c.Train = newColumnTable(12, zeros, 2) },
		"a negative cap":         func(c *Config) { c.Weights.Cap = -1 },
		"a mean above the cap":   func(c *Config) { c.Weights.Mean = 5 },
		"a least mean with Laplace noise": func(c *Config) {
			c.Weights, c.Mechanism.Distribution = RecordWeights{Cap: 4, MinMean: 1}, LaplaceNoise
		},
		"a least mean of fixed lots": func(c *Config) {
			c.Records, c.LocalTraining = Records{Users: true, Examples: 3}, LocalTraining{Steps: 1, Rate: 1}
			c.Weights, c.Sampling = RecordWeights{Cap: 4, MinMean: 1}, Sampling{Policy: sample.PolicyFixed, Lot: 2}
		},
		"both means": func(c *Config) {
			c.Records, c.LocalTraining = Records{Users: true, Examples: 3}, LocalTraining{Steps: 1, Rate: 1}
			c.Weights.MinMean = 1
		},
	} {
		c := weightedConfig(t)
		change(&c)
		if r, err := New(c); err == nil {
			r.Close()
			t.Errorf("%s was accepted", name)
		}
	}
}

// A GPU does not compute a sum of gradients with a denominator that depends on the lot. So auto is
// the CPU, and a GPU is refused.
func TestWeights_LeastMeanNeedsHost(t *testing.T) {
	c := weightedConfig(t)
	c.Weights, c.Device.Name = RecordWeights{Cap: 4, MinMean: 1}, "auto"
	if err := c.checkWeights(); err != nil || c.Device.Name != "cpu" {
		t.Errorf("auto becomes %s (%v), want cpu", c.Device.Name, err)
	}
	c.Device.Name = "cuda:0"
	if _, err := New(c); !isOneLineWith(err, "device cuda:0 does not divide") {
		t.Errorf("a GPU: %v", err)
	}
	c.Weights, c.LocalTraining.Steps = RecordWeights{Cap: 4, MinMean: 1}, 1
	if err := c.checkWeights(); err != nil || c.Device.Name != "cuda:0" {
		t.Errorf("local steps on a GPU: %v, on %s", err, c.Device.Name)
	}
}

// A resumed run has the same limits of weights.
func TestWeights_AreInFingerprint(t *testing.T) {
	c := weightedConfig(t)
	c.Files.CheckpointFolder, c.Steps = t.TempDir(), 2
	r := newRun(t, c)
	trainRun(t, r, nil)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	c.Weights.Cap = 5
	if _, err := Resume(c); err == nil {
		t.Error("resumed with another cap")
	}
	c.Weights.Cap, c.Steps = 4, 3
	r, err := Resume(c)
	if err != nil {
		t.Fatal(err)
	}
	trainRun(t, r, nil)
	r.Close()
	if h := readLedger(t, c.Files.Ledger); h.LotCount() != 3 || h.Lots[0].Lot.Queries[0].Mechanism != ledger.RoundedGaussian {
		t.Errorf("the ledger has %+v", h.Lots)
	}
}
