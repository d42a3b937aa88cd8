package pld

import (
	"math"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
)

// The probability that an event truncates is usually negligible. If it is large, the upper
// bound is still valid, and higher by that amount.
func TestBounds_TruncationIsCharged(t *testing.T) {
	for _, e := range []dpevent.Event{
		{Rate: .6, GaussianShift: 1}, {Rate: .6, GaussianShift: 2}, {Rate: .3, GaussianShift: 1, ReplaceOne: true},
		{Rate: .6, DiscreteGaussians: []dpevent.DiscreteGaussian{{Shift: 1, Sigma: 1}}}, {Rate: .7, DiscreteGaussians: []dpevent.DiscreteGaussian{{Shift: 2, Sigma: 2}}}, {Rate: .6, DiscreteGaussians: []dpevent.DiscreteGaussian{{Shift: 2, Sigma: 2}}, ReplaceOne: true},
		{Rate: .6, GaussianShift: 1, LaplaceShifts: []float64{1}},
	} {
		for _, count := range []int{1, 3} {
			c, err := newComposer([]dpevent.RepeatedEvent{{Event: e, Count: count}}, false)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range c.directions {
				const epsilon, much = .5, 1e-3
				look := func(share, threshold float64) *divergenceBounds {
					w := c.cumulants(d, math.Inf(1), share)
					at := c.computation(w, w.tiltForEpsilon(epsilon), epsilon, -5, 1)
					at.maxEpsilon, at.truncatedShare, at.truncatedTilted = math.Inf(1), share, threshold
					return c.bounds(d, at)
				}
				careful, careless, rash := look(1e-30, 1e-30), look(much, 1e-30), look(1e-30, 10*much)
				least := careful.lowerDelta(epsilon)
				if got := careless.upperDelta(epsilon); !(got >= least && got <= careful.upperDelta(epsilon)+1.5*much*float64(count)) {
					t.Errorf("%d of %+v from direction %d: δ = %v, want at least %v and not far above", count, e, d, got, least)
				}
				if got := careless.upperDelta(epsilon) - careless.pessimistic.truncated.with; !(got < least) {
					t.Errorf("%d of %+v from direction %d: what is left out is not seen: the test is not conclusive", count, e, d)
				}
				if got := rash.upperDelta(epsilon); !(got >= least && rash.lowerDelta(epsilon) <= careful.upperDelta(epsilon)) {
					t.Errorf("%d of %+v from direction %d without faint points: δ is in [%v, %v], careful in [%v, %v]", count, e, d, rash.lowerDelta(epsilon), got, least, careful.upperDelta(epsilon))
				}
				if got, _ := rash.pessimistic.delta(epsilon); !(got < least) {
					t.Errorf("%d of %+v from direction %d: faint points are not missed: the test is not conclusive", count, e, d)
				}
			}
		}
	}
}

