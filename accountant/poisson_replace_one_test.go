package accountant

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
)

// replacedDelta is δ(ε) of dpevent.PoissonReplaceOne in closed form. It finds where the loss,
// which is increasing, is ε.
func replacedDelta(rate, shift, epsilon float64) float64 {
	above := func(x, mean float64) float64 { return math.Erfc((x-mean)/math.Sqrt2) / 2 }
	low, high := -50.0, 50.0
	for range 200 {
		x := (low + high) / 2
		one := 1 - rate + rate*math.Exp(shift*x-shift*shift/2)
		if other := 1 - rate + rate*math.Exp(-shift*x-shift*shift/2); math.Log(one/other) < epsilon {
			low = x
		} else {
			high = x
		}
	}
	p := rate*above(low, shift) + (1-rate)*above(low, 0)
	q := rate*above(low, -shift) + (1-rate)*above(low, 0)
	return p - math.Exp(epsilon)*q
}

func replacedLots(rate, noise float64, steps int) ledger.History {
	h := poisson(rate, noise, steps)
	h.Header.Adjacency = ledger.ReplaceOne
	return h
}

func TestPoissonReplaceOne_SingleLot(t *testing.T) {
	for _, c := range []struct{ rate, noise, epsilon float64 }{
		{.1, 1, 1}, {.5, 2, .3}, {.001, .5, 2}, {.9, .7, 4}, {.3, 5, 0}, {.01, .2, 12}, {.999, 1, 2},
	} {
		want := replacedDelta(c.rate, 1/c.noise, c.epsilon)
		got := deltaOf(t, replacedLots(c.rate, c.noise, 1), c.epsilon, "pld")
		if !(got.Delta >= want*(1-1e-6) && got.LowerBound <= want*(1+1e-6) && got.Delta <= 1.002*got.LowerBound) {
			t.Errorf("%+v: δ is in [%v, %v], want %v", c, got.LowerBound, got.Delta, want)
		}
	}
}

// No two records of any contributions are easier to distinguish than the dominating pair, at any
// ε. The test of the theorem uses vectors in a plane.
func TestPoissonReplaceOne_Dominates(t *testing.T) {
	r := rand.New(rand.NewPCG(61, 62))
	near := 0
	for range 60 {
		rate, shift, epsilon := .02+.96*r.Float64(), .3+2*r.Float64(), 3*r.Float64()-1
		// g and h are in the disc of radius shift, often near the worst case.
		g, h := [2]float64{shift, 0}, [2]float64{-shift, 0}
		if r.IntN(4) > 0 {
			turn := math.Pi * (1 + .3*r.NormFloat64())
			long := shift * math.Sqrt(r.Float64())
			h = [2]float64{long * math.Cos(turn), long * math.Sin(turn)}
			g[0] *= math.Sqrt(r.Float64())
		}
		const step = 1.0 / 16
		delta := 0.0
		for x := -12.0; x < 12; x += step {
			for y := -12.0; y < 12; y += step {
				at := func(c [2]float64) float64 { return math.Exp(c[0]*x + c[1]*y - (c[0]*c[0]+c[1]*c[1])/2) }
				p, q := 1-rate+rate*at(g), 1-rate+rate*at(h)
				delta += max(0, p-math.Exp(epsilon)*q) * math.Exp(-(x*x+y*y)/2) / (2 * math.Pi) * step * step
			}
		}
		want := replacedDelta(rate, shift, epsilon)
		if !(delta <= want*1.001+1e-6) {
			t.Errorf("rate %v, ε %v: %v and %v show δ = %v, the pair %v", rate, epsilon, g, h, delta, want)
		}
		if delta > .99*want {
			near++
		}
	}
	if near < 5 {
		t.Errorf("only %d are near: the test is not conclusive", near)
	}
}

// dp-accounting 0.6.0's PLD accountant, REPLACE_ONE, PoissonSampledDpEvent of a
// GaussianDpEvent, at δ = 1e-5.
func TestPoissonReplaceOne_PublishedValues(t *testing.T) {
	for _, c := range []struct {
		rate, noise float64
		steps       int
		epsilon     float64
	}{
		{.01, 1, 1000, 2.84345}, {.05, 2.4, 60, 1.23275}, {.1, 4, 100, 1.98986}, {.004, 1.1, 14000, 3.90991},
	} {
		h := replacedLots(c.rate, c.noise, c.steps)
		got := epsilonOf(t, h, 1e-5, "pld")
		if !(got.LowerBound <= c.epsilon*(1+1e-4) && got.Epsilon >= c.epsilon*(1-1e-4) && got.Epsilon <= 1.001*got.LowerBound) {
			t.Errorf("%+v: ε is in [%v, %v]", c, got.LowerBound, got.Epsilon)
		}
		if rdp := epsilonOf(t, h, 1e-5, "rdp"); !(rdp.Epsilon >= got.LowerBound && rdp.Epsilon <= 1.2*got.Epsilon) {
			t.Errorf("%+v: by rdp %v, by pld %v", c, rdp.Epsilon, got.Epsilon)
		}
	}
}

// The limit of many lots with small losses.
func TestPoissonReplaceOne_CentralLimit(t *testing.T) {
	for _, c := range []struct {
		rate, noise float64
		steps       int
	}{{.004, 1.1, 14000}, {1e-3, 2, 1e6}, {.02, 4, 20000}} {
		h := replacedLots(c.rate, c.noise, c.steps)
		pld, gdp := epsilonOf(t, h, 1e-5, "pld"), epsilonOf(t, h, 1e-5, "gdp")
		near(t, "gdp", gdp.Epsilon, pld.Epsilon, .05)
	}
}
