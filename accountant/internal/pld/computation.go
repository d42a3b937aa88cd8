package pld

import "math"

const (
	// targetWidth is the relative width of the interval that a computation is planned for;
	// acceptedWidth is the relative width that is accepted.
	targetWidth   = 1.5e-4
	acceptedWidth = 3e-4
	// For more than smallEventCount different events a wider interval is accepted. A long
	// schedule, which is rounded up and down, has no narrow interval.
	smallEventCount      = 30
	acceptedWidthMany    = 3e-3
	acceptedWidthRounded = 0.05
	// maxPasses bounds the number of refinements. For a rounded schedule there are fewer,
	// because rounding makes its interval wide.
	maxPasses        = 5
	maxPassesRounded = 2
	// minEpsilonTilt: ε below minEpsilonTilt divided by the tilt is not resolved from 0.
	minEpsilonTilt = 0.05
	// logSumTolerance is the logarithm of the relative error allowed in a Fourier sum.
	logSumTolerance = -12
	// maxCellVariance bounds the mean square of the cell width, relative to the variance of an
	// event.
	maxCellVariance = 0.08
	// cheapFrequencies is a number of frequencies whose cost is negligible.
	cheapFrequencies = 1000
	// maxWork bounds the product of frequencies and points for up to smallEventCount different
	// events, and in proportion for more.
	maxWork = 1e7
)

// computation contains the parameters of one numerical composition. They determine accuracy
// and cost. The bounds are valid for any values.
type computation struct {
	tilt            float64
	period          float64 // of the Fourier sums
	blurVariance    float64 // variance of the Gaussian blur
	cellVariance    float64 // sum over all lots of the mean squares of their cell widths
	maxCellWidth    float64
	truncatedTilted float64 // tilted mass that may be truncated from the composition
	truncatedShare  float64 // probability that may be truncated from an event
	maxEpsilon      float64 // the largest ε at which the bounds are evaluated
	sumTolerance    float64 // allowed error of a Fourier sum
}

// computation plans a composition around (epsilon, e^logDelta). The relative error of δ may
// be steepness times the relative error of the result.
func (c *composer) computation(w *compositionCumulants, tilt, epsilon, logDelta, steepness float64) computation {
	logSum, _, variance := w.at(tilt)
	variance = max(variance, 1e-6/(tilt*tilt))
	sum := logDelta + tilt*epsilon - logSum // the Fourier sum is about e^sum
	logPeak := math.Log(kernelPeak(tilt))
	logTolerance := logSumTolerance + min(0, math.Log(steepness))
	t := computation{tilt: tilt, truncatedShare: c.truncatedShare(logDelta), sumTolerance: math.Exp(max(-690, sum+logTolerance))}
	t.truncatedTilted = math.Exp(max(-460, min(-23, sum+logTolerance-4-logPeak)))

	// A variance v moves log δ by v·slope·(slope + 1)/2, and the slope is about 2·tilt.
	// For the blur of variance v the upper bound is off by v and the lower bound by 2v. For
	// cells whose mean square is v they are off by v/6 and v/12.
	varianceBudget := targetWidth * steepness / (2 * tilt * (2*tilt + 1))
	// Above a variance of 1 the lower bound for the blur is loose.
	t.blurVariance = min(0.25*varianceBudget*2/3, variance, 1)
	t.cellVariance = min(0.75*varianceBudget*8, maxCellVariance*variance)

	t.maxCellWidth = 0.25 / tilt

	below := (-logTolerance - logDelta) / tilt
	above := math.Inf(1)
	for _, factor := range chernoffFactors {
		logMoment, _, _ := w.at(tilt * (1 + factor))
		above = min(above, (logMoment-logSum+logPeak-logTolerance-sum)/(tilt*factor)-epsilon)
	}
	t.period = max(below, above)
	return t
}

// query is a computation of ε or δ.
type query struct {
	upperBound        float64                    // a known upper bound of the result
	absoluteTolerance float64                    // an interval this wide is accepted
	epsilon           func(high float64) float64 // the ε of interest if the result is at most high
	plan              func(d lossDirection, high float64) computation
	interval          func(*divergenceBounds) interval
	isAtMost          func(c *divergenceBounds, value float64) bool // reports whether the result is certainly at most value
}

