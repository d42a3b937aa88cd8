package pld

import (
	"math"
	"slices"

	"github.com/dptrain/dptrain/accountant/internal/composition"
	"github.com/dptrain/dptrain/accountant/internal/dpevent"
	"github.com/dptrain/dptrain/accountant/internal/gaussian"
	"github.com/dptrain/dptrain/accountant/internal/rdp"
)

// A schedule of more than maxEventsUp different events is rounded up to that number for the
// upper bound, and down to maxEventsDown for the lower bound, which is informative only.
// Measured on 4,000 different lots, rounding up adds 0.05% to ε if the noise or the rate
// doubles, 0.13% if both double, and 8% if both vary independently by a factor of 20.
const (
	maxEventsUp   = 1000
	maxEventsDown = 400
)

// Epsilon returns an upper and a lower bound of ε at delta. If symmetric, lots of a fixed
// size use the symmetric hockey-stick curve, which is proven for any data; otherwise they use
// the curve of one pair, each direction separately, as published.
func Epsilon(events []dpevent.RepeatedEvent, symmetric bool, delta float64) (upper, lower float64, err error) {
	if shift, ok := dpevent.EquivalentGaussian(events); ok {
		upper, lower = gaussian.EpsilonBounds(shift, delta)
		return upper, lower, nil
	}
	c, err := newComposer(events, symmetric)
	if err != nil {
		return 0, 0, err
	}
	if TotalVariationBound(events) <= delta {
		return 0, 0, nil
	}
	plain := dpevent.Untruncated(c.roundedUp)
	known := min(MaxLoss(events), renyiBound(c.roundedUp, delta), composition.BasicEpsilon(plain, delta),
		composition.ZCDPEpsilon(plain, delta))
	if pure, others := splitPure(c.roundedUp); len(pure) > 0 && len(others) > 0 {
		rest, _, err := Epsilon(others, symmetric, delta)
		if err != nil {
			return 0, 0, err
		}
		known = min(known, dpevent.AddUp(rest, MaxLoss(pure))) // basic composition
	}
	if c.exceedsRange() {
		return known, 0, nil
	}
	logDelta := math.Log(delta)
	at := 0.0 // an estimate of ε
	b := c.worstDirection(query{
		upperBound: known,
		epsilon:    func(high float64) float64 { return high },
		plan: func(d lossDirection, high float64) computation {
			w := c.cumulants(d, c.cutLoss(high), c.truncatedShare(logDelta))
			tilt := w.tiltForDelta(logDelta)
			_, guess, _ := w.at(2 * tilt)
			at = max(min(guess, high), minEpsilonTilt/tilt)
			t := c.computation(w, tilt, at, logDelta, at*2*tilt)
			t.maxEpsilon = high
			return t
		},
		interval: func(c *divergenceBounds) interval { return c.epsilonInterval(delta, at) },
		isAtMost: func(c *divergenceBounds, epsilon float64) bool { return c.upperDelta(epsilon) <= delta },
	})
	return b.high, b.low, nil
}

// Delta returns an upper and a lower bound of δ at epsilon; symmetric is as for Epsilon.
func Delta(events []dpevent.RepeatedEvent, symmetric bool, epsilon float64) (upper, lower float64, err error) {
	if shift, ok := dpevent.EquivalentGaussian(events); ok {
		upper, lower = gaussian.DeltaBounds(shift, epsilon)
		return upper, lower, nil
	}
	c, err := newComposer(events, symmetric)
	if err != nil {
		return 0, 0, err
	}
	if epsilon >= MaxLoss(events) {
		return 0, 0, nil
	}
	if c.exceedsRange() {
		return min(1, TotalVariationBound(events)), 0, nil
	}
	known := min(1, TotalVariationBound(events))
	if pure, others := splitPure(c.roundedUp); len(pure) > 0 && len(others) > 0 {
		if rest := math.Nextafter(epsilon-MaxLoss(pure), math.Inf(-1)); rest >= 0 {
			most, _, err := Delta(others, symmetric, rest)
			if err != nil {
				return 0, 0, err
			}
			known = min(known, most) // basic composition
		}
	}
	cut := c.cutLoss(epsilon)
	b := c.worstDirection(query{
		upperBound:        known,
		absoluteTolerance: 1e-25,
		epsilon:           func(float64) float64 { return epsilon },
		plan: func(d lossDirection, high float64) computation {
			logDelta, tilt := math.Log(high), 0.0
			var w *compositionCumulants
			for range 3 { // the probability that may be truncated depends on δ
				w = c.cumulants(d, cut, c.truncatedShare(logDelta))
				tilt = w.tiltForEpsilon(epsilon)
				if estimate := w.logDelta(tilt, epsilon); estimate < logDelta {
					logDelta = estimate
				}
			}
			t := c.computation(w, tilt, epsilon, logDelta, 1)
			t.maxEpsilon = epsilon
			return t
		},
		interval: func(c *divergenceBounds) interval { return c.deltaInterval(epsilon) },
		isAtMost: func(c *divergenceBounds, delta float64) bool { return c.upperDelta(epsilon) <= delta },
	})
	return b.high, b.low, nil
}

