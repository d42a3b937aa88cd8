package accountant

import "math"

const (
	// aim is the width of the bracket that is looked for, relative to the answer, and
	// wanted that of one that will do.
	aim    = 1.5e-4
	wanted = 3e-4
	// More than a few different events are wanted less narrowly, and a long schedule,
	// which is rounded up and down, has no narrow bracket.
	aFew             = 30
	wantedOfMany     = 3e-3
	wantedOfSchedule = 0.05
	// passes is how often a bracket is looked for: of a schedule only until there is one, as
	// rounding makes it wide.
	passes           = 5
	passesOfSchedule = 2
	// leastPart: ε is not told apart from 0 below this part of 1 over the tilt.
	leastPart = 0.05
	// faint is the logarithm of what an error of a sum may be, relative to the sum.
	faint = -12
	// coarsest is the most that the mean square of a cell may be, relative to the
	// variance of an event.
	coarsest = 0.08
	// quick is how many frequencies cost next to nothing.
	quick = 1000
	// mostWork bounds the product of frequencies and points, for a few different events
	// and in proportion for more.
	mostWork = 1e7
)

// target is how a composition is looked at. It decides accuracy and cost, not
// soundness.
type target struct {
	tilt      float64
	period    float64 // of the Fourier sums
	blur      float64 // its variance
	cells     float64 // sum over all lots of the mean squares of their cells
	widest    float64 // cell
	threshold float64 // tilted mass that may be left out of the whole
	share     float64 // chance that may be left out of an event
	limit     float64 // the greatest ε that is looked at
	enough    float64 // an error of a sum that is not noticed
}

// target is for a look around (epsilon, e^logDelta), by which δ is known to within
// steepness times what the answer is to be known to.
func (c *composer) target(w *whole, tilt, epsilon, logDelta, steepness float64) target {
	logSum, _, variance := w.at(tilt)
	variance = max(variance, 1e-6/(tilt*tilt))
	sum := logDelta + tilt*epsilon - logSum // what is summed is about e^sum
	logPeak := math.Log(peak(tilt))
	faint := faint + min(0, math.Log(steepness))
	t := target{tilt: tilt, share: c.share(logDelta), enough: math.Exp(max(-690, sum+faint))}
	t.threshold = math.Exp(max(-460, min(-23, sum+faint-4-logPeak)))

	// A variance v moves log δ by v·slope·(slope + 1)/2, and the slope is about 2·tilt.
	// The upper bound is off by v and the lower by twice that where v is the blur's, and
	// by a sixth and a twelfth of v where v is the mean square of a cell.
	room := aim * steepness / (2 * tilt * (2*tilt + 1))
	// Above a variance of 1 the blur's lower bound is loose.
	t.blur = min(0.25*room*2/3, variance, 1)
	t.cells = min(0.75*room*8, coarsest*variance)

	t.widest = 0.25 / tilt

	below := (-faint - logDelta) / tilt
	above := math.Inf(1)
	for _, rise := range riseAt {
		risen, _, _ := w.at(tilt * (1 + rise))
		above = min(above, (risen-logSum+logPeak-faint-sum)/(tilt*rise)-epsilon)
	}
	t.period = max(below, above)
	return t
}

// question is what a composer is asked.
type question struct {
	known   float64                    // the answer is not above this
	trifle  float64                    // a bracket may be as wide
	epsilon func(high float64) float64 // that is looked at where the answer is at most high
	target  func(d direction, high float64) target
	bracket func(*curve) bracket
	below   func(c *curve, value float64) bool // the answer is surely not above value
}

// bracket is two bounds, and which part of the distance between them the blur causes.
type bracket struct{ high, low, blur float64 }

// answer is the worst of all directions. The second nearly always costs less than the
// first: a coarse look settles that.
func (c *composer) answer(q question) bracket {
	worst := c.refine(q, c.directions[0])
	for _, d := range c.directions[1:] {
		if q.epsilon(worst.high) >= c.mostAdding() {
			continue
		}
		t := q.target(d, worst.high)
		t.cells *= 4
		t.widest *= 2
		t.blur *= 4
		if q.below(c.curve(d, t), worst.high) {
			continue
		}
		b := c.refine(q, d)
		worst.high, worst.low = max(worst.high, b.high), max(worst.low, b.low)
	}
	worst.low = min(worst.low, worst.high)
	return worst
}

// refine looks closer and closer until the bracket is narrow.
func (c *composer) refine(q question, d direction) bracket {
	best := bracket{high: q.known}
	enough, most := wanted, passes
	switch {
	case c.coalesced:
		enough, most = wantedOfSchedule, passesOfSchedule
	case len(c.upper) > aFew:
		enough = wantedOfMany
	}
	before := math.Inf(1)
	t := q.target(d, best.high)
	for pass := 1; ; pass++ {
		seen := c.curve(d, t)
		b := q.bracket(seen)
		best.high, best.low = min(best.high, b.high), max(best.low, b.low)
		width := best.high - best.low
		if width <= enough*best.high+q.trifle || pass == most || pass > 2 && width > 0.7*before {
			return best
		}
		room := seen.upper.room() // for narrower cells and less blur
		if room < 1.5 {
			return best
		}
		before = width
		relative := 1.0
		if b.low > 0 && !math.IsInf(b.high, 1) {
			relative = (b.high - b.low) / b.high
		}
		finer := min(1, max(0.01, 1/(room*room), 0.6*aim/(relative*(1-b.blur))))
		next := q.target(d, best.high)
		next.cells, next.widest = t.cells*finer, t.widest*math.Sqrt(finer)
		next.blur = min(1, t.blur*min(16, max(0.01, 0.2*aim/(relative*b.blur))))
		t = next
	}
}

// room is how many times the work of evaluating s may grow.
func (s *spectrum) room() float64 {
	each := 32 // a frequency costs as much beside its points
	for _, e := range s.events {
		each += len(e.mass)
	}
	return mostWork * max(1, float64(len(s.events))/aFew) / (float64(each) * float64(s.band.count))
}

// evaluate fills a band of s: with less blur than asked for where that costs next to
// nothing, with more where it would cost too much.
func (t target) evaluate(s *spectrum) {
	r := newReach(s)
	b := band{step: 2 * math.Pi / t.period}
	for times := 1. / 16; ; times *= 16 {
		b.blur = times * t.blur
		top, rest := r.up(b.step, b.blur, t.enough)
		count := math.Ceil(top / b.step)
		if !(count >= 1 && count < math.Inf(1)) { // for a target that makes no sense
			count, rest = 1, math.Inf(1)
		}
		s.band.count = int(min(count, 1e9))
		if count <= quick || times >= 1 && s.room() >= 1 {
			b.count = s.band.count
			s.evaluate(b, rest)
			return
		}
	}
}
