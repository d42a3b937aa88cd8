package clipping

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/clip"
)

func TestQuantile_ConvergesToQuantile(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	const expected = 1000
	for _, target := range []float64{0.2, 0.5, 0.9} {
		q := clip.Quantile{Initial: 0.1, Target: target, Rate: 0.2, Noise: expected / 20}
		c, err := NewClipper([]string{"w"}, clip.Flat(q, nil), Float32Accuracy)
		if err != nil {
			t.Fatal(err)
		}
		sq, factors := matrix(1, 1200), matrix(1, 1200)
		late := 0.0
		const lots, kept = 400, 200
		for lot := range lots {
			if err := c.BeginLot(lot); err != nil {
				t.Fatal(err)
			}
			n := 900 + random.IntN(201) // the lot size varies around its expectation
			for r := range n {
				norm := 10 * random.ExpFloat64()
				sq[0][r] = float32(norm * norm)
			}
			if err := c.ComputeFactors(factors, sq, n); err != nil {
				t.Fatal(err)
			}
			if lot >= lots-kept {
				late += math.Log(c.Sensitivities()[0]) / kept
			}
			if err := c.UpdateBound(0, c.QuantileCount(0)+q.Noise*random.NormFloat64(), expected); err != nil {
				t.Fatal(err)
			}
		}
		// The quantile of an exponential law of mean 10. The mean of 200 correlated
		// steps stays within 5% of it for these seeds.
		want := math.Log(-10 * math.Log(1-target))
		if !(math.Abs(late-want) <= 0.05) {
			t.Errorf("target %v: the bound settles at %v, want %v", target, math.Exp(late), math.Exp(want))
		}
	}
}

func TestQuantile_UpdateFormula(t *testing.T) {
	c, err := NewClipper([]string{"w"}, clip.Flat(clip.Quantile{Initial: 2, Target: 0.5, Rate: 0.2, Noise: 3}, nil), Accuracy{})
	if err != nil {
		t.Fatal(err)
	}
	if noise := c.Groups()[0].CountNoise; noise != 3 {
		t.Fatalf("the count is to be released with noise %v, want 3", noise)
	}
	if err := c.BeginLot(0); err != nil {
		t.Fatal(err)
	}
	// Of the norms 1, 2 and 3 two are at most 2. A record without a finite norm counts as above.
	nan := float32(math.NaN())
	if err := c.ComputeFactors(matrix(1, 5), [][]float32{{1, 4, 9, nan, 0}}, 4); err != nil {
		t.Fatal(err)
	}
	if got := c.QuantileCount(0); got != 0 {
		t.Fatalf("Σ(b−½) is %v, want 2−4/2 = 0", got)
	}
	if err := c.UpdateBound(0, 3.5, 10); err != nil { // b̃ = 0.85
		t.Fatal(err)
	}
	if s := c.Sensitivities()[0]; s != 2 {
		t.Fatalf("the bound moved to %v within its lot", s)
	}
	if err := c.BeginLot(1); err != nil {
		t.Fatal(err)
	}
	if got, want := c.Sensitivities()[0], 2*math.Exp(-0.2*0.35); !(math.Abs(got-want) <= 1e-15) {
		t.Errorf("bound %v, want %v", got, want)
	}
	if c.QuantileCount(0) != 0 {
		t.Error("a new lot starts with an old count")
	}
}

// No record moves the count by more than CountSensitivity.
func TestQuantileCount_Sensitivity(t *testing.T) {
	c := bind(t, clip.Flat(clip.Quantile{Initial: 1, Target: 0.5, Rate: 0.2, Noise: 5}, nil), exact)
	factors := matrix(1, 1)
	one := matrix(len(names), 1)
	for i, record := range adversarial(1) {
		if err := c.BeginLot(0); err != nil {
			t.Fatal(err)
		}
		for v, x := range squares(record) {
			one[v][0] = x
		}
		if err := c.ComputeFactors(factors, one, 1); err != nil {
			t.Fatal(err)
		}
		if math.Abs(c.QuantileCount(0)) != clip.CountSensitivity {
			t.Errorf("record %d moves the count by %v", i, c.QuantileCount(0))
		}
	}
}

