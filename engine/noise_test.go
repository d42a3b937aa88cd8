package engine

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/noise"
)

// clippingGroups are the ways to clip two parameters.
var clippingGroups = map[string][]clip.Group{
	"flat":     clip.Flat(clip.Constant(0.5), nil),
	"separate": {{Name: "a", Parameters: []string{"w0"}, Bound: clip.Constant(0.25)}, {Name: "b", Parameters: []string{"w1"}, Bound: clip.Constant(2)}},
	"each":     clip.PerParameter([]string{"w0", "w1"}, clip.Constant(3), nil),
	"joint":    {{Name: "all", Parameters: []string{"w0", "w1"}, Scales: []float64{0.1, 3}, Bound: clip.Constant(1.5)}},
	"moving":   clip.Flat(clip.Schedule(func(lot int) float64 { return 1 / float64(1+lot) }), nil),
	"adaptive": clip.Flat(clip.Quantile{Initial: 1, Target: 0.5, Rate: 0.3, Noise: 4}, nil),
}

// With zero gradients, releases are noise of the deviation that the ledger and the allocation
// give, for each parameter: Σz² over 2·9,000 elements and 3 lots is χ², whose normal deviate
// (Wilson and Hilferty 1931) is beyond 5.5 with probability below 1e-7 per test.
func TestNoise_MatchesLedgerAndAllocation(t *testing.T) {
	const size = 9000
	for name, groups := range clippingGroups {
		for _, allocation := range []Allocation{Proportional, DimensionAdjusted} {
			t.Run(fmt.Sprintf("%s/%s", name, allocation), func(t *testing.T) {
				c := testConfig(t)
				useUnitSteps(&c)
				c.Network, c.Train = linearNetwork(size, size/9), newColumnTable(20, zeros, size, size/9)
				c.Mechanism.Clipping, c.Mechanism.Allocation, c.Mechanism.NoiseMultiplier, c.Steps, c.Sampling.Lot = groups, allocation, 1.7, 3, 5
				r := newRun(t, c)
				before := flatWeights(t, r)
				var squares, count [2]float64
				for range c.Steps {
					entry := r.lot.Mechanism.Entry
					sigma := expectedSigmas(t, entry.Queries, r, allocation)
					if err := r.runLot(); err != nil {
						t.Fatal(err)
					}
					after := flatWeights(t, r)
					for i := range after {
						v := 0
						if i >= size {
							v = 1
						}
						z := float64(after[i]-before[i]) * 5 / sigma[v]
						squares[v] += z * z
						count[v]++
					}
					before = after
				}
				for v := range squares {
					n := count[v]
					deviate := (math.Cbrt(squares[v]/n) - (1 - 2/(9*n))) / math.Sqrt(2/(9*n))
					if !(math.Abs(deviate) <= 5.5) {
						t.Errorf("vector %d: Σz² = %.0f of %.0f, a deviate of %.1f", v, squares[v], n, deviate)
					}
				}
			})
		}
	}
}

// expectedSigmas computes each parameter's deviation from the ledger's entry, and checks that
// the entry costs what the configuration requires.
func expectedSigmas(t *testing.T, queries []ledger.Query, r *Run, a Allocation) [2]float64 {
	t.Helper()
	var left float64
	var groups []ledger.Query
	for _, q := range queries {
		left += q.Sensitivity / q.Noise * q.Sensitivity / q.Noise
		if !strings.HasSuffix(q.Group, "/unclipped") {
			groups = append(groups, q)
		}
	}
	if z := 1 / math.Sqrt(left); !(math.Abs(z-1.7) <= 1e-9) {
		t.Errorf("the lot's queries compose to the multiplier %v, want 1.7", z)
	}
	sizes := [2]float64{9000, 1000}
	sigma := [2]float64{groups[0].Noise, groups[0].Noise}
	if len(groups) == 2 {
		sigma[1] = groups[1].Noise
		// Two groups: σ over S is √2·z, or z·√(D/d).
		for v := range sizes {
			want := 1.7 * math.Sqrt2
			if a == DimensionAdjusted {
				want = 1.7 * math.Sqrt(10000/sizes[v])
			}
			if ratio := groups[v].Noise / groups[v].Sensitivity; !(math.Abs(ratio-want) <= 1e-9) {
				t.Errorf("group %s: noise over sensitivity %v, want %v", groups[v].Group, ratio, want)
			}
		}
	}
	for v, s := range r.lot.Mechanism.Scales {
		sigma[v] *= s
	}
	return sigma
}

