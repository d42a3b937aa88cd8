package accountant

import (
	"math"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
)

// A target decides how closely a composition is looked at, not whether the bounds hold:
// what a rough look leaves out, blurs or wraps around is charged. Each part is made so
// rough here that leaving its charge out would show.
func TestRoughLooksAreStillBounds(t *testing.T) {
	const epsilon = 1
	with := func(h ledger.History, m ledger.Mechanism) ledger.History {
		h.Lots[0].Lot.Queries[0].Mechanism = m
		return h
	}
	for _, h := range []ledger.History{poisson(.01, 1, 100), poisson(.2, 3, 30),
		with(poisson(.2, 3, 30), ledger.Laplace), with(poisson(.2, 3, 30), ledger.DiscreteGaussian)} {
		s, err := FromHistory(h)
		if err != nil {
			t.Fatal(err)
		}
		knownDelta, knownLower, err := PLDDelta(s.Events, false, epsilon)
		if err != nil {
			t.Fatal(err)
		}
		c, err := newComposer(s.Events, false)
		if err != nil {
			t.Fatal(err)
		}
		logDelta := math.Log(knownDelta)
		w := c.whole(removing, c.cut(epsilon), c.share(logDelta))
		close := c.target(w, w.tiltForEpsilon(epsilon), epsilon, logDelta, 1)
		close.limit = epsilon
		for name, roughen := range map[string]func(*target, float64){
			"share":     func(t *target, by float64) { t.share = by * knownDelta / c.steps },
			"threshold": func(t *target, by float64) { t.threshold *= by * 1e9 },
			"enough":    func(t *target, by float64) { t.enough *= by * 1e6 },
			"period":    func(t *target, by float64) { t.period /= 1 + by },
			"cells":     func(t *target, by float64) { t.cells *= 1 + 100*by; t.widest *= 1 + 10*by },
			"blur":      func(t *target, by float64) { t.blur *= 1 + 100*by },
		} {
			for _, by := range []float64{.01, .1, .5, 1, 2, 5} {
				rough := close
				roughen(&rough, by)
				seen := c.curve(removing, rough)
				if up, low := seen.deltaUp(epsilon), seen.deltaLow(epsilon); up < knownLower || low > knownDelta {
					t.Errorf("rough %s, %v: δ between %v and %v, by a closer look %v and %v", name, by, low, up, knownLower, knownDelta)
				}
			}
		}
	}
}
