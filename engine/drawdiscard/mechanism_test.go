package drawdiscard

import (
	"math"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/noise"
)

var privateSettings = []Settings{
	{Distribution: Laplace, Level: ModelLevel, Epsilon: 1, Clip: 1, LearningRate: 0.5},
	{Distribution: Laplace, Level: FeatureLevel, Epsilon: 0.3, Clip: 0.25, LearningRate: 1},
	{Distribution: Laplace, Level: FeatureLevel, Epsilon: 20, Clip: 3, LearningRate: 0.01},
	{Distribution: Gaussian, Level: ModelLevel, Epsilon: 1, Delta: 1e-6, Clip: 1, LearningRate: 0.5},
	{Distribution: Gaussian, Level: FeatureLevel, Epsilon: 0.3, Delta: 1e-9, Clip: 0.25, LearningRate: 1},
	{Distribution: Gaussian, Level: ModelLevel, Epsilon: 8, Delta: 1e-3, Clip: 2, LearningRate: 0.1},
}

// What the ledger states of a contribution costs at most ε, and at least 99.8% of it.
func TestMechanism_QueryCostsEpsilon(t *testing.T) {
	for _, s := range privateSettings {
		m := newMechanism(t, s, 50)
		h := ledger.History{
			Header: ledger.Header{Unit: "user", Records: 1, Adjacency: ledger.ReplaceOne},
			Lots: []ledger.RepeatedLot{{Lot: ledger.Lot{
				Sampling: ledger.Sampling{Policy: ledger.FullBatch},
				Queries:  []ledger.Query{m.Query("model", m.Settings().Level)},
			}, Count: 1}},
		}
		method, delta := "pld", s.Delta
		if s.Distribution == Laplace { // the sum of pure ε, at any δ
			method, delta = "naive", 1e-9
		}
		g, err := accountant.Epsilon(h, delta, method)
		if err != nil {
			t.Fatal(err)
		}
		if g.Epsilon > s.Epsilon*(1+1e-9) || g.Epsilon < 0.998*s.Epsilon {
			t.Errorf("%+v: the ledger states ε = %v", s, g.Epsilon)
		}
	}
}

// The Gaussian noise is never more than that of Kenthapadi et al. 2013, theorem 1:
// σ ≥ Δ₂·√(2(ln(1/2δ)+ε))/ε.
func TestMechanism_GaussianIsBelowKenthapadi(t *testing.T) {
	for _, epsilon := range []float64{0.1, 1, 10} {
		for _, delta := range []float64{1e-9, 1e-5, 0.1} {
			m := newMechanism(t, Settings{Distribution: Gaussian, Level: ModelLevel, Epsilon: epsilon, Delta: delta, Clip: 1, LearningRate: 1}, 100)
			bound := 2 * math.Sqrt(100) * math.Sqrt(2*(math.Log(1/(2*delta))+epsilon)) / epsilon
			if got := m.NoiseScale(); !(got <= bound) || got < 0.1*bound {
				t.Errorf("ε = %v, δ = %v: σ = %v, and the published bound is %v", epsilon, delta, got, bound)
			}
		}
	}
}

// The returned model differs from the drawn one by the learning rate times the clipped gradient
// plus noise of the stated variance. 20,000 values: the mean is within 5.74 standard errors and the
// variance within 12% (the fourth moment of Laplace noise is 6; 5.74·√(5/20000) = 9%).
func TestMechanism_ReleaseIsUnbiased(t *testing.T) {
	const n = 20_000
	for _, s := range privateSettings {
		m := newMechanism(t, s, n)
		drawn, gradient, out := make([]float32, n), make([]float32, n), make([]float32, n)
		for i := range gradient {
			gradient[i] = float32(2 * s.Clip) // beyond the box
		}
		if err := m.Release(out, drawn, gradient, noise.NewSeeded(5), noise.Stream{Purpose: noise.Release}); err != nil {
			t.Fatal(err)
		}
		mean, square := 0.0, 0.0
		for _, v := range out {
			mean += float64(v) / n
		}
		for _, v := range out {
			square += (float64(v) - mean) * (float64(v) - mean) / n
		}
		want := -s.LearningRate * s.Clip
		if deviation := math.Sqrt(m.NoiseVariance() / n); math.Abs(mean-want) > 5.74*deviation {
			t.Errorf("%+v: mean %v, want %v ± %v", s, mean, want, deviation)
		}
		if math.Abs(square/m.NoiseVariance()-1) > 0.12 {
			t.Errorf("%+v: variance %v, want %v", s, square, m.NoiseVariance())
		}
	}
}

// For every gradient, finite or not, the lattice point stays in [-K, K]: this is the sensitivity.
func TestMechanism_LatticePointsAreBounded(t *testing.T) {
	m := newMechanism(t, Settings{Distribution: Laplace, Level: FeatureLevel, Epsilon: 1, Clip: 0.3, LearningRate: 1}, 1)
	for _, v := range []float32{0, 0.3, -0.3, 0.30000004, 7, -7, math.MaxFloat32, -math.MaxFloat32, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 1e-40} {
		if got := m.latticePoint(v); got < -latticeSteps || got > latticeSteps {
			t.Errorf("gradient %v: lattice point %d", v, got)
		}
	}
	if m.latticePoint(float32(math.NaN())) != 0 || m.latticePoint(float32(math.Inf(1))) != latticeSteps {
		t.Error("NaN or Inf has another lattice point")
	}
}