// The deviation that devices get is never below the ledger's.
func TestNoise_IsAtLeastLedgerNoise(t *testing.T) {
	for name, groups := range clippingGroups {
		for _, z := range []float64{0.1, 1.0 / 3, 1.7, 40} {
			c := testConfig(t)
			c.Network, c.Train, c.Mechanism.NoiseMultiplier = linearNetwork(4, 3), newColumnTable(20, zeros, 4, 3), z
			c.Mechanism.Clipping, c.Sampling.Lot = groups, 5
			if name == "adaptive" {
				c.Mechanism.Clipping = clip.Flat(clip.Quantile{Initial: 1, Target: 0.5, Rate: 0.3, Noise: 40}, nil)
			}
			r := newRun(t, c)
			for lot := range 3 {
				for v := range r.lot.Mechanism.Step.Sigma {
					sigma := r.lot.Mechanism.NoiseOf(v)
					q := r.lot.Mechanism.QueryOf(v)
					want := q.Noise * r.lot.Mechanism.Scales[v]
					if sigma < want || sigma > want*(1+1e-6) {
						t.Errorf("%s, lot %d: vector %d has noise %v, and the ledger has %v", name, lot, v, sigma, want)
					}
				}
				if err := r.runLot(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// Each lot has its own multiplier, also in the ledger.
func TestNoiseMultiplierAt_IsInLedger(t *testing.T) {
	c := testConfig(t)
	c.Mechanism.NoiseMultiplier, c.Steps = 0, 6
	c.Mechanism.NoiseMultiplierAt = func(lot int) float64 { return 3 - float64(lot/2) }
	r := newRun(t, c)
	trainRun(t, r, nil)
	r.Close()
	var got []float64
	for _, s := range readLedger(t, c.Files.Ledger).Lots {
		for range s.Count {
			got = append(got, s.Lot.Queries[0].Noise)
		}
	}
	if fmt.Sprint(got) != "[3 3 2 2 1 1]" {
		t.Errorf("noise %v in the ledger", got)
	}
}

// An epoch of a schedule is a pass, also where its last lot is short.
func TestSchedule_EpochIsPass(t *testing.T) {
	c := testConfig(t)
	c.Sampling.Policy, c.Sampling.Lot, c.Steps = sample.PolicyShuffle, 25, 7 // 25, 25 and 10 of 60
	c.Optimization.Schedule = optim.Schedule{Base: 1, Shape: optim.ShapeStep, Factor: 0.5, Milestones: []float64{1, 2}}
	var rates []float64
	trainRun(t, newRun(t, c), func(p *Progress) error {
		rates = append(rates, p.LearningRate)
		return nil
	})
	if want := []float64{1, 1, 1, 0.5, 0.5, 0.5, 0.25}; !slices.Equal(rates, want) {
		t.Errorf("rates %v, want %v", rates, want)
	}
}

// A learning rate given by a function moves the weights as a schedule of the same rates does.
func TestLearningRateAt_MatchesSchedule(t *testing.T) {
	c := testConfig(t)
	c.Steps, c.Optimization.Schedule = 6, optim.Schedule{Base: 0.3, Shape: optim.ShapeCosine}
	planned := newRun(t, c)
	trainRun(t, planned, nil)
	cosine := c.Optimization.Schedule
	c.Optimization.Schedule, c.Files.Ledger = optim.Schedule{}, filepath.Join(t.TempDir(), "ledger.jsonl")
	c.Optimization.LearningRateAt = func(lot int) float64 { return cosine.Rate(lot+1, 5, 6) }
	r := newRun(t, c)
	trainRun(t, r, func(p *Progress) error {
		if want := c.Optimization.LearningRateAt(p.Lot - 1); p.LearningRate != want {
			t.Errorf("lot %d at a rate of %v, want %v", p.Lot, p.LearningRate, want)
		}
		return nil
	})
	if !slices.Equal(flatWeights(t, r), flatWeights(t, planned)) {
		t.Error("other weights than by the schedule")
	}
}

// The bound of lot t is the schedule's value at t, and the schedule is not evaluated beyond the
// last lot.
func TestScheduledBound_PerLot(t *testing.T) {
	c := testConfig(t)
	c.Steps = 4
	c.Mechanism.Clipping = clip.Flat(clip.Schedule(func(lot int) float64 { return []float64{4, 2, 1, 0.5}[lot] }), nil)
	r := newRun(t, c)
	var got []float64
	for range c.Steps {
		got = append(got, r.Describe().Parameters[0].Clip)
		if err := r.runLot(); err != nil {
			t.Fatal(err)
		}
	}
	r.Close()
	for i, s := range readLedger(t, c.Files.Ledger).Lots {
		got = append(got, s.Lot.Queries[0].Sensitivity)
		if z := s.Lot.Queries[0].Noise / s.Lot.Queries[0].Sensitivity; z != 1 {
			t.Errorf("lot %d: multiplier %v", i, z)
		}
	}
	if fmt.Sprint(got) != "[4 2 1 0.5 4 2 1 0.5]" {
		t.Errorf("bounds and the ledger's: %v", got)
	}
}

// The bound changes only by the released count, which is in the ledger, and converges to the
// quantile.
func TestAdaptiveBound_FollowsReleasedCount(t *testing.T) {
	t.Run("float", func(t *testing.T) { followReleasedCount(t, FloatArithmetic) })
	t.Run("exact", func(t *testing.T) { followReleasedCount(t, ExactArithmetic) })
}

func followReleasedCount(t *testing.T, arithmetic Arithmetic) {
	c := testConfig(t)
	c.Mechanism.Arithmetic = arithmetic
	// Gradients of length 1, 2, …, 200, half of them below 100.5.
	c.Network = linearNetwork(1)
	c.Train = newColumnTable(200, func(i, k, j int) float32 { return float32(i + 1) }, 1)
	c.Sampling.Lot, c.Sampling.Rate, c.Steps, c.Mechanism.NoiseMultiplier = 0, 1, 60, 2
	q := clip.Quantile{Initial: 1, Target: 0.5, Rate: 0.3, Noise: 10}
	c.Mechanism.Clipping = clip.Flat(q, nil)
	c.Optimization.Schedule.Base = 1e-6
	r := newRun(t, c)
	bound := 1.0
	trainRun(t, r, func(p *Progress) error {
		var z [1]float64
		stream := noise.Stream{Purpose: noise.Release, Lot: uint64(p.Lot - 1), Vector: 1}
		if err := r.source.Normals64(z[:], stream, 0); err != nil {
			return err
		}
		below := 0.0
		for g := 1.0; g <= 200; g++ {
			// Norms are taken as slightly larger than computed.
			if g*(1+1e-5) <= bound {
				below++
			}
		}
		noised := below - 100 + q.Noise*z[0]
		if arithmetic == ExactArithmetic {
			// Contributions of ±1 step of one half, noise of 20 steps, and a grid of 2^-4 steps.
			steps, err := noise.RoundedGaussian{Sigma: 20}.AddOne(r.source, int64(2*(below-100)), stream)
			if err != nil {
				return err
			}
			noised = float64(steps) / 16 / 2
		}
		bound *= math.Exp(-q.Rate * (noised / 200))
		if got := r.lot.Mechanism.Clipper.State(nil)[0]; !(math.Abs(got-bound) <= 1e-6*bound) {
			t.Fatalf("lot %d: bound %v, want %v", p.Lot, got, bound)
		}
		return nil
	})
	if bound < 85 || bound > 117 {
		t.Errorf("after 60 lots the bound is %v, far from the median 100.5", bound)
	}
	r.Close()
	for i, s := range readLedger(t, c.Files.Ledger).Lots {
		total := 0.0
		for _, q := range s.Lot.Queries {
			total += math.Pow(q.Sensitivity/q.Noise, 2)
		}
		if len(s.Lot.Queries) != 2 || s.Lot.Queries[1].Noise != 10 || s.Lot.Queries[1].Sensitivity != 0.5 {
			t.Errorf("lot %d: queries %+v", i, s.Lot.Queries)
		}
		if z := 1 / math.Sqrt(total); !(math.Abs(z-2) <= 1e-9) {
			t.Errorf("lot %d costs the multiplier %v, want 2", i, z)
		}
	}
}
