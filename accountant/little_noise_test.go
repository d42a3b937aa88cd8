package accountant

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
)

// spentAtLeast is a lower bound of the ε of a run of sampled Gaussians at delta: log((P - δ)/Q)
// for an adversary who tests whether some lot is above a threshold, at the best threshold.
func spentAtLeast(rate, shift float64, steps int, delta float64) float64 {
	least := 0.0
	for part := .02; part < 4; part += .02 {
		at := shift * part
		logOne := logAbove(at) // probability that a lot without the record is above
		one := math.Exp(logOne)
		logQ := logOne + math.Log(float64(steps))
		if one > 1e-30 {
			logQ = math.Log(-math.Expm1(float64(steps) * math.Log1p(-one)))
		}
		with := rate*math.Exp(logAbove(at-shift)) + (1-rate)*one
		if p := -math.Expm1(float64(steps) * math.Log1p(-with)); p > delta {
			least = max(least, math.Log(p-delta)-logQ)
		}
	}
	return least
}

// No accountant with a proven bound returns less than a lower bound of ε, down to almost no
// noise. With more noise pld is tight.
func TestEpsilon_LittleNoise(t *testing.T) {
	t.Parallel()
	cases := 60
	if testing.Short() {
		cases = 6
	}
	r := rand.New(rand.NewPCG(51, 52))
	near := 0
	for range cases {
		noise, rate := between(r.Float64(), .02, 1), between(r.Float64(), 1e-6, .5)
		steps, delta := int(between(r.Float64(), 1, 1e4)), between(r.Float64(), 1e-10, .5)
		h := poisson(rate, noise, steps)
		shift := 1 / noise
		if r.IntN(3) == 0 {
			h.Header.Adjacency = ledger.ReplaceOne // the lower bound also holds here
		}
		least := spentAtLeast(rate, shift, steps, delta)
		for _, name := range []string{"pld", "rdp", "naive"} {
			got := epsilonOf(t, h, delta, name)
			if !(got.Epsilon >= least*(1-1e-12)) || got.LowerBound > got.Epsilon {
				t.Errorf("%s: noise %v, rate %v, %d steps, %s, at %v: %+v, and at least %v was spent", name, noise, rate, steps, h.Header.Adjacency, delta, got, least)
			}
			if name != "pld" || got.Epsilon == 0 || shift > 20 {
				continue
			}
			if got.Epsilon < 1.2*least {
				near++
			}
			if got.Epsilon < 1e5 && got.Epsilon > 1.005*got.LowerBound {
				t.Errorf("noise %v, rate %v, %d steps, at %v: the bracket [%v, %v] is wide", noise, rate, steps, delta, got.LowerBound, got.Epsilon)
			}
			if at := deltaOf(t, h, least, name); at.Delta < delta*(1-1e-9) {
				t.Errorf("noise %v, rate %v, %d steps: δ(%v) is %v, at least %v was spent", noise, rate, steps, least, at.Delta, delta)
			}
		}
	}
	if near < cases/10 {
		t.Errorf("only %d of %d bounds are near: the test is not conclusive", near, cases)
	}
}
