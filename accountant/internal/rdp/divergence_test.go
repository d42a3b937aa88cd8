package rdp

import (
	"math"
	"testing"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
)

func almostEqual(t *testing.T, what string, got, want, relative float64) {
	t.Helper()
	if !(math.Abs(got-want) <= relative*math.Abs(want)) {
		t.Errorf("%s: got %.12g, want %.12g within %g", what, got, want, relative)
	}
}

// The interval that the integrals omit for very little noise is negligible.
func TestSampledGaussianDivergence_LittleNoise(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{1e-8, 0.01, 0.9} {
		for _, shift := range []float64{60, 95, 240} {
			for _, order := range []float64{1.001, 1.5, 2, 4.3, 8} {
				var logs []float64 // of the integrand, added up from below
				step := 0.5 / shift
				for x := -12.; x <= max(order, 2)*shift+12; x += step {
					if y := shift*x - shift*shift/2; y > 0 {
						logs = append(logs, order*(math.Log(rate)+y+math.Log1p((1-rate)/rate*math.Exp(-y)))-x*x/2)
					}
				}
				total := 0. // what lies below, of the order of rate², adds less than 1
				for _, l := range logs {
					total = logAddExp(total, l+math.Log(step)-math.Log(2*math.Pi)/2)
				}
				want := total / (order - 1)
				if got := sampledGaussianDivergence(rate, shift, order); math.Abs(got-want) > 1e-9*want+2/(order-1) {
					t.Errorf("rate %v, shift %v, order %v: %v, and in full %v", rate, shift, order, got, want)
				}
			}
		}
	}
}

// The divergence agrees with the midpoint rule. It is between that of adding or removing the
// record and the proven bound for any two records.
func TestPoissonReplaceOneDivergence_AgainstMidpointRule(t *testing.T) {
	for _, c := range []struct{ rate, shift, order float64 }{
		{.1, 1, 2}, {.01, 2, 8}, {.5, .5, 1.5}, {.001, .3, 30}, {.3, 4, 1.1}, {.05, 1, 64}, {1e-5, .8, 5}, {.02, 6, 40}, {.1, 6, 2}, {1e-4, .1, 290}, {1e-4, .2, 290},
	} {
		got := poissonReplaceOneDivergence(c.rate, c.shift, c.order)
		const step = 1.0 / 512
		excess, sampled := 0.0, 0.0
		for x := -14 - c.shift; x < c.order*c.shift+14; x += step {
			density := math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) * step
			one := 1 - c.rate + c.rate*math.Exp(c.shift*x-c.shift*c.shift/2)
			other := 1 - c.rate + c.rate*math.Exp(-c.shift*x-c.shift*c.shift/2)
			sampled += density * (math.Pow(one, c.order) - 1 - c.order*(one-1))
			excess += other * density * (math.Pow(one/other, c.order) - 1 - c.order*(one/other-1))
		}
		if want := math.Log1p(excess) / (c.order - 1); !math.IsInf(want, 0) && !math.IsNaN(want) {
			almostEqual(t, "the divergence", got, want, 1e-6)
		}
		if least := sampledGaussianDivergence(c.rate, c.shift, c.order); !(got >= least*(1-1e-9)) {
			t.Errorf("%+v: %v, less than the %v of adding or removing", c, got, least)
		}
		if want := math.Log1p(sampled) / (c.order - 1); !math.IsInf(want, 0) && !math.IsNaN(want) {
			almostEqual(t, "that of adding or removing", sampledGaussianDivergence(c.rate, c.shift, c.order), want, 1e-6)
		}
		most := symmetricDivergence(dpevent.MixturePair{Rate: c.rate, Far: 2 * c.shift}, c.order)
		if !(got <= most*(1+1e-9)) {
			t.Errorf("%+v: %v, more than the %v of any two records", c, got, most)
		}
		excess = 0
		for x := c.shift + step/2; x < 2*max(c.order, 2)*c.shift+14; x += step {
			r := 1 - c.rate + c.rate*math.Exp(2*c.shift*x-2*c.shift*c.shift)
			to := func(power float64) float64 { return math.Exp(power*math.Log(r) - x*x/2) }
			excess += (to(c.order) + to(1-c.order) - to(0) - to(1)) / math.Sqrt(2*math.Pi) * step
		}
		if want := math.Log1p(excess) / (c.order - 1); !math.IsInf(want, 0) && !math.IsNaN(want) {
			almostEqual(t, "that of any two records", most, want, 1e-6)
		}
	}
}