// splitPure separates the events that satisfy ε-differential privacy without δ. Their largest losses
// add to the ε of the others; the composition of all is at most a rounding error above this sum.
func splitPure(events []dpevent.RepeatedEvent) (pure, others []dpevent.RepeatedEvent) {
	for _, e := range events {
		if e.IsPure() {
			pure = append(pure, e)
		} else {
			others = append(others, e)
		}
	}
	return pure, others
}

// Larger shifts are not discretised: maxSampledShift and maxUnsampledShift limit Gaussian
// noise in lots with and without sampling, maxPureLoss limits Laplace noise and choices. Noise below
// 1/maxSampledShift gives no protection, and the cost of a computation grows with the square
// of the shift.
const (
	maxSampledShift   = 100
	maxUnsampledShift = 1e6
	maxPureLoss       = 1000
)

// exceedsRange reports whether the composition is not discretised.
func (c *composer) exceedsRange() bool {
	return slices.ContainsFunc(c.roundedUp, func(e dpevent.RepeatedEvent) bool {
		return slices.ContainsFunc(slices.Concat(e.LaplaceShifts, e.PureLosses), func(loss float64) bool { return loss > maxPureLoss }) ||
			e.GaussianShift > maxUnsampledShift ||
			e.Subsampled() && (e.Untruncated().GaussianShift > maxSampledShift || slices.ContainsFunc(e.DiscreteGaussians,
				func(d dpevent.DiscreteGaussian) bool { return d.Shift/d.Sigma > maxSampledShift }))
	})
}

// renyiBound is ε by Rényi divergences of the same pairs. It is the result where the
// discretised bound is not sharp enough.
func renyiBound(events []dpevent.RepeatedEvent, delta float64) float64 {
	epsilon, _ := rdp.Epsilon(rdp.Divergence, dpevent.RoundEvents(events, rdp.MaxEvents, true), delta)
	return epsilon * (1 + renyiTolerance)
}

// renyiTolerance is charged for the quadrature and the rounding of Rényi divergences. It is far
// above the differences that tests measure, but it is not derived.
const renyiTolerance = 1e-9

// TotalVariationBound bounds the total variation distance, which is δ at ε = 0. A lot that
// contains the record adds at most the distances of its groups.
func TotalVariationBound(events []dpevent.RepeatedEvent) float64 {
	total := 0.0
	for _, e := range events {
		one := math.Erf(e.Untruncated().GaussianShift / (2 * math.Sqrt2))
		for _, ratio := range e.LaplaceShifts {
			one -= math.Expm1(-ratio / 2)
		}
		for _, loss := range e.PureLosses {
			one += math.Tanh(loss / 2)
		}
		if len(e.DiscreteGaussians) > 0 {
			one = 1
		}
		one *= 1 + roundingUnit*float64(16+8*(len(e.LaplaceShifts)+len(e.PureLosses)))
		total = dpevent.AddUp(total, dpevent.MultiplyUp(dpevent.MultiplyUp(float64(e.Count), e.Rate), min(1, one)))
	}
	return total
}

// MaxLoss is the largest possible privacy loss of the events. It is finite if all of them satisfy
// ε-differential privacy without δ.
func MaxLoss(events []dpevent.RepeatedEvent) float64 {
	total := 0.0
	for _, e := range events {
		if !e.IsPure() {
			return math.Inf(1)
		}
		one := e.PureLoss()
		if e.Subsampled() && one < 700 {
			one = math.Log1p(e.Rate*math.Expm1(one)) * (1 + 16*roundingUnit)
		}
		total = dpevent.AddUp(total, dpevent.MultiplyUp(float64(e.Count), one))
	}
	return total
}