// Every returned weight is the drawn weight minus the released integer in public units, so the
// bits of the drawn weight and of the gradient do not reach the result by another way.
func TestMechanism_ReleaseIsOnTheLattice(t *testing.T) {
	for _, s := range privateSettings {
		s.LearningRate, s.Clip = 0.5, 1 // a power of two, so float32 keeps the lattice for small integers
		m := newMechanism(t, s, 1000)
		gradient, out := make([]float32, 1000), make([]float32, 1000)
		for i := range gradient {
			gradient[i] = float32(i)/1000 - 0.5
		}
		if err := m.Release(out, make([]float32, 1000), gradient, noise.NewSeeded(8), noise.Stream{Purpose: noise.Release}); err != nil {
			t.Fatal(err)
		}
		unit := s.LearningRate * s.Clip / latticeSteps
		if s.Distribution == Gaussian {
			unit = math.Ldexp(unit, noise.RoundedGaussian{Sigma: m.scale}.Grid())
		}
		for i, v := range out {
			if r := float64(v) / unit; math.Abs(r) < 1<<24 && r != math.Trunc(r) {
				t.Fatalf("%+v: weight %d is %v lattice steps", s, i, r)
			}
		}
	}
}

func TestNewMechanism_RejectInvalid(t *testing.T) {
	good := privateSettings[0]
	for name, change := range map[string]func(*Settings){
		"ε 0":             func(s *Settings) { s.Epsilon = 0 },
		"ε NaN":           func(s *Settings) { s.Epsilon = math.NaN() },
		"ε infinite":      func(s *Settings) { s.Epsilon = math.Inf(1) },
		"ε tiny":          func(s *Settings) { s.Epsilon = 1e-30 },
		"clip 0":          func(s *Settings) { s.Clip = 0 },
		"negative rate":   func(s *Settings) { s.LearningRate = -1 },
		"δ with laplace":  func(s *Settings) { s.Delta = 1e-6 },
		"gaussian, no δ":  func(s *Settings) { s.Distribution = Gaussian },
		"gaussian, δ = 1": func(s *Settings) { s.Distribution, s.Delta = Gaussian, 1 },
		"level":           func(s *Settings) { s.Level = "row" },
		"distribution":    func(s *Settings) { s.Distribution = "cauchy" },
	} {
		s := good
		change(&s)
		if _, err := NewMechanism(s, 10); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := NewMechanism(good, 0); err == nil {
		t.Error("no weights: no error")
	}
}

// An audit of one weight at the extremes of the box: no threshold distinguishes a gradient of c
// from one of -c by more than e^ε (and δ). 100,000 releases of each; a frequency is compared with
// its bound plus 6 standard errors (false alarm below 1e-6 over all thresholds; the seed is fixed).
// The audit has power: for Laplace noise it finds 90% of ε.
func TestMechanism_AuditOfOneWeight(t *testing.T) {
	const n = 100_000
	for _, s := range []Settings{
		{Distribution: Laplace, Level: FeatureLevel, Epsilon: 1, Clip: 1, LearningRate: 1},
		{Distribution: Gaussian, Level: FeatureLevel, Epsilon: 1, Delta: 1e-3, Clip: 1, LearningRate: 1},
	} {
		m := newMechanism(t, s, n)
		release := func(gradient float32, lot uint64) []float32 {
			out := make([]float32, n)
			for i := range out {
				out[i] = gradient
			}
			if err := m.Release(out, make([]float32, n), out, noise.NewSeeded(77), noise.Stream{Purpose: noise.Release, Lot: lot}); err != nil {
				t.Fatal(err)
			}
			return out
		}
		low, high := release(1, 0), release(-1, 1) // the step goes against the gradient
		best := 0.0
		for threshold := -8.0; threshold <= 8; threshold += 0.25 {
			above := func(w []float32) float64 {
				count := 0
				for _, v := range w {
					if float64(v) > threshold {
						count++
					}
				}
				return float64(count) / n
			}
			p, q := above(high), above(low)
			bound := math.Exp(s.Epsilon)*q + s.Delta
			if slack := 6 * math.Sqrt((p+math.Exp(2*s.Epsilon)*q)/n); p > bound+slack+6.0/n {
				t.Errorf("%s: above %v with probability %v and %v: more than e^ε allows", s.Distribution, threshold, p, q)
			}
			if q > 0.01 {
				best = math.Max(best, math.Log(p/q))
			}
		}
		if s.Distribution == Laplace && best < 0.9*s.Epsilon {
			t.Errorf("the audit finds ε = %v of %v", best, s.Epsilon)
		}
	}
}
