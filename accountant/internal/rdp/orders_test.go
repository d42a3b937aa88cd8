package rdp

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
)

// ε at the best order is within 0.5% of the infimum over orders, which a dense search finds:
// 1% apart in order-1, then 0.02% apart around the best.
func TestEpsilon_NearInfimumOverOrders(t *testing.T) {
	cases := 40
	if testing.Short() {
		cases = 12
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range cases {
		rate, shift := math.Pow(10, -4*r.Float64()), math.Pow(10, .5-1.8*r.Float64())
		steps, delta := math.Pow(10, 5*r.Float64()), math.Pow(10, -1-9*r.Float64())
		if i%5 == 0 {
			rate = 1
		}
		calls := 0
		value := func(order float64) float64 {
			calls++
			if rate == 1 {
				return ToEpsilon(order, steps*order*shift*shift/2, delta)
			}
			return ToEpsilon(order, steps*sampledGaussianDivergence(rate, shift, order), delta)
		}
		order, got := BestOrder(value)
		if calls > 45 {
			t.Errorf("%d orders are tried", calls)
		}
		best, least := order, got
		dense := func(from, to, stride float64) {
			for x := from; x <= to; x += stride {
				if v := value(1 + math.Exp(x)); v < least {
					best, least = 1+math.Exp(x), v
				}
			}
		}
		centre := math.Log(order - 1)
		dense(centre-5, centre+1, .03)
		dense(math.Log(best-1)-.03, math.Log(best-1)+.03, .0005)
		if got > least*1.005 && got > 1e-6 {
			t.Errorf("rate %v, shift %v, %v steps, δ = %v: ε = %v at order %v, but %v at order %v", rate, shift, steps, delta, got, order, least, best)
		}
	}
}

// The search covers tiny and huge orders, which very large and very small budgets need.
func TestBestOrder_ExtremeBudgets(t *testing.T) {
	for _, squares := range []float64{1e-9, 1e-3, 1, 1e4, 1e9} {
		_, got := BestOrder(func(order float64) float64 { return ToEpsilon(order, order*squares/2, 1e-5) })
		least := math.Inf(1)
		for x := -14.0; x < 18; x += .001 {
			least = min(least, ToEpsilon(1+math.Exp(x), (1+math.Exp(x))*squares/2, 1e-5))
		}
		if !(got <= least*1.001) {
			t.Errorf("squared shift %v: ε = %v, want %v", squares, got, least)
		}
	}
}

// Where a divergence is interpolated between integer orders, the best order may be an integer.
func TestBestOrder_TriesIntegers(t *testing.T) {
	events := []dpevent.RepeatedEvent{{Event: dpevent.Event{Rate: .02, GaussianShift: .5, ReplaceOne: true, FixedSize: true}, Count: 10000}}
	if _, order := Epsilon(PublishedDivergence(), events, 1e-5); order != math.Round(order) {
		t.Errorf("order %v", order)
	}
}
