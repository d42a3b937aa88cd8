package rdp

import (
	"math"

	"github.com/dptrain/dptrain/internal/dpevent"
)

// renyiOrders are the Rényi orders that are tried: fine where long runs have their
// best order, coarse in the far end, which only tiny budgets reach.
var renyiOrders = func() []float64 {
	list := []float64{1.005, 1.01, 1.02, 1.03, 1.05, 1.07}
	for tenths := 11; tenths < 110; tenths++ {
		list = append(list, float64(tenths)/10)
	}
	for order := 11; order < 64; order++ {
		list = append(list, float64(order))
	}
	for order := 64.0; order <= 1<<26; order *= 2 {
		for _, part := range []float64{1, 1.125, 1.25, 1.375, 1.5, 1.625, 1.75, 1.875} {
			list = append(list, order*part)
		}
	}
	return list
}()

// Epsilon returns ε at delta and the order that gives it, by a Rényi divergence of each event.
func Epsilon(of func(dpevent.Event, float64) float64, events []dpevent.RepeatedEvent, delta float64) (epsilon, order float64) {
	order, epsilon = BestOrder(func(order float64) float64 {
		return ToEpsilon(order, TotalDivergence(events, order, of), delta)
	})
	return max(0, epsilon), order
}

// Delta returns δ at epsilon and the order that gives it.
func Delta(of func(dpevent.Event, float64) float64, events []dpevent.RepeatedEvent, epsilon float64) (delta, order float64) {
	order, logDelta := BestOrder(func(order float64) float64 {
		return ToLogDelta(order, TotalDivergence(events, order, of), epsilon)
	})
	return min(1, math.Exp(logDelta)), order
}

// MaxEvents is how many different events the orders are computed for; a schedule
// with more is rounded up to as many.
const MaxEvents = 2000

// ToEpsilon is ε at delta, and logDeltaRDP the logarithm of δ at epsilon, by proposition 12
// of Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020).
func ToEpsilon(order, rdp, delta float64) float64 {
	return rdp + math.Log1p(-1/order) - math.Log(delta*order)/(order-1)
}

func ToLogDelta(order, rdp, epsilon float64) float64 {
	return (order-1)*(rdp-epsilon+math.Log1p(-1/order)) - math.Log(order)
}

// BestOrder finds the order of least value: every eighth order, then those
// around the best. Up to its logarithms, the value is a convex function over
// order-1, so it falls and then rises.
func BestOrder(value func(order float64) float64) (order, least float64) {
	const stride = 8
	best, least := 0, math.Inf(1)
	tried := func(i int) bool {
		v := value(renyiOrders[i])
		if v < least {
			best, least = i, v
		}
		return v < least+1+math.Abs(least)
	}
	for i := 0; i < len(renyiOrders); i += stride {
		if !tried(i) && i > best+2*stride {
			break
		}
	}
	centre := best
	for i := max(0, centre-stride+1); i < min(len(renyiOrders), centre+stride); i++ {
		if i != centre {
			tried(i)
		}
	}
	return renyiOrders[best], least
}

func TotalDivergence(events []dpevent.RepeatedEvent, order float64, of func(dpevent.Event, float64) float64) float64 {
	total := 0.0
	for _, e := range events {
		total += float64(e.Count) * of(e.Event, order)
	}
	return total
}

// RoundEvents are events rounded to so few kinds that their Rényi divergences are summed
// quickly.
func RoundEvents(events []dpevent.RepeatedEvent) ([]dpevent.RepeatedEvent, error) {
	if err := dpevent.CheckIntegratedEvents(events, needsIntegral); err != nil {
		return nil, err
	}
	return dpevent.RoundEvents(events, MaxEvents, true), nil
}

// needsIntegral tells that the Rényi divergence of an event takes an integral.
func needsIntegral(e dpevent.Event) bool { return e.Subsampled() && len(e.LaplaceShifts) > 0 }