// Each possible error of a sum widens both bounds by at least its size.
func TestBounds_ErrorsWidenInterval(t *testing.T) {
	const epsilon = .5
	c, err := newComposer([]dpevent.RepeatedEvent{{Event: dpevent.Event{Rate: .6, GaussianShift: 1}, Count: 3}}, false)
	if err != nil {
		t.Fatal(err)
	}
	w := c.cumulants(removeRecord, math.Inf(1), 1e-30)
	at := c.computation(w, w.tiltForEpsilon(epsilon), epsilon, -2, 1)
	at.maxEpsilon, at.truncatedShare = epsilon, 1e-30
	look := func(before, after func(*characteristicFunction)) *divergenceBounds {
		upper, lower := c.discretize(c.roundedUp, removeRecord, at)
		for _, s := range []*characteristicFunction{upper, lower} {
			before(s)
			at.evaluate(s)
			after(s)
		}
		return newDivergenceBounds(upper, lower, at.maxEpsilon)
	}
	none := func(*characteristicFunction) {}
	plain := look(none, none)
	high, low := plain.upperDelta(epsilon), plain.lowerDelta(epsilon)
	scale := math.Exp(plain.pessimistic.logScale - plain.pessimistic.tilt*epsilon) // of what is summed
	for _, doubt := range []struct {
		name          string
		before, after func(*characteristicFunction)
		up, down      float64 // by at least so much
	}{
		{"rough", func(s *characteristicFunction) { s.logRelativeError += .01 }, none, .01 * high, .0099 * low},
		{"slack", func(s *characteristicFunction) { s.missingMass += .01 }, none, .0099 * kernelPeak(plain.pessimistic.tilt) * scale, .029 * kernelPeak(plain.pessimistic.tilt) * scale},
		{"rest", none, func(s *characteristicFunction) { s.tailBound += .01 }, .0099 * scale, .029 * scale}, // of both that the lower one is made of
		{"lost", func(s *characteristicFunction) { s.truncated.with += .01 }, none, .0099, 0},
		{"a frequency", none, func(s *characteristicFunction) { s.roundingError[0] += .01 }, 1e-5, 1e-5},
		{"what was cut off may lack Q", func(s *characteristicFunction) { s.truncated.without += 1e-5 }, none, .99e-5 * math.Exp(epsilon), 0},
	} {
		seen := look(doubt.before, doubt.after)
		if up, down := seen.upperDelta(epsilon)-high, low-seen.lowerDelta(epsilon); !(up >= doubt.up && down >= doubt.down) {
			t.Errorf("%s: the upper bound is higher by %v, want %v; the lower one lower by %v, want %v", doubt.name, up, doubt.up, down, doubt.down)
		}
	}
	off, drift := 0.0, 0.0 // by how much the sum of the frequencies may round
	for j, re := range plain.pessimistic.re {
		height := math.Hypot(re, plain.pessimistic.im[j])
		off += roundingUnit * height * (16 + float64(plain.pessimistic.frequencyBand.count))
		drift += roundingUnit * height * 4 * plain.pessimistic.step * float64(j)
	}
	if !(plain.pessimistic.constantError > off && plain.pessimistic.epsilonError >= drift*(1-1e-9)) {
		t.Errorf("the error bound of a sum is %v + %v·ε, but rounding alone gives %v + %v·ε", plain.pessimistic.constantError, plain.pessimistic.epsilonError, off, drift)
	}
	if !(slices.Max(plain.pessimistic.roundingError) > 0 && plain.pessimistic.logRelativeError > 0) {
		t.Error("rounding is not counted")
	}
	all := &characteristicFunction{tilt: 1}
	all.add(lossEstimate{loss: []float64{0}, mass: []float64{1}, missingMass: .1, relativeError: .2}, probabilities{.3, .1}, 3)
	if !(all.missingMass >= .3 && all.logRelativeError >= .6 && all.retained == logRetained{3 * math.Log1p(-.3), 3 * math.Log1p(-.1)}) {
		t.Errorf("of three events: %+v", all)
	}
	if got := plain.upperDelta(at.maxEpsilon * 1.01); got != 1 {
		t.Errorf("above maxEpsilon the upper bound of δ is %v", got)
	}
}

// The bound for omitted frequencies is at least their true contribution.
func TestBandLimiter_BoundsHighFrequencies(t *testing.T) {
	const epsilon = .5
	c, err := newComposer([]dpevent.RepeatedEvent{{Event: dpevent.Event{Rate: .6, GaussianShift: 1}, Count: 3}, {Event: dpevent.Event{Rate: .2, LaplaceShifts: []float64{1}}, Count: 2}, {Event: dpevent.Event{Rate: 1, GaussianShift: .2}, Count: 1}}, false)
	if err != nil {
		t.Fatal(err)
	}
	w := c.cumulants(removeRecord, math.Inf(1), 1e-30)
	at := c.computation(w, w.tiltForEpsilon(epsilon), epsilon, -2, 1)
	at.maxEpsilon = epsilon
	s, _ := c.discretize(c.roundedUp, removeRecord, at)
	r := newBandLimiter(s)
	least := 0.0
	for i, e := range s.events {
		for from := .1; from < 50; from *= 1.1 {
			for k := range r.modulusBounds[i] {
				bound := r.modulusBounds[i][k].logBound(from, from*frequencyRatio)
				least = min(least, bound)
				for _, part := range []float64{0, .5, 1} {
					frequency := from * math.Pow(frequencyRatio, part)
					re, im := 0.0, 0.0
					for i, m := range e.mass {
						re, im = re+m*math.Cos(frequency*e.loss[i]), im+m*math.Sin(frequency*e.loss[i])
					}
					if size := e.count * math.Log(math.Hypot(re, im)); !(size <= bound+1e-9) {
						t.Fatalf("event %d, from %v, at %v: %v, bounded by %v", i, from, frequency, size, bound)
					}
				}
			}
		}
	}
	if !(least < -.2) {
		t.Errorf("no bound is below %v: the test is not conclusive", least)
	}
	for _, period := range []float64{3, 30} {
		for _, blur := range []float64{1e-3, 3e-2, 1} {
			for _, enough := range []float64{1e-6, 1e-3, .1} {
				step := 2 * math.Pi / period
				top, rest := r.bandLimit(step, blur, enough)
				s.evaluate(frequencyBand{step, int(50 / math.Sqrt(blur) / step), blur}, 0)
				sum := 0.0
				for j, grow := range s.logModulus {
					if frequency := step * float64(j); frequency > top {
						size, _ := kernelTransform(s.tilt, frequency)
						sum += step / math.Pi * size * math.Exp(grow-blur*frequency*frequency/2)
					}
				}
				if !(sum <= rest && rest <= enough) {
					t.Errorf("period %v, blur %v: above %v frequencies add %v, bounded by %v, allowed %v", period, blur, top, sum, rest, enough)
				}
			}
		}
	}
}
