package accountant

import (
	"errors"
	"math"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
)

// Over real moments λ the bound is least at λ = √(ln(1/δ)/a) for a = T·q²/((1-q)σ²),
// where it is a + 2√(a·ln(1/δ)): integer moments approach it from above.
func TestAsymptoticMoments_AgreesWithLimit(t *testing.T) {
	plan := func(rate, noise float64, steps int) Plan {
		return Plan{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: rate}, Noise: noise, Steps: steps}
	}
	for _, c := range []struct {
		rate, noise float64
		steps       int
		delta       float64
	}{{0.01, 4, 10000, 1e-5}, {0.004, 2, 20000, 1e-6}, {0.02, 8, 5000, 1e-5}} {
		a := float64(c.steps) * c.rate * c.rate / ((1 - c.rate) * c.noise * c.noise)
		least := a + 2*math.Sqrt(-a*math.Log(c.delta))
		got, err := AsymptoticMoments(plan(c.rate, c.noise, c.steps), c.delta)
		if err != nil || got.Epsilon < least*(1-1e-12) || got.Epsilon > 1.01*least || got.Note == "" || got.Order < 2 {
			t.Errorf("%+v: %+v (%v), want at least and nearly %v", c, got, err, least)
		}
	}
	laplace := plan(0.1, 1, 1)
	laplace.Groups = []ledger.Query{{Group: "all", Mechanism: ledger.Laplace, Sensitivity: 1, Noise: 1}}
	for _, p := range []Plan{plan(0, 1, 1), plan(1, 1, 1), plan(0.1, 0, 1), plan(0.1, 1, 0), plan(math.NaN(), 1, 1), laplace, {Sampling: ledger.Sampling{Policy: ledger.FullBatch}, Noise: 1, Steps: 1}} {
		if _, err := AsymptoticMoments(p, 0.1); !errors.Is(err, ErrArgument) {
			t.Errorf("%+v: %v, want a bad argument", p, err)
		}
	}
	for _, delta := range []float64{0, 1} {
		if _, err := AsymptoticMoments(plan(0.1, 1, 1), delta); !errors.Is(err, ErrArgument) {
			t.Errorf("delta %v: %v, want a bad argument", delta, err)
		}
	}
}
