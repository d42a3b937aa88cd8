package engine

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/noise"
)

func laplaceConfig(t testing.TB) Config {
	c := testConfig(t)
	c.Mechanism.Distribution = LaplaceNoise
	return c
}

// A lot of one record changes the sums by integers whose ℓ₁ norm is at most the sensitivity that
// the ledger states, and close to it for a record that is clipped.
func TestLaplace_RecordIsWithinSensitivity(t *testing.T) {
	for i, scale := range []float32{1e-3, 1, 1e6, 1e38} {
		c := laplaceConfig(t)
		c.Network = linearNetwork(5, 300)
		c.Train = newColumnTable(60, func(_, k, j int) float32 { return scale * float32(math.Sin(float64(1+k+3*j))) }, 5, 300)
		c.Mechanism.Clipping = clip.Flat(clip.Constant(0.5), nil)
		r := newRun(t, c)
		r.lot.Loader.Records[0] = 0
		if err := r.lot.Method.Add(1); err != nil {
			t.Fatal(err)
		}
		length := int64(0)
		m := r.network.Executable.(interface{ IntegerSum(v int) []int64 })
		for v := range r.network.Program.Parameters {
			for _, x := range m.IntegerSum(v) {
				length += max(x, -x)
			}
		}
		q := r.lot.Mechanism.Entry.Queries[0]
		if length > q.Lattice || q.Lattice != plan.Bound || q.Sensitivity != 0.5 {
			t.Errorf("scale %v: ℓ₁ norm of %d lattice steps with the query %+v", scale, length, q)
		}
		if wantClipped := i == 1 || i == 2; wantClipped && length < plan.Bound*9/10 || i > 2 && length != 0 {
			t.Errorf("scale %v: ℓ₁ norm of %d lattice steps", scale, length)
		}
	}
}

// What is released are the sums plus the integers of noise.Source.DiscreteLaplaces at the scale
// that the ledger states, times a lattice step.
func TestLaplace_ReleasesDiscreteNoise(t *testing.T) {
	c := laplaceConfig(t)
	c.Network, c.Train, c.Steps = linearNetwork(700, 3), newColumnTable(60, zeros, 700, 3), 1
	c.Mechanism.NoiseMultiplier, c.Mechanism.Clipping = 3, clip.Flat(clip.Constant(0.25), nil)
	c.Optimization.Schedule.Base = 1
	r := newRun(t, c)
	trainRun(t, r, nil)
	q := readLedger(t, c.Files.Ledger).Lots[0].Lot.Queries[0]
	if want := float64(3*plan.Bound + 1); q.Mechanism != ledger.DiscreteLaplace || q.LatticeScale() != want || !(q.Noise >= 0.75) {
		t.Fatalf("the ledger states %+v of scale %v, want %v", q, q.LatticeScale(), want)
	}
	weights := flatWeights(t, r)
	for v, size := range []int{700, 3} {
		values := make([]int64, size)
		if err := r.source.DiscreteLaplaces(values, noise.Stream{Purpose: noise.Release, Vector: uint32(v)}, 0, uint64(q.LatticeScale())); err != nil {
			t.Fatal(err)
		}
		for i, x := range values {
			step := r.lot.Mechanism.Step.Unit[v] / 12
			if got, want := weights[i], -float32(float64(x)*step); got != want {
				t.Fatalf("parameter %d, element %d: %v, want %v", v, i, got, want)
			}
		}
		weights = weights[size:]
	}
}

// A whole run, its plan and its ledger cost the same, and no more than Laplace noise over the
// reals. Lots of all records cost a pure ε, the number of lots over the noise multiplier.
func TestLaplace_Accounting(t *testing.T) {
	for _, policy := range []sample.Policy{sample.PolicyPoisson, sample.PolicyFixed, sample.PolicyShuffle} {
		c := laplaceConfig(t)
		c.Budget.Accountant, c.Sampling.Policy = "pld", policy
		z, err := c.CalibrateNoise(3)
		if err != nil {
			t.Fatal(err)
		}
		c.Mechanism.NoiseMultiplier, c.Budget.StopAtEpsilon = z, 3
		r := newRun(t, c)
		trainRun(t, r, nil)
		if r.StepsDone() != c.Steps {
			t.Errorf("%s: %d lots with a noise calibrated for %d", policy, r.StepsDone(), c.Steps)
		}
		spent, err := r.Spent("pld")
		if err != nil || !(spent.Epsilon <= 3 && spent.Epsilon > 2.9) {
			t.Errorf("%s: ε = %v, %v", policy, spent.Epsilon, err)
		}
		plan, err := accountant.Epsilon(c.PlannedHistory(), 1e-3, "pld")
		if err != nil || math.Abs(plan.Epsilon-spent.Epsilon) > 1e-6 {
			t.Errorf("%s: the plan costs %v, %v, and the run %v", policy, plan.Epsilon, err, spent.Epsilon)
		}
	}
	c := laplaceConfig(t)
	c.Sampling, c.Mechanism.NoiseMultiplier, c.Budget.Accountant = Sampling{Rate: 1}, 4, "pld"
	r := newRun(t, c)
	trainRun(t, r, nil)
	h := readLedger(t, c.Files.Ledger)
	if g, err := accountant.Epsilon(h, 1e-15, "pld"); err != nil || math.Abs(g.Epsilon-5.0/4) > 1e-5 {
		t.Errorf("5 lots of all records with the noise multiplier 4 cost %v, %v", g.Epsilon, err)
	}
}