func TestDivergence_PublishedValues(t *testing.T) {
	sampled := func(rate, noise float64) dpevent.Event { return dpevent.Event{Rate: rate, GaussianShift: 1 / noise} }
	for _, c := range []struct {
		rate, noise, steps, order, want, tolerance float64
	}{
		{.01, 1, 1, 2, 1.7181342207e-4, 1e-10},
		{.01, 1, 1, 10, .0382704189, 1e-8},
		{.01, 2.5, 50, 5, 2.18075656e-3, 1e-8},
		{.01, 2.5, 50, 50, 2.38460375e-2, 1e-8},
		{.01, 2.5, 50, 100, 167.416308, 1e-8},
	} {
		almostEqual(t, "rdp", c.steps*Divergence(sampled(c.rate, c.noise), c.order), c.want, c.tolerance)
	}
}

// A mechanism that is known by a pure ε has the divergence of randomised response, by its two answers;
// a sampled one that of the mixture, at integer orders.
func TestDivergence_PureLoss(t *testing.T) {
	for _, loss := range []float64{1e-6, 0.1, 1, 5, 30} {
		for _, order := range []float64{1.01, 2, 3.5, 8} {
			likely, unlikely := 1/(1+math.Exp(-loss)), 1/(1+math.Exp(loss))
			want := math.Log(math.Pow(likely, order)*math.Pow(unlikely, 1-order)+math.Pow(unlikely, order)*math.Pow(likely, 1-order)) / (order - 1)
			e := dpevent.Event{Rate: 1, PureLosses: []float64{loss}}
			if got := Divergence(e, order); math.Abs(got-want) > 1e-10*want+1e-13 {
				t.Errorf("loss %v, order %v: %v, want %v", loss, order, got, want)
			}
			const rate = 0.1
			e.Rate = rate
			with := rate*likely + (1-rate)*unlikely
			rest := 1 - with
			want = math.Log(math.Pow(with, order)*math.Pow(unlikely, 1-order)+math.Pow(rest, order)*math.Pow(likely, 1-order)) / (order - 1)
			if got := Divergence(e, order); order == math.Floor(order) && math.Abs(got-want) > 1e-8*want+1e-11 || !(got >= want*(1-1e-8)-1e-11) {
				t.Errorf("sampled, loss %v, order %v: %v, want %v", loss, order, got, want)
			}
		}
	}
	if got := Divergence(dpevent.Event{Rate: 1, PureLosses: []float64{900}}, 2); math.Abs(got-900) > 1e-9 {
		t.Errorf("loss 900: %v", got)
	}
}

// For sampled Laplace noise the divergence is exact at integer orders and a bound between them.
// The reference is the midpoint rule.
func TestDivergence_SampledLaplace(t *testing.T) {
	const rate, shift, step = .2, 1.3, 1. / 1024
	e := dpevent.Event{Rate: rate, LaplaceShifts: []float64{shift}}
	for _, order := range []float64{2, 2.3, 3, 5, 8.7, 20} {
		sum := 0.0
		for x := -40 + step/2; x < 40; x += step {
			sum += math.Exp(-math.Abs(x)) / 2 * step * math.Pow(1-rate+rate*math.Exp(math.Abs(x)-math.Abs(x-shift)), order)
		}
		got, want := Divergence(e, order), math.Log(sum)/(order-1)
		if !(got >= want*(1-1e-4) && got <= want*1.1) || order == math.Floor(order) && !(got <= want*(1+1e-4)) {
			t.Errorf("order %v: %v, want %v", order, got, want)
		}
		sum = 1 // of a record replaced, on both sides of ε = 0
		for x := shift/2 + step/2; x < 40; x += step {
			r := 1 - rate + rate*math.Exp(math.Abs(x)-math.Abs(x-shift))
			sum += math.Exp(-math.Abs(x)) / 2 * step * (math.Pow(r, order) + math.Pow(r, 1-order) - 1 - r)
		}
		replaced := e
		replaced.ReplaceOne = true
		if got, want := Divergence(replaced, order), math.Log(sum)/(order-1); !(got >= want*(1-1e-4) && got <= 2*want) {
			t.Errorf("order %v, replaced: %v, want at least %v and not far above", order, got, want)
		}
	}
}

