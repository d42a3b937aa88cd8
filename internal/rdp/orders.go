package rdp

import (
	"math"

	"github.com/dptrain/dptrain/internal/dpevent"
)

// renyiOrders are the Rényi orders tried: close together where long runs have their best
// order, far apart at the high end, which only very small budgets need.
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

// Epsilon returns ε at delta and the best order. The function divergence bounds the Rényi
// divergence of one event at an order.
func Epsilon(divergence func(dpevent.Event, float64) float64, events []dpevent.RepeatedEvent, delta float64) (epsilon, order float64) {
	return epsilonWithTruncation(events, delta, func(events []dpevent.RepeatedEvent, delta float64) (epsilon, order float64) {
		order, epsilon = BestOrder(func(order float64) float64 {
			return ToEpsilon(order, TotalDivergence(events, order, divergence), delta)
		})
		return max(0, epsilon), order
	})
}

// Delta returns δ at epsilon and the best order.
func Delta(divergence func(dpevent.Event, float64) float64, events []dpevent.RepeatedEvent, epsilon float64) (delta, order float64) {
	return deltaWithTruncation(events, epsilon, func(events []dpevent.RepeatedEvent, epsilon float64) (delta, order float64) {
		order, logDelta := BestOrder(func(order float64) float64 {
			return ToLogDelta(order, TotalDivergence(events, order, divergence), epsilon)
		})
		return min(1, math.Exp(logDelta)), order
	})
}

// MaxEvents bounds the number of different events. A schedule with more is rounded up to
// this number.
const MaxEvents = 2000

// ToEpsilon converts a Rényi divergence to ε at delta, by proposition 12 of Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020).
func ToEpsilon(order, rdp, delta float64) float64 {
	return rdp + math.Log1p(-1/order) - math.Log(delta*order)/(order-1)
}

// ToLogDelta converts a Rényi divergence to log δ at epsilon, by the same proposition.
func ToLogDelta(order, rdp, epsilon float64) float64 {
	return (order-1)*(rdp-epsilon+math.Log1p(-1/order)) - math.Log(order)
}

// BestOrder minimizes value over the Rényi orders: over every eighth order, then over those
// around the best. Apart from its logarithms the value is a convex function divided by
// order-1, so it decreases and then increases.
func BestOrder(value func(order float64) float64) (order, least float64) {
	const stride = 8
	best, least := 0, math.Inf(1)
	try := func(i int) bool {
		v := value(renyiOrders[i])
		if v < least {
			best, least = i, v
		}
		return v < least+1+math.Abs(least)
	}
	for i := 0; i < len(renyiOrders); i += stride {
		if !try(i) && i > best+2*stride {
			break
		}
	}
	centre := best
	for i := max(0, centre-stride+1); i < min(len(renyiOrders), centre+stride); i++ {
		if i != centre {
			try(i)
		}
	}
	return renyiOrders[best], least
}

// TotalDivergence adds the divergences of all events at an order.
func TotalDivergence(events []dpevent.RepeatedEvent, order float64, divergence func(dpevent.Event, float64) float64) float64 {
	total := 0.0
	for _, e := range events {
		total += float64(e.Count) * divergence(e.Event, order)
	}
	return total
}

// RoundEvents rounds events up to at most about MaxEvents different ones. It returns an
// error if too many events need numerical integrals.
func RoundEvents(events []dpevent.RepeatedEvent) ([]dpevent.RepeatedEvent, error) {
	if err := dpevent.CheckIntegratedEvents(events, needsIntegral); err != nil {
		return nil, err
	}
	return dpevent.RoundEvents(events, MaxEvents, true), nil
}

// needsIntegral reports whether the Rényi divergence of an event takes a long computation.
func needsIntegral(e dpevent.Event) bool { return e.Subsampled() && len(e.LaplaceShifts) > 0 }
