package pld

import (
	"math"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
	"github.com/dptrain/dptrain/accountant/internal/gaussian"
)

// Curve bounds δ from above at every ε with one composition for each direction. It takes much less
// time than calls of Delta for many ε. The bound is valid for every ε. It is as sharp as that of
// Delta where δ is about curveDelta, and less sharp where δ is far below.
type Curve struct {
	directions []*divergenceBounds
	maxEpsilon float64
	ceiling    float64 // δ at ε = 0
	shift      float64 // of the Gaussian mechanism that the events are; otherwise there are directions
	gaussian   bool
	maxLoss    float64
}

const (
	curveDelta      = 1e-3
	maxCurveEpsilon = 20
)

// NewCurve composes events; symmetric is as for Epsilon.
func NewCurve(events []dpevent.RepeatedEvent, symmetric bool) (*Curve, error) {
	r := &Curve{maxEpsilon: maxCurveEpsilon, maxLoss: MaxLoss(events)}
	if r.shift, r.gaussian = dpevent.EquivalentGaussian(events); r.gaussian {
		return r, nil
	}
	c, err := newComposer(events, symmetric)
	if err != nil {
		return nil, err
	}
	r.ceiling = min(1, TotalVariationBound(events))
	if c.exceedsRange() {
		return r, nil
	}
	logDelta := math.Log(curveDelta)
	for _, d := range c.directions {
		var last *divergenceBounds
		at := 0.0
		c.refine(query{
			upperBound: r.maxEpsilon,
			plan: func(d lossDirection, _ float64) computation {
				w := c.cumulants(d, c.cutLoss(r.maxEpsilon), c.truncatedShare(logDelta))
				tilt := w.tiltForDelta(logDelta)
				_, guess, _ := w.at(2 * tilt)
				at = max(min(guess, r.maxEpsilon), minEpsilonTilt/tilt)
				t := c.computation(w, tilt, at, logDelta, at*2*tilt)
				t.maxEpsilon = r.maxEpsilon
				return t
			},
			interval: func(b *divergenceBounds) interval {
				last = b
				return b.epsilonInterval(curveDelta, at)
			},
		}, d)
		r.directions = append(r.directions, last)
	}
	return r, nil
}

// Delta returns an upper bound of δ at epsilon.
func (c *Curve) Delta(epsilon float64) float64 {
	switch {
	case epsilon >= c.maxLoss:
		return 0
	case c.gaussian:
		upper, _ := gaussian.DeltaBounds(c.shift, epsilon)
		return upper
	case c.directions == nil:
		return c.ceiling
	}
	most := 0.0
	for _, d := range c.directions {
		most = max(most, d.upperDelta(min(epsilon, c.maxEpsilon)))
	}
	return min(most, c.ceiling)
}
