package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/optim"
)

// ownNoise is testConfig with a group of each kind: noise of its own, a schedule of its own, and a
// share of the common noise.
func ownNoise(t testing.TB) Config {
	c := testConfig(t)
	c.Mechanism.Clipping = []clip.Group{
		{Name: "own", Parameters: []string{"fc1.weight"}, Bound: clip.Constant(0.5)},
		{Name: "scheduled", Parameters: []string{"fc1.bias"}, Bound: clip.Schedule(func(lot int) float64 { return 1 / float64(1+lot) })},
		{Name: "shared", Parameters: []string{"fc2.weight"}, Bound: clip.Constant(2)},
		{Name: "other", Parameters: []string{"fc2.bias"}, Bound: clip.Constant(3)},
	}
	c.Mechanism.GroupNoiseMultipliers = map[string]float64{"own": 5}
	c.Mechanism.GroupNoiseMultiplierAt = map[string]func(int) float64{"scheduled": func(lot int) float64 { return 8 - float64(lot) }}
	return c
}

// The ledger states each group's own noise in each lot, and divides the common noise among the
// other groups only.
func TestGroupNoise_IsInLedger(t *testing.T) {
	for _, arithmetic := range []Arithmetic{ExactArithmetic, FloatArithmetic} {
		c := ownNoise(t)
		c.Mechanism.Arithmetic = arithmetic
		r := newRun(t, c)
		trainRun(t, r, nil)
		r.Close()
		lot := 0
		for _, spent := range readLedger(t, c.Files.Ledger).Lots {
			for range spent.Count {
				bound := 1 / float64(1+lot)
				for i, want := range [][2]float64{{0.5, 5 * 0.5}, {bound, (8 - float64(lot)) * bound}, {2, math.Sqrt2 * 2}, {3, math.Sqrt2 * 3}} {
					q := spent.Lot.Queries[i]
					if q.Sensitivity != want[0] || math.Abs(q.Noise/want[1]-1) > 1e-12 || q.Mechanism.IsExact() != (arithmetic == ExactArithmetic) {
						t.Errorf("%s, lot %d: query %+v, want %v", arithmetic, lot, q, want)
					}
				}
				lot++
			}
		}
		if lot != c.Steps {
			t.Errorf("%d lots in the ledger", lot)
		}
	}
}

// Of gradients that are zero, a step releases noise only. Its standard deviation in each group is
// what the ledger states: within 6.5 standard errors, so a correct program fails once in 10^9 runs.
func TestGroupNoise_HasStatedDeviation(t *testing.T) {
	const size = 4000
	for _, arithmetic := range []Arithmetic{ExactArithmetic, FloatArithmetic} {
		c := testConfig(t)
		c.Network, c.Train = linearNetwork(size, size, size), newColumnTable(60, zeros, size, size, size)
		c.Steps, c.Optimization.Schedule = 1, optim.Schedule{Base: 1}
		c.Mechanism.Clipping = []clip.Group{
			{Name: "a", Parameters: []string{"w0"}, Bound: clip.Constant(0.5)},
			{Name: "b", Parameters: []string{"w1"}, Bound: clip.Constant(2)},
			{Name: "c", Parameters: []string{"w2"}, Bound: clip.Constant(1)},
		}
		c.Mechanism.GroupNoiseMultipliers = map[string]float64{"a": 7, "b": 0.5}
		c.Mechanism.NoiseMultiplier, c.Mechanism.Arithmetic = 3, arithmetic
		r := newRun(t, c)
		trainRun(t, r, nil)
		parameters, err := r.Parameters()
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []float64{3.5, 1, 3} {
			squares := 0.0
			for _, w := range parameters[i].Values {
				squares += 12 * 12 * float64(w) * float64(w)
			}
			if got := math.Sqrt(squares / size); math.Abs(got/want-1) > 6.5/math.Sqrt(2*size) {
				t.Errorf("%s: group %d has noise of %v, want %v", arithmetic, i, got, want)
			}
		}
	}
}

