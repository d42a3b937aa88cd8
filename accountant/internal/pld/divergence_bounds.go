package pld

import (
	"math"

	"github.com/dptrain/dptrain/accountant/internal/numerics"
)

// divergenceBounds bounds the hockey-stick divergence of a composition from both sides. The
// upper bound is valid up to maxEpsilon.
type divergenceBounds struct {
	// Of the pessimistic estimate, and of the optimistic one with one and two blur widths.
	pessimistic, optimistic, optimisticWide *blurredDivergence
	maxEpsilon                              float64
}

func newDivergenceBounds(upper, lower *characteristicFunction, limit float64) *divergenceBounds {
	return &divergenceBounds{upper.blurred(1), lower.blurred(1), lower.blurred(2), limit}
}

// cutOffDivergence is that of the losses cut off; a sum over events adds its rounding.
func (s *characteristicFunction) cutOffDivergence(epsilon, missing float64) (low, high float64) {
	return s.retained.cutOffDivergence(epsilon, missing, s.cutOffError+4*roundingUnit*float64(len(s.events)))
}

func (c *divergenceBounds) upperDelta(epsilon float64) float64 {
	if epsilon > c.maxEpsilon {
		return 1
	}
	value, errorBound := c.pessimistic.delta(epsilon)
	_, cutOff := c.pessimistic.cutOffDivergence(epsilon, c.pessimistic.truncated.without)
	if delta := (value+errorBound+cutOff)*math.Exp(c.pessimistic.logRelativeError)*(1+8*roundingUnit) +
		c.pessimistic.truncated.with*(1+1e-9); delta < 1 {
		return max(0, delta)
	}
	return 1 // also for NaN
}

func (c *divergenceBounds) lowerDelta(epsilon float64) float64 {
	near, nearOff := c.optimistic.delta(epsilon)
	far, farError := c.optimisticWide.delta(epsilon)
	near -= nearOff + c.optimistic.wrapAround(epsilon)
	cutOff, _ := c.optimistic.cutOffDivergence(epsilon, 0)
	delta := max(0, near-blurGrowthRatio(c.optimistic.variance)*(far+farError-near)) + cutOff
	if delta > 0 {
		return min(1, delta*math.Exp(-c.optimistic.logRelativeError))
	}
	return 0 // also for NaN
}

// epsilonInterval bounds the ε at which the divergence is delta.
func (c *divergenceBounds) epsilonInterval(delta, guess float64) interval {
	high := c.upperEpsilon(delta, guess)
	known := min(high, c.maxEpsilon)
	return interval{high, c.lowerEpsilon(delta, known), c.blurShare(known)}
}

// deltaInterval bounds the divergence at epsilon.
func (c *divergenceBounds) deltaInterval(epsilon float64) interval {
	return interval{c.upperDelta(epsilon), c.lowerDelta(epsilon), c.blurShare(epsilon)}
}

// blurShare estimates the share of the distance between the bounds at epsilon that the blur
// causes.
func (c *divergenceBounds) blurShare(epsilon float64) float64 {
	near, _ := c.optimistic.delta(epsilon)
	far, _ := c.optimisticWide.delta(epsilon)
	part := 1.4 * (far - near) / (c.upperDelta(epsilon) - c.lowerDelta(epsilon))
	return min(0.95, max(1e-3, part))
}

func (c *divergenceBounds) upperEpsilon(delta, guess float64) float64 {
	if c.upperDelta(0) <= delta {
		return 0
	}
	below, above := 0.0, min(guess, c.maxEpsilon)
	for c.upperDelta(above) > delta {
		if above == c.maxEpsilon || math.IsNaN(above) {
			return math.Inf(1)
		}
		below, above = above, min(c.maxEpsilon, above*1.1)
	}
	_, above = numerics.Narrow(c.upperDelta, below, above, delta)
	return above
}

func (c *divergenceBounds) lowerEpsilon(delta, known float64) float64 {
	above := known
	for part := 1e-4; part < 1; part *= 3 {
		below := known * (1 - part)
		if c.lowerDelta(below) >= delta {
			below, _ = numerics.Narrow(c.lowerDelta, below, above, delta)
			return below
		}
		above = below
	}
	return 0
}