// interval contains two bounds and the share of their distance that the blur causes.
type interval struct{ high, low, blurShare float64 }

// worstDirection returns the bounds of the worst direction. The second direction is nearly
// always smaller than the first, which a coarse computation usually shows.
func (c *composer) worstDirection(q query) interval {
	worst := c.refine(q, c.directions[0])
	for _, d := range c.directions[1:] {
		if q.epsilon(worst.high) >= c.maxAddingLoss() {
			continue
		}
		t := q.plan(d, worst.high)
		t.cellVariance *= 4
		t.maxCellWidth *= 2
		t.blurVariance *= 4
		if q.isAtMost(c.bounds(d, t), worst.high) {
			continue
		}
		b := c.refine(q, d)
		worst.high, worst.low = max(worst.high, b.high), max(worst.low, b.low)
	}
	worst.low = min(worst.low, worst.high)
	return worst
}

// refine repeats the computation with smaller errors until the interval is narrow.
func (c *composer) refine(q query, d lossDirection) interval {
	best := interval{high: q.upperBound}
	accepted, passes := acceptedWidth, maxPasses
	switch {
	case c.rounded:
		accepted, passes = acceptedWidthRounded, maxPassesRounded
	case len(c.roundedUp) > smallEventCount:
		accepted = acceptedWidthMany
	}
	before := math.Inf(1)
	t := q.plan(d, best.high)
	for pass := 1; ; pass++ {
		bounds := c.bounds(d, t)
		b := q.interval(bounds)
		best.high, best.low = min(best.high, b.high), max(best.low, b.low)
		width := best.high - best.low
		if width <= accepted*best.high+q.absoluteTolerance || pass == passes || pass > 2 && width > 0.7*before {
			return best
		}
		growth := bounds.pessimistic.workFactor() // for narrower cells and less blur
		if growth < 1.5 {
			return best
		}
		before = width
		relative := 1.0
		if b.low > 0 && !math.IsInf(b.high, 1) {
			relative = (b.high - b.low) / b.high
		}
		refinement := min(1, max(0.01, 1/(growth*growth), 0.6*targetWidth/(relative*(1-b.blurShare))))
		next := q.plan(d, best.high)
		next.cellVariance, next.maxCellWidth = t.cellVariance*refinement, t.maxCellWidth*math.Sqrt(refinement)
		next.blurVariance = min(1, t.blurVariance*min(16, max(0.01, 0.2*targetWidth/(relative*b.blurShare))))
		t = next
	}
}

// workFactor is the factor by which the work of evaluating s may grow.
func (s *characteristicFunction) workFactor() float64 {
	each := 32 // fixed cost of a frequency, in points
	for _, e := range s.events {
		each += len(e.mass)
	}
	return maxWork * max(1, float64(len(s.events))/smallEventCount) / (float64(each) * float64(s.frequencyBand.count))
}

// evaluate evaluates s over a band of frequencies. It uses less blur than planned if the cost
// is negligible, and more if the cost would be too high.
func (t computation) evaluate(s *characteristicFunction) {
	r := newBandLimiter(s)
	b := frequencyBand{step: 2 * math.Pi / t.period}
	for blurFactor := 1. / 16; ; blurFactor *= 16 {
		b.blurVariance = blurFactor * t.blurVariance
		highest, tail := r.bandLimit(b.step, b.blurVariance, t.sumTolerance)
		count := math.Ceil(highest / b.step)
		if !(count >= 1 && count < math.Inf(1)) { // for parameters that are not meaningful
			count, tail = 1, math.Inf(1)
		}
		s.frequencyBand.count = int(min(count, 1e9))
		if count <= cheapFrequencies || blurFactor >= 1 && s.workFactor() >= 1 {
			b.count = s.frequencyBand.count
			s.evaluate(b, tail)
			return
		}
	}
}
