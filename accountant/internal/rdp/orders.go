package rdp

import (
	"math"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
	"github.com/dptrain/dptrain/accountant/internal/numerics"
)

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

// ToEpsilon converts a Rényi divergence to ε at delta, by proposition 12 of Canonne, Kamath and
// Steinke, "The Discrete Gaussian for Differential Privacy" (2020).
func ToEpsilon(order, rdp, delta float64) float64 {
	return rdp + math.Log1p(-1/order) - math.Log(delta*order)/(order-1)
}

// ToLogDelta converts a Rényi divergence to log δ at epsilon, by the same proposition.
func ToLogDelta(order, rdp, epsilon float64) float64 {
	return (order-1)*(rdp-epsilon+math.Log1p(-1/order)) - math.Log(order)
}

// The search for the best order covers 1 + e^minLogOrder to 1 + e^maxLogOrder. The extremes are
// best only for very large and very small budgets.
const (
	minLogOrder  = -14.0
	maxLogOrder  = 18.0
	coarseStride = 0.7
	// fineSections leave an interval of 0.0017 for the logarithm of order-1. A Rényi divergence increases
	// with the order, and the rest of ε is about proportional to 1/(order-1). So the minimum over
	// orders that differ by less is at most 0.2% smaller.
	fineSections = 14
)

// BestOrder minimizes value over the Rényi orders above 1. Apart from its logarithms the value is a
// convex function divided by order-1, so it decreases and then increases. BestOrder brackets
// the minimum in coarse steps of log(order-1), and then by golden sections.
func BestOrder(value func(order float64) float64) (order, least float64) {
	least = math.Inf(1)
	try := func(logOrder float64) float64 {
		at := roundOrder(1 + math.Exp(logOrder))
		v := value(at)
		if v < least {
			order, least = at, v
		}
		return v
	}
	best := 0.0
	scan := func(from, stride float64) {
		for x := from; x >= minLogOrder && x <= maxLogOrder; x += stride {
			before := least
			if v := try(x); v < before {
				best = x
			} else if math.Abs(x-best) > 2*coarseStride && !(v < least+1+math.Abs(least)) {
				return
			}
		}
	}
	scan(0, coarseStride)
	scan(-coarseStride, -coarseStride)
	numerics.GoldenSection(try, best-coarseStride, best+coarseStride, fineSections)
	try(math.Log(max(1, math.Round(order-1)))) // some divergences are interpolated between integers
	return order, least
}

// roundOrder rounds order-1 to four significant digits: the bound holds at every order.
func roundOrder(order float64) float64 {
	scale := math.Pow(10, 3-math.Floor(math.Log10(order-1)))
	return 1 + math.Round((order-1)*scale)/scale
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
func needsIntegral(e dpevent.Event) bool {
	return e.Subsampled() && len(e.LaplaceShifts)+len(e.PureLosses) > 0
}
