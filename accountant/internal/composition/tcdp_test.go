package composition

import (
	"math"
	"testing"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
)

// mixture is the density (1-s)·N(near, 1) + s·N(far, 1).
type mixture struct{ s, near, far float64 }

func (m mixture) logDensity(x float64) float64 {
	a := math.Log1p(-m.s) - (x-m.near)*(x-m.near)/2
	b := math.Log(m.s) - (x-m.far)*(x-m.far)/2
	if m.s == 0 {
		return a - math.Log(2*math.Pi)/2
	}
	high := max(a, b)
	return high + math.Log(math.Exp(a-high)+math.Exp(b-high)) - math.Log(2*math.Pi)/2
}

// renyi integrates p^α q^(1-α) with the trapezoidal rule, directly from the definition.
func renyi(p, q mixture, order float64) float64 {
	const step = 0.02
	end := 15 + order*(math.Abs(p.far)+math.Abs(q.far)+math.Abs(p.near))
	high := math.Inf(-1)
	for x := -end; x <= end; x += step {
		high = max(high, order*p.logDensity(x)+(1-order)*q.logDensity(x))
	}
	sum := 0.0
	for x := -end; x <= end; x += step {
		sum += math.Exp(order*p.logDensity(x) + (1-order)*q.logDensity(x) - high)
	}
	return (high + math.Log(sum*step)) / (order - 1)
}

// The amplified guarantee holds for the Rényi divergence itself, at orders up to ω, in both directions,
// with the record removed or replaced.
func TestTCDP_CoversDivergence(t *testing.T) {
	amplified := 0
	for _, s := range []float64{1e-4, 1e-3, 0.01, 0.03, 0.1} {
		for _, shift := range []float64{0.02, 0.1, 0.25, 0.35, 0.44} {
			for _, fixed := range []bool{false, true} {
				c := tcdpOf(dpevent.Event{Rate: s, FixedSize: fixed, ReplaceOne: fixed, GaussianShift: shift})
				if math.IsInf(c.omega, 1) {
					continue
				}
				amplified++
				for part := 0.02; part < 1; part += 0.14 {
					order := 1 + part*(min(c.omega, 60)-1)
					pairs := [][2]mixture{{{s, 0, shift}, {0, 0, 0}}, {{0, 0, 0}, {s, 0, shift}}}
					if fixed {
						pairs = append(pairs, [2]mixture{{s, 0, shift / 2}, {s, 0, -shift / 2}}, [2]mixture{{s, 0, shift}, {s, 0, shift / 2}})
					}
					for _, pair := range pairs {
						if d := renyi(pair[0], pair[1], order); d > c.rho*order*(1+1e-9)+1e-12 {
							t.Errorf("s = %v, shift %v, order %v: a divergence of %v, above %v", s, shift, order, d, c.rho*order)
						}
					}
				}
			}
		}
	}
	if amplified < 40 {
		t.Errorf("%d events were amplified: the test has no power", amplified)
	}
}

// ε is the least of the conversion at orders below ω, here on a grid, and that of zCDP where sampling or
// noise is outside the theorem.
func TestTCDPEpsilon_IsLeastConversion(t *testing.T) {
	const delta = 1e-5
	for _, c := range []struct {
		rate, noise float64
		steps       int
	}{{0.01, 4, 10000}, {0.001, 2.5, 50000}, {0.1, 8, 100}, {0.01, 4, 3}} {
		rho := 1 / (2 * c.noise * c.noise)
		total, omega := 13*c.rate*c.rate*rho*float64(c.steps), math.Log(1/c.rate)/(4*rho)
		want := math.Inf(1)
		for i := 1; i < 200000; i++ {
			order := 1 + (omega-1)*float64(i)/200000
			want = min(want, total*order+math.Log((order-1)/order)-(math.Log(delta)+math.Log(order))/(order-1))
		}
		events := []dpevent.RepeatedEvent{{Event: dpevent.Event{Rate: c.rate, GaussianShift: 1 / c.noise}, Count: c.steps}}
		if plain := ZCDPEpsilon(events, delta); plain < want {
			want = plain
		}
		if got := TCDPEpsilon(events, delta); math.Abs(got/want-1) > 1e-4 {
			t.Errorf("rate %v, noise %v, %d steps: ε = %v, want %v", c.rate, c.noise, c.steps, got, want)
		}
	}
	for _, e := range []dpevent.Event{{Rate: 0.2, GaussianShift: 0.1}, {Rate: 0.01, GaussianShift: 1}, {Rate: 1, GaussianShift: 0.1}, {Rate: 0.01, LaplaceShifts: []float64{0.1}}} {
		events := []dpevent.RepeatedEvent{{Event: e, Count: 20}}
		if got, want := TCDPEpsilon(events, delta), ZCDPEpsilon(events, delta); got != want {
			t.Errorf("%+v: ε = %v, that of zCDP is %v", e, got, want)
		}
	}
}
