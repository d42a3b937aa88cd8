package pld

import "math"

const (
	// targetWidth is the width of the bracket that is looked for, relative to the answer, and
	// wanted that of one that will do.
	targetWidth   = 1.5e-4
	acceptedWidth = 3e-4
	// More than a few different events are wanted less narrowly, and a long schedule,
	// which is rounded up and down, has no narrow bracket.
	smallEventCount      = 30
	acceptedWidthMany    = 3e-3
	acceptedWidthRounded = 0.05
	// maxPasses is how often a bracket is looked for: of a schedule only until there is one, as
	// rounding makes it wide.
	maxPasses        = 5
	maxPassesRounded = 2
	// minEpsilonTilt: ε is not told apart from 0 below this part of 1 over the tilt.
	minEpsilonTilt = 0.05
	// logSumTolerance is the logarithm of what an error of a sum may be, relative to the sum.
	logSumTolerance = -12
	// maxCellVariance is the most that the mean square of a cell may be, relative to the
	// variance of an event.
	maxCellVariance = 0.08
	// cheapFrequencies is how many frequencies cost next to nothing.
	cheapFrequencies = 1000
	// maxWork bounds the product of frequencies and points, for a few different events
	// and in proportion for more.
	maxWork = 1e7
)

// computation is how a composition is looked at. It decides accuracy and cost, not
// soundness.
type computation struct {
	tilt            float64
	period          float64 // of the Fourier sums
	blurVariance    float64 // its variance
	cellVariance    float64 // sum over all lots of the mean squares of their cells
	maxCellWidth    float64 // cell
	truncatedTilted float64 // tilted mass that may be left out of the whole
	truncatedShare  float64 // chance that may be left out of an event
	maxEpsilon      float64 // the greatest ε that is looked at
	sumTolerance    float64 // an error of a sum that is not noticed
}

// computation is for a look around (epsilon, e^logDelta), by which δ is known to within
// steepness times what the answer is to be known to.
func (c *composer) computation(w *compositionCumulants, tilt, epsilon, logDelta, steepness float64) computation {
	logSum, _, variance := w.at(tilt)
	variance = max(variance, 1e-6/(tilt*tilt))
	sum := logDelta + tilt*epsilon - logSum // what is summed is about e^sum
	logPeak := math.Log(kernelPeak(tilt))
	faint := logSumTolerance + min(0, math.Log(steepness))
	t := computation{tilt: tilt, truncatedShare: c.truncatedShare(logDelta), sumTolerance: math.Exp(max(-690, sum+faint))}
	t.truncatedTilted = math.Exp(max(-460, min(-23, sum+faint-4-logPeak)))

	// A variance v moves log δ by v·slope·(slope + 1)/2, and the slope is about 2·tilt.
	// The upper bound is off by v and the lower by twice that where v is the blur's, and
	// by a sixth and a twelfth of v where v is the mean square of a cell.
	room := targetWidth * steepness / (2 * tilt * (2*tilt + 1))
	// Above a variance of 1 the blur's lower bound is loose.
	t.blurVariance = min(0.25*room*2/3, variance, 1)
	t.cellVariance = min(0.75*room*8, maxCellVariance*variance)

	t.maxCellWidth = 0.25 / tilt

	below := (-faint - logDelta) / tilt
	above := math.Inf(1)
	for _, rise := range chernoffFactors {
		risen, _, _ := w.at(tilt * (1 + rise))
		above = min(above, (risen-logSum+logPeak-faint-sum)/(tilt*rise)-epsilon)
	}
	t.period = max(below, above)
	return t
}

// query is what a composer is asked.
type query struct {
	upperBound        float64                    // the answer is not above this
	absoluteTolerance float64                    // a bracket may be as wide
	epsilon           func(high float64) float64 // that is looked at where the answer is at most high
	plan              func(d lossDirection, high float64) computation
	interval          func(*divergenceBounds) interval
	isAtMost          func(c *divergenceBounds, value float64) bool // the answer is surely not above value
}

// interval is two bounds, and which part of the distance between them the blur causes.
type interval struct{ high, low, blurShare float64 }

// worstDirection is the worst of all directions. The second nearly always costs less than the
// first: a coarse look settles that.
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

// refine looks closer and closer until the bracket is narrow.
func (c *composer) refine(q query, d lossDirection) interval {
	best := interval{high: q.upperBound}
	enough, most := acceptedWidth, maxPasses
	switch {
	case c.rounded:
		enough, most = acceptedWidthRounded, maxPassesRounded
	case len(c.roundedUp) > smallEventCount:
		enough = acceptedWidthMany
	}
	before := math.Inf(1)
	t := q.plan(d, best.high)
	for pass := 1; ; pass++ {
		seen := c.bounds(d, t)
		b := q.interval(seen)
		best.high, best.low = min(best.high, b.high), max(best.low, b.low)
		width := best.high - best.low
		if width <= enough*best.high+q.absoluteTolerance || pass == most || pass > 2 && width > 0.7*before {
			return best
		}
		room := seen.pessimistic.workFactor() // for narrower cells and less blur
		if room < 1.5 {
			return best
		}
		before = width
		relative := 1.0
		if b.low > 0 && !math.IsInf(b.high, 1) {
			relative = (b.high - b.low) / b.high
		}
		finer := min(1, max(0.01, 1/(room*room), 0.6*targetWidth/(relative*(1-b.blurShare))))
		next := q.plan(d, best.high)
		next.cellVariance, next.maxCellWidth = t.cellVariance*finer, t.maxCellWidth*math.Sqrt(finer)
		next.blurVariance = min(1, t.blurVariance*min(16, max(0.01, 0.2*targetWidth/(relative*b.blurShare))))
		t = next
	}
}

// workFactor is how many times the work of evaluating s may grow.
func (s *characteristicFunction) workFactor() float64 {
	each := 32 // a frequency costs as much beside its points
	for _, e := range s.events {
		each += len(e.mass)
	}
	return maxWork * max(1, float64(len(s.events))/smallEventCount) / (float64(each) * float64(s.frequencyBand.count))
}

// evaluate fills a band of s: with less blur than asked for where that costs next to
// nothing, with more where it would cost too much.
func (t computation) evaluate(s *characteristicFunction) {
	r := newBandLimiter(s)
	b := frequencyBand{step: 2 * math.Pi / t.period}
	for times := 1. / 16; ; times *= 16 {
		b.blurVariance = times * t.blurVariance
		top, rest := r.bandLimit(b.step, b.blurVariance, t.sumTolerance)
		count := math.Ceil(top / b.step)
		if !(count >= 1 && count < math.Inf(1)) { // for a target that makes no sense
			count, rest = 1, math.Inf(1)
		}
		s.frequencyBand.count = int(min(count, 1e9))
		if count <= cheapFrequencies || times >= 1 && s.workFactor() >= 1 {
			b.count = s.frequencyBand.count
			s.evaluate(b, rest)
			return
		}
	}
}