// Weights do not depend on the microbatch and the number of threads: a contribution depends on
// its record alone, and so does its clip factor.
func TestLaplace_SameBitsForEveryMicrobatch(t *testing.T) {
	var want []float32
	for _, microbatch := range []int{1, 5, 40} {
		for _, threads := range []int{1, 3} {
			c := laplaceConfig(t)
			c.Network, c.Train = linearNetwork(5, 30), newColumnTable(60, func(i, k, j int) float32 { return float32(math.Sin(float64(i + k + 3*j))) }, 5, 30)
			c.Microbatch, c.Device.Threads = microbatch, threads
			r := newRun(t, c)
			trainRun(t, r, nil)
			if want == nil {
				want = flatWeights(t, r)
			} else if !slices.Equal(flatWeights(t, r), want) {
				t.Errorf("a microbatch of %d and %d threads give other weights", microbatch, threads)
			}
		}
	}
}

// A resumed run keeps its distribution.
func TestLaplace_Resume(t *testing.T) {
	c := checkpointedConfig(t)
	c.Mechanism.Clipping, c.Mechanism.Distribution = clip.Flat(clip.Constant(1), nil), LaplaceNoise
	r := newRun(t, c)
	trainRun(t, r, nil)
	r.Close()
	c.Steps += 2
	gaussian := c
	gaussian.Mechanism.Distribution = ""
	if _, err := Resume(gaussian); !isOneLineWith(err, "distribution is gaussian (it was laplace)") {
		t.Errorf("%v", err)
	}
	trainRun(t, resumeRun(t, c), nil)
	if h := readLedger(t, c.Files.Ledger); h.LotCount() != c.Steps || h.Lots[0].Lot.Queries[0].Mechanism != ledger.DiscreteLaplace || len(h.RealGroups()) != 0 {
		t.Errorf("the ledger has %+v", h)
	}
}

func TestLaplace_Refuses(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"noise distribution \"cauchy\" is unknown": func(c *Config) { c.Mechanism.Distribution = "cauchy" },
		"device gorgonia adds no Laplace noise":    func(c *Config) { c.Device.Name = "gorgonia" },
		"device cuda:0 adds no Laplace noise":      func(c *Config) { c.Device.Name = "cuda:0" },
		"requires exact arithmetic":                func(c *Config) { c.Mechanism.Arithmetic = FloatArithmetic },
		"clipped as one group":                     func(c *Config) { c.Mechanism.Clipping = perParameterClipping(clip.Constant(1)) },
		"adaptive bound": func(c *Config) {
			c.Mechanism.Clipping = clip.Flat(clip.Quantile{Initial: 1, Target: 0.5, Rate: 0.1, Noise: 5}, nil)
		},
		"truncated lots":         func(c *Config) { c.Sampling.Policy = sample.PolicyTruncated },
		"one from 2^-18 to 2^18": func(c *Config) { c.Mechanism.NoiseMultiplier = 1e6 },
		"Mechanism.Choose chooses Gaussian": func(c *Config) {
			c.Mechanism.Choose, c.Budget.StopAtEpsilon = func(*Progress) LotChoice { return LotChoice{} }, 3
		},
	} {
		c := laplaceConfig(t)
		change(&c)
		if _, err := New(c); !isOneLineWith(err, want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	c := laplaceConfig(t)
	c.Device.Name = "auto"
	if d := newRun(t, c).Describe(); d.Device != "cpu" || d.Arithmetic != ExactArithmetic {
		t.Errorf("device %s, arithmetic %s", d.Device, d.Arithmetic)
	}
}

// A rule on the host gets the standard deviation of Laplace noise, √2 times its scale.
func TestLaplace_NoiseDeviation(t *testing.T) {
	c := laplaceConfig(t)
	c.Network, c.Train, c.Steps, c.Mechanism.NoiseMultiplier = linearNetwork(3), newColumnTable(60, zeros, 3), 1, 3
	spy := &noiseSpy{}
	c.Optimization.Optimizer = optim.Rule(spy)
	c.Files.Ledger = filepath.Join(t.TempDir(), "ledger.jsonl")
	trainRun(t, newRun(t, c), nil)
	if want := math.Sqrt2 * 3 / 12; math.Abs(spy.step.NoiseDeviation/want-1) > 1e-6 {
		t.Errorf("the deviation is %v, want %v", spy.step.NoiseDeviation, want)
	}
}
