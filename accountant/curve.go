package accountant

import "math"

// curve bounds the hockey-stick divergence of a composition from both sides, from
// above up to limit.
type curve struct {
	upper, near, far *blurred // the upper twin's, and the lower twin's blurred once and twice as wide
	limit            float64
}

func newCurve(upper, lower *spectrum, limit float64) *curve {
	return &curve{upper.blurred(1), lower.blurred(1), lower.blurred(2), limit}
}

func (c *curve) deltaUp(epsilon float64) float64 {
	if epsilon > c.limit {
		return 1
	}
	value, off := c.upper.delta(epsilon)
	_, beyond := c.upper.stays.beyond(epsilon, c.upper.lost.without)
	if delta := (value+off+beyond)*math.Exp(c.upper.rough) + c.upper.lost.with; delta < 1 {
		return max(0, delta)
	}
	return 1 // and where it is no number
}

func (c *curve) deltaLow(epsilon float64) float64 {
	near, nearOff := c.near.delta(epsilon)
	far, farOff := c.far.delta(epsilon)
	near -= nearOff + c.near.wrapped(epsilon)
	beyond, _ := c.near.stays.beyond(epsilon, 0)
	delta := max(0, near-contrast(c.near.variance)*(far+farOff-near)) + beyond
	if delta > 0 {
		return min(1, delta*math.Exp(-c.near.rough))
	}
	return 0 // and where it is no number
}

// epsilons brackets the ε at which the divergence is delta.
func (c *curve) epsilons(delta, guess float64) bracket {
	high := c.epsilonUp(delta, guess)
	known := min(high, c.limit)
	return bracket{high, c.epsilonLow(delta, known), c.blame(known)}
}

// deltas brackets the divergence at epsilon.
func (c *curve) deltas(epsilon float64) bracket {
	return bracket{c.deltaUp(epsilon), c.deltaLow(epsilon), c.blame(epsilon)}
}

// blame is about the part of the distance between the bounds at epsilon that the blur
// causes.
func (c *curve) blame(epsilon float64) float64 {
	near, _ := c.near.delta(epsilon)
	far, _ := c.far.delta(epsilon)
	part := 1.4 * (far - near) / (c.deltaUp(epsilon) - c.deltaLow(epsilon))
	return min(0.95, max(1e-3, part))
}

func (c *curve) epsilonUp(delta, guess float64) float64 {
	if c.deltaUp(0) <= delta {
		return 0
	}
	below, above := 0.0, min(guess, c.limit)
	for c.deltaUp(above) > delta {
		if above == c.limit || math.IsNaN(above) {
			return math.Inf(1)
		}
		below, above = above, min(c.limit, above*1.1)
	}
	_, above = narrow(c.deltaUp, below, above, delta)
	return above
}

func (c *curve) epsilonLow(delta, known float64) float64 {
	above := known
	for part := 1e-4; part < 1; part *= 3 {
		below := known * (1 - part)
		if c.deltaLow(below) >= delta {
			below, _ = narrow(c.deltaLow, below, above, delta)
			return below
		}
		above = below
	}
	return 0
}
