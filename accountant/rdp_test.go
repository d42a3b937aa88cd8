package accountant

import (
	"math"
	"testing"

	"github.com/dptrain/dptrain/accountant/internal/gaussian"
	"github.com/dptrain/dptrain/accountant/internal/rdp"
	"github.com/dptrain/dptrain/accountant/ledger"
)

func poisson(rate, noise float64, steps int) ledger.History {
	return Plan{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: rate}, Noise: noise, Steps: steps}.History()
}

func near(t *testing.T, what string, got, want, relative float64) {
	t.Helper()
	if !(math.Abs(got-want) <= relative*math.Abs(want)) {
		t.Errorf("%s: got %.12g, want %.12g within %g", what, got, want, relative)
	}
}

// The published values are of accountants that search fewer orders. They are at most 1.5% larger.
func TestRDP_PublishedValues(t *testing.T) {
	for _, c := range []struct {
		rate, noise float64
		steps       int
		delta       float64
		want        float64
		order       float64 // of the published value; 0: not published
		tolerance   float64
	}{
		{.01, .7, 120, 1e-5, 3.2392676, 0, 3e-5},
		{.01, .35, 120, 1e-5, 22.6248601, 0, 1.3e-3},
		{1, .7, 2, 1e-5, 10.8602036, 0, 2e-8},
		{1, .35, 2, 1e-5, 26.2880374, 0, 2e-8},
		{150. / 60000, 1.3, 6000, 1e-5, .7242234, 19, 1e-7},
		{1e-3, 1, 30000, 1e-7, 1.4154988, 13, 1e-7},
		{1024. / 50000, 4, 10000, 1e-5, 2.274615, 0, 2e-7},
		{.04, 1.5, 2250, 1e-5, 7.32911117, 0, 5e-5},
		{1, 4.530877117, 1, 1e-6, 1, 0, 1e-6},
	} {
		got, err := Epsilon(poisson(c.rate, c.noise, c.steps), c.delta, "rdp")
		if err != nil {
			t.Fatal(err)
		}
		if !(got.Epsilon <= c.want*(1+c.tolerance) && got.Epsilon >= c.want*(1-.015)) {
			t.Errorf("%+v: ε = %v", c, got.Epsilon)
		}
		if c.order == 0 {
			continue
		}
		s := Compose(poisson(c.rate, c.noise, c.steps)).composed
		near(t, "epsilon at the published order", rdp.ToEpsilon(c.order, rdp.TotalDivergence(s.Events, c.order, rdp.Divergence), c.delta), c.want, c.tolerance)
		near(t, "order", got.Order, c.order, .01)
	}
}

// Closed forms for lots with other noise and for their sums.
func TestEpsilon_ClosedForms(t *testing.T) {
	const delta, scale, steps = 1e-5, 20., 100
	of := func(m ledger.Mechanism, accountant string) float64 {
		return epsilonOf(t, ledger.History{Lots: []ledger.RepeatedLot{lots(1, steps, ledger.Query{Group: "g", Mechanism: m, Sensitivity: 1, Noise: scale})}}, delta, accountant).Epsilon
	}
	for _, accountant := range []string{"rdp", "zcdp", "gdp", "moments"} {
		near(t, "discrete Gaussian, "+accountant, of(ledger.DiscreteGaussian, accountant), of(ledger.Gaussian, accountant), 1e-9)
	}
	near(t, "Laplace, zcdp", of(ledger.Laplace, "zcdp"), of(ledger.Gaussian, "zcdp"), 1e-9)
	near(t, "Laplace, naive", of(ledger.Laplace, "naive"), steps/scale, 1e-9)
	near(t, "naive", of(ledger.Gaussian, "naive"), steps*gaussian.Epsilon(1/scale, delta/steps), 1e-9)
	const rate = .05
	near(t, "naive, sampled", epsilonOf(t, poisson(rate, 1, steps), delta, "naive").Epsilon,
		steps*math.Log1p(rate*math.Expm1(gaussian.Epsilon(1, delta/(rate*steps)))), 1e-9)
	near(t, "Laplace, strong", of(ledger.Laplace, "strong"), math.Sqrt(-2*math.Log(delta)*steps)/scale+steps/scale*math.Expm1(1/scale), 1e-6)
}

func TestCalibrateNoise_RDP(t *testing.T) {
	plan := Plan{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: .04}, Steps: 2000}
	noise, err := CalibrateNoise(plan, 8, 1e-5, "rdp")
	if err != nil {
		t.Fatal(err)
	}
	near(t, "noise", noise, 1.3562, 1e-4)
}

func lots(rate float64, steps int, queries ...ledger.Query) ledger.RepeatedLot {
	return ledger.RepeatedLot{Lot: ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: rate}, Queries: queries}, Count: steps}
}