func TestNoiseMultiplier_ComposesToTotal(t *testing.T) {
	q := clip.Quantile{Initial: 1, Target: 0.5, Rate: 0.2, Noise: 5}
	groups := []clip.Group{
		{Name: "a", Parameters: []string{"conv*"}, Bound: q},
		{Name: "b", Parameters: []string{"fc*"}, Bound: q},
	}
	c := bind(t, groups, Float32Accuracy)
	z, err := c.NoiseMultiplier(1.1)
	if err != nil {
		t.Fatal(err)
	}
	// Two counts of multiplier 10 and the gradients of multiplier z.
	if total := 1 / math.Sqrt(1/(z*z)+2.0/100); !(math.Abs(total-1.1) <= 1e-14) || z <= 1.1 {
		t.Errorf("multiplier %v composes with the counts to %v, want 1.1", z, total)
	}
	if z, err = bind(t, clip.Flat(clip.Constant(1), nil), Float32Accuracy).NoiseMultiplier(1.1); z != 1.1 || err != nil {
		t.Errorf("without counts: %v, %v", z, err)
	}
	for _, total := range []float64{8, math.Inf(1), 0, -1, math.NaN()} {
		if z, err := c.NoiseMultiplier(total); err == nil {
			t.Errorf("total %v: %v and no error", total, z)
		}
	}
}

func TestRestore_SetsState(t *testing.T) {
	groups := []clip.Group{
		{Name: "a", Parameters: []string{"conv*"}, Bound: clip.Quantile{Initial: 1, Target: 0.5, Rate: 0.2, Noise: 5}},
		{Name: "b", Parameters: []string{"fc*"}, Bound: clip.Constant(3)},
	}
	old := bind(t, groups, Float32Accuracy)
	if err := old.UpdateBound(0, -7, 20); err != nil {
		t.Fatal(err)
	}
	state := old.State(nil)
	fresh := bind(t, groups, Float32Accuracy)
	if err := fresh.Restore(state); err != nil {
		t.Fatal(err)
	}
	if err := fresh.BeginLot(1); err != nil {
		t.Fatal(err)
	}
	if s := fresh.Sensitivities(); !(math.Abs(s[0]-math.Exp(0.2*0.35)) <= 1e-15) || s[1] != 3 {
		t.Errorf("restored sensitivities %v", s)
	}
	for _, bad := range [][]float64{nil, {1}, {0, 0}, {math.NaN(), 0}, {math.Inf(1), 0}, {-1, 0}, {1, 3}} {
		if fresh.Restore(bad) == nil {
			t.Errorf("state %v was accepted", bad)
		}
	}
}

func TestUpdateBound_RejectsInvalidInput(t *testing.T) {
	groups := []clip.Group{
		{Name: "a", Parameters: []string{"conv*"}, Bound: clip.Quantile{Initial: 1, Target: 0.5, Rate: 0.2, Noise: 5}},
		{Name: "b", Parameters: []string{"fc*"}, Bound: clip.Constant(3)},
	}
	c := bind(t, groups, Float32Accuracy)
	for _, u := range []struct {
		part        int
		count, size float64
	}{{1, 0, 10}, {-1, 0, 10}, {2, 0, 10}, {0, math.NaN(), 10}, {0, math.Inf(1), 10}, {0, math.Inf(-1), 10}, {0, 1e9, 10}, {0, 1, 0}, {0, 1, -10}, {0, 1, math.Inf(1)}, {0, 1, math.NaN()}} {
		if err := c.UpdateBound(u.part, u.count, u.size); err == nil {
			t.Errorf("update %+v was accepted", u)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q is not one line", err)
		}
	}
	if got := c.State(nil); got[0] != 1 {
		t.Errorf("a refused update moved the bound to %v", got[0])
	}
}