// Without common noise a run costs what accountant.Plan computes for groups of the same S and σ,
// with an adaptive count too, and its combined multiplier costs the same.
func TestGroupNoise_CostsWhatItsGroupsCost(t *testing.T) {
	c := testConfig(t)
	c.Mechanism.Clipping = []clip.Group{
		{Name: "a", Parameters: []string{"fc1.*"}, Bound: clip.Constant(0.5)},
		{Name: "b", Parameters: []string{"fc2.*"}, Bound: clip.Quantile{Initial: 1, Target: 0.5, Rate: 0.1, Noise: 2}},
	}
	c.Mechanism.NoiseMultiplier, c.Mechanism.GroupNoiseMultipliers = 0, map[string]float64{"a": 4, "b": 2}
	c.Budget.Delta, c.Steps = 1e-4, 20
	plan := accountant.Plan{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: 0.2, Records: 60}, Steps: c.Steps, Adjacency: ledger.ZeroOut}
	for _, pair := range [][2]float64{{0.5, 2}, {1, 2}, {0.5, 2}} {
		plan.Groups = append(plan.Groups, ledger.Query{Group: fmt.Sprint(len(plan.Groups)), Mechanism: ledger.Gaussian, Sensitivity: pair[0], Noise: pair[1]})
	}
	want, err := accountant.Epsilon(plan.History(), 1e-4, "pld")
	if err != nil {
		t.Fatal(err)
	}
	r := newRun(t, c)
	trainRun(t, r, nil)
	r.Close()
	spent, err := r.Spent("pld")
	if err != nil || math.Abs(spent.Epsilon/want.Epsilon-1) > 1e-9 {
		t.Errorf("ε = %v (%v), want %v", spent.Epsilon, err, want.Epsilon)
	}
	plan.Groups, plan.Noise = nil, c.Mechanism.CombinedNoiseMultiplier(0)
	one, err := accountant.Epsilon(plan.History(), 1e-4, "pld")
	if err != nil || math.Abs(one.Epsilon/want.Epsilon-1) > 1e-9 {
		t.Errorf("the combined multiplier %v costs ε = %v (%v), want %v", plan.Noise, one.Epsilon, err, want.Epsilon)
	}
}

func TestGroupNoise_Refused(t *testing.T) {
	for want, change := range map[string]func(m *Mechanism){
		"no group of Mechanism.Clipping":  func(m *Mechanism) { m.GroupNoiseMultipliers["head"] = 1 },
		"both a noise multiplier and one": func(m *Mechanism) { m.GroupNoiseMultipliers["scheduled"] = 1 },
		"group own, lot 0: noise":         func(m *Mechanism) { m.GroupNoiseMultipliers["own"] = 0 },
		"group scheduled, lot 2: noise mu": func(m *Mechanism) {
			m.GroupNoiseMultiplierAt["scheduled"] = func(lot int) float64 { return 1.5 - float64(lot) }
		},
		"nil function":                     func(m *Mechanism) { m.GroupNoiseMultiplierAt["own"] = nil; delete(m.GroupNoiseMultipliers, "own") },
		"every group has noise of its own": func(m *Mechanism) { m.GroupNoiseMultipliers["shared"], m.GroupNoiseMultipliers["other"] = 1, 1 },
	} {
		c := ownNoise(t)
		change(&c.Mechanism)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		requireNoFiles(t, c)
	}
	c := ownNoise(t)
	c.Mechanism.GroupNoiseMultipliers = map[string]float64{"own": 1, "shared": 1, "other": 1}
	if _, err := c.CalibrateNoise(1); err == nil || !strings.Contains(err.Error(), "noise of its own") {
		t.Errorf("calibrated without a group to calibrate: %v", err)
	}
	c.Mechanism.NoiseMultiplier, c.Budget.StopAtEpsilon = 0, 1e-3
	if _, err := New(c); !errors.Is(err, ErrBudget) {
		t.Errorf("a budget below one lot: %v", err)
	}
}

// A run resumes with the same groups, and not with another noise of a group.
func TestGroupNoise_Resumes(t *testing.T) {
	c := ownNoise(t)
	c.Files.CheckpointFolder = filepath.Join(t.TempDir(), "checkpoints")
	r := newRun(t, c)
	ctx, stop := context.WithCancel(t.Context())
	err := r.Train(ctx, func(p *Progress) error {
		if p.Lot == 2 {
			stop()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	other := c
	other.Mechanism.GroupNoiseMultipliers = map[string]float64{"own": 6}
	if _, err := Resume(other); err == nil || !strings.Contains(err.Error(), "noise of group own is 6 (it was 5)") {
		t.Errorf("resumed with other noise: %v", err)
	}
	if r, err = Resume(c); err != nil {
		t.Fatal(err)
	}
	trainRun(t, r, nil)
	r.Close()
	h := readLedger(t, c.Files.Ledger)
	last := h.Lots[len(h.Lots)-1].Lot.Queries
	if h.LotCount() != c.Steps || math.Abs(last[1].Noise*float64(c.Steps)/(8-4)-1) > 1e-12 {
		t.Errorf("%d lots, the last with %+v", h.LotCount(), last)
	}
}