// For a tiny sampling rate all divergences are order/2·E (r - 1)² to within the rate. For a
// sampled Gaussian E (r - 1)² is rate²·(e^shift² - 1), for Poisson replace-one it is
// 4·rate²·sinh(shift²), and for any two records the part beyond the middle counts twice.
func TestDivergence_TinyRate(t *testing.T) {
	for _, rate := range []float64{1e-12, 1e-8} {
		for _, shift := range []float64{.02, .3, 1} {
			for _, order := range []float64{1.1, 2, 7.5, 40} {
				if order*shift > 15 { // where higher moments count
					continue
				}
				square := order / 2 * rate * rate
				almostEqual(t, "sampled", sampledGaussianDivergence(rate, shift, order), square*math.Expm1(shift*shift), 1e-5)
				almostEqual(t, "opposed", poissonReplaceOneDivergence(rate, shift, order), square*4*math.Sinh(shift*shift), 1e-5)
				above := func(x float64) float64 { return math.Erfc(x/math.Sqrt2) / 2 }
				half := math.Exp(shift*shift)*above(-1.5*shift) - 2*above(-shift/2) + above(shift/2)
				almostEqual(t, "replaced", symmetricDivergence(dpevent.MixturePair{Rate: rate, Far: shift}, order), 2*square*half, 1e-5)
			}
		}
	}
}

// For a large shift the main contribution is far out on both sides.
func TestDivergence_TinyRateLargeShift(t *testing.T) {
	const rate, shift = 1e-28, 5
	almostEqual(t, "sampled", sampledGaussianDivergence(rate, shift, 2), rate*rate*math.Expm1(shift*shift), 1e-5)
	almostEqual(t, "opposed", poissonReplaceOneDivergence(rate, shift, 2), 4*rate*rate*math.Sinh(shift*shift), 1e-5)
	// At a high order there is a second region further out with a negligible contribution.
	almostEqual(t, "sampled, a high order", sampledGaussianDivergence(1e-12, .2, 290), 145e-24*math.Expm1(.04), 1e-5)
}

func TestWithoutReplacement_AgreesWithPublished(t *testing.T) {
	w := &withoutReplacement{.01, 1 / 2.5, map[int]float64{}}
	for order, want := range map[float64]float64{1.5: 3.4701e-3, 2.5: 4.6386e-3, 5: 8.7634e-3, 50: 9.8474e-2} {
		almostEqual(t, "Wang et al.", 50*w.divergence(order), want, 1e-4)
	}
}

// The divergence of truncated lots agrees with the midpoint rule on the densities of the two
// pairs, for each adjacency.
func TestDivergence_TruncatedLots(t *testing.T) {
	const rate, shift, step = .2, .7, 1. / 512
	for _, order := range []float64{1.3, 2, 6.5, 15} {
		for _, c := range []dpevent.Truncation{{Far: 2, Near: 1, Symmetric: true}, {Far: 2}, {Far: 1, Symmetric: true}} {
			c.Probability, c.Rate = .3, .15
			e := dpevent.Event{Rate: rate, GaussianShift: shift, Truncation: c, ReplaceOne: c.Far == 1}
			sum := .7
			if e.ReplaceOne {
				sum *= math.Exp((order - 1) * poissonReplaceOneDivergence(rate, shift/2, order))
			} else {
				sum *= math.Exp((order - 1) * sampledGaussianDivergence(rate, shift, order))
			}
			far, near := c.Far*shift, c.Near*shift
			moment, mass := 0.0, 0.0
			for x := -14 + step/2; x < order*far+14; x += step {
				p := .85 + .15*math.Exp(far*x-far*far/2)
				q := .85 + .15*math.Exp(near*x-near*near/2)
				one := math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) * step
				switch {
				case !c.Symmetric:
					moment += one * q * math.Pow(p/q, order)
				case x > (far+near)/2:
					moment += one * q * (math.Pow(p/q, order) + math.Pow(p/q, 1-order))
					mass += one * (p + q)
				}
			}
			if c.Symmetric {
				moment += 1 - mass
			}
			almostEqual(t, "the divergence", Divergence(e, order), math.Log(sum+.3*moment)/(order-1), 1e-5)
		}
	}
}
