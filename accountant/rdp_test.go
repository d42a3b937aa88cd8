package accountant

import (
	"math"
	"testing"

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

func TestRDPPublished(t *testing.T) {
	for _, c := range []struct {
		rate, noise float64
		steps       int
		delta       float64
		want, order float64
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
		near(t, "epsilon", got.Epsilon, c.want, c.tolerance)
		if c.order != 0 && got.Order != c.order {
			t.Errorf("order: got %v, want %v", got.Order, c.order)
		}
	}
}

func TestRDPOfOneStep(t *testing.T) {
	sampled := func(rate, noise float64) event { return event{rate: rate, gaussian: 1 / noise} }
	for _, c := range []struct {
		rate, noise, steps, order, want, tolerance float64
	}{
		{.01, 1, 1, 2, 1.7181342207e-4, 1e-10},
		{.01, 1, 1, 10, .0382704189, 1e-8},
		{.01, 2.5, 50, 5, 2.18075656e-3, 1e-8},
		{.01, 2.5, 50, 50, 2.38460375e-2, 1e-8},
		{.01, 2.5, 50, 100, 167.416308, 1e-8},
	} {
		near(t, "rdp", c.steps*rdpOf(sampled(c.rate, c.noise), c.order), c.want, c.tolerance)
	}
}

// Sampled Laplace noise, against the midpoint rule: at whole orders what rdp says is exact,
// and between them a bound.
func TestRDPOfSampledLaplace(t *testing.T) {
	const rate, shift, step = .2, 1.3, 1. / 1024
	e := event{rate: rate, laplace: []float64{shift}}
	for _, order := range []float64{2, 2.3, 3, 5, 8.7, 20} {
		sum := 0.0
		for x := -40 + step/2; x < 40; x += step {
			sum += math.Exp(-math.Abs(x)) / 2 * step * math.Pow(1-rate+rate*math.Exp(math.Abs(x)-math.Abs(x-shift)), order)
		}
		got, want := rdpOf(e, order), math.Log(sum)/(order-1)
		if !(got >= want*(1-1e-4) && got <= want*1.1) || order == math.Floor(order) && !(got <= want*(1+1e-4)) {
			t.Errorf("order %v: %v, want %v", order, got, want)
		}
		sum = 1 // of a record replaced, on both sides of ε = 0
		for x := shift/2 + step/2; x < 40; x += step {
			r := 1 - rate + rate*math.Exp(math.Abs(x)-math.Abs(x-shift))
			sum += math.Exp(-math.Abs(x)) / 2 * step * (math.Pow(r, order) + math.Pow(r, 1-order) - 1 - r)
		}
		replaced := e
		replaced.replace = true
		if got, want := rdpOf(replaced, order), math.Log(sum)/(order-1); !(got >= want*(1-1e-4) && got <= 2*want) {
			t.Errorf("order %v, replaced: %v, want at least %v and not far above", order, got, want)
		}
	}
}

// Of a record that is hardly ever drawn, all divergences are order/2·E (r - 1)² to within the
// rate: of Gaussians E (r - 1)² is rate²·(e^shift² - 1), of opposed ones
// 4·rate²·sinh(shift²), and of any two records that beyond the middle counts twice.
func TestRareRecords(t *testing.T) {
	for _, rate := range []float64{1e-12, 1e-8} {
		for _, shift := range []float64{.02, .3, 1} {
			for _, order := range []float64{1.1, 2, 7.5, 40} {
				if order*shift > 15 { // where higher moments count
					continue
				}
				square := order / 2 * rate * rate
				near(t, "sampled", rdpSampledGaussian(rate, shift, order), square*math.Expm1(shift*shift), 1e-5)
				near(t, "opposed", rdpOpposed(rate, shift, order), square*4*math.Sinh(shift*shift), 1e-5)
				above := func(x float64) float64 { return math.Erfc(x/math.Sqrt2) / 2 }
				half := math.Exp(shift*shift)*above(-1.5*shift) - 2*above(-shift/2) + above(shift/2)
				near(t, "replaced", rdpReplacedGaussian(rate, shift, order), 2*square*half, 1e-5)
			}
		}
	}
}

// The middle of what tells two records apart in that case lies far out on both sides.
func TestRareRecordsFarOut(t *testing.T) {
	const rate, shift = 1e-28, 5
	near(t, "sampled", rdpSampledGaussian(rate, shift, 2), rate*rate*math.Expm1(shift*shift), 1e-5)
	near(t, "opposed", rdpOpposed(rate, shift, 2), 4*rate*rate*math.Sinh(shift*shift), 1e-5)
	// Of a high order there is a second place, further out, but nothing in it.
	near(t, "sampled, a high order", rdpSampledGaussian(1e-12, .2, 290), 145e-24*math.Expm1(.04), 1e-5)
}

// What closed forms say of lots of other noise, and of their sums.
func TestClosedForms(t *testing.T) {
	const delta, scale, steps = 1e-5, 20., 100
	of := func(m ledger.Mechanism, accountant string) float64 {
		return epsilonOf(t, ledger.History{Lots: []ledger.RepeatedLot{lots(1, steps, ledger.Query{Group: "g", Mechanism: m, Sensitivity: 1, Noise: scale})}}, delta, accountant).Epsilon
	}
	for _, accountant := range []string{"rdp", "zcdp", "gdp", "moments"} {
		near(t, "discrete Gaussian, "+accountant, of(ledger.DiscreteGaussian, accountant), of(ledger.Gaussian, accountant), 1e-9)
	}
	near(t, "Laplace, zcdp", of(ledger.Laplace, "zcdp"), of(ledger.Gaussian, "zcdp"), 1e-9)
	near(t, "Laplace, naive", of(ledger.Laplace, "naive"), steps/scale, 1e-9)
	near(t, "naive", of(ledger.Gaussian, "naive"), steps*gaussianEpsilon(1/scale, delta/steps), 1e-9)
	const rate = .05
	near(t, "naive, sampled", epsilonOf(t, poisson(rate, 1, steps), delta, "naive").Epsilon,
		steps*math.Log1p(rate*math.Expm1(gaussianEpsilon(1, delta/(rate*steps)))), 1e-9)
	near(t, "Laplace, strong", of(ledger.Laplace, "strong"), math.Sqrt(-2*math.Log(delta)*steps)/scale+steps/scale*math.Expm1(1/scale), 1e-6)
}

func TestCalibrateRDPNoise(t *testing.T) {
	plan := Plan{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: .04}, Steps: 2000}
	noise, err := CalibrateNoise(plan, 8, 1e-5, "rdp")
	if err != nil {
		t.Fatal(err)
	}
	near(t, "noise", noise, 1.3562, 1e-4)
}
