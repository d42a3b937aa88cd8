package accountant

import (
	"fmt"
	"math"
	"slices"
)

// composer holds what is composed, and from which directions it is looked at.
type composer struct {
	upper, lower []counted // the same, unless a schedule was coalesced
	coalesced    bool
	steps        float64
	directions   []direction
	proven       bool // lots of a fixed size by the symmetric curve
	joints       map[string]pair
}

func newComposer(lots []counted, symmetric bool) (*composer, error) {
	points := 0.0
	for _, e := range lots {
		for _, d := range e.lattice {
			if points += 30*d.sigma + d.shift; points > mostPoints {
				return nil, InvalidArgument("discrete Gaussians of so many kinds and such wide noise: pld sums at most about %v integers in all; use rdp", float64(mostPoints))
			}
			if d.shift != math.Round(d.shift) {
				return nil, InvalidArgument("discrete Gaussian of sensitivity %v: pld needs a whole number of lattice steps; use rdp", d.shift)
			}
			if d.sigma > mostLattice || d.shift > mostMoved {
				return nil, InvalidArgument("discrete Gaussian of sensitivity %v and noise %v: pld sums at most %v and %v; use rdp", d.shift, d.sigma, float64(mostMoved), float64(mostLattice))
			}
		}
	}
	c := &composer{directions: []direction{removing, adding}, proven: symmetric, joints: map[string]pair{}}
	events := separate(lots)
	if err := checkKinds(events, func(event) bool { return true }); err != nil {
		return nil, err
	}
	c.upper = coalesce(events, mostEvents, true)
	if !slices.ContainsFunc(events, func(e counted) bool { return e.sampled() && !c.mirrored(e.event) }) {
		c.directions = c.directions[:1] // every pair is its own mirror image
	}
	c.lower = c.upper
	if c.coalesced = len(events) > mostEvents; c.coalesced {
		c.lower = coalesce(events, fewEvents, false)
	}
	for _, e := range c.upper {
		c.steps += float64(e.count)
	}
	return c, nil
}

// separate takes unsampled lots of several kinds of noise apart into their groups,
// which compose as if released one after the other, and joins all unsampled
// Gaussians into one.
func separate(events []counted) []counted {
	out := make([]counted, 0, len(events))
	index := map[string]int{}
	merge := func(e event, count int) {
		key := e.key()
		at, seen := index[key]
		if !seen {
			at = len(out)
			index[key] = at
			out = append(out, counted{event: e})
		}
		out[at].count += count
	}
	squares := 0.0
	for _, e := range events {
		if e.sampled() {
			out = append(out, e)
			continue
		}
		squares += float64(e.count) * e.gaussian * e.gaussian
		for _, ratio := range e.laplace {
			merge(event{rate: 1, laplace: []float64{ratio}}, e.count)
		}
		for _, d := range e.lattice {
			merge(event{rate: 1, lattice: []lattice{d}}, e.count)
		}
	}
	if squares > 0 {
		out = append(out, counted{event{rate: 1, gaussian: math.Sqrt(squares)}, 1})
	}
	return out
}

// pairOf is the pair of an event that is one group, or several sampled together,
// but for losses above cut and for others of chance share at most.
func (c *composer) pairOf(e event, d direction, cut, share float64) pair {
	if e.IsPoissonReplaceOne() {
		p := opposedPair(e.rate, e.gaussian/2)
		p.trim(cut, share)
		return p
	}
	var p pair
	switch groups := len(e.laplace) + len(e.lattice); {
	case groups == 0:
		p = gaussianPair(e.gaussian)
	case groups > 1 || e.gaussian > 0:
		key := fmt.Sprint(e.key(), share)
		if _, known := c.joints[key]; !known {
			c.joints[key] = jointPair(e, share)
		}
		p = c.joints[key]
	case len(e.laplace) == 1:
		p = laplacePair(e.laplace[0])
	default:
		p = latticePair(e.lattice[0], share)
	}
	p.rate = e.rate
	p.direction = d
	if c.mirrored(e) {
		p.direction = replacing
	}
	p.trim(cut, share)
	return p
}

// mirrored tells that the pair of an event is its own mirror image though sampled.
func (c *composer) mirrored(e event) bool {
	return e.sampled() && e.replace && (c.proven || !e.fixed)
}

// mostAdding is the largest loss seen from data without the record: that of an event is
// at most -log(1-q), if no record is replaced.
func (c *composer) mostAdding() float64 {
	most := 0.0
	for _, e := range c.upper {
		if c.mirrored(e.event) {
			return math.Inf(1)
		}
		most -= float64(e.count) * math.Log1p(-e.rate)
	}
	return most
}

// cut is the loss of one event above which that of the whole is more than epsilon, whatever
// the losses of the others.
func (c *composer) cut(epsilon float64) float64 { return epsilon + c.mostAdding() }

// share is the chance that may be left out of an event where δ is e^logDelta.
func (c *composer) share(logDelta float64) float64 {
	return math.Exp(max(-680, logDelta+faint-math.Log(c.steps)))
}

// whole is what a target is chosen from: of a long schedule a few events.
func (c *composer) whole(d direction, cut, share float64) *whole {
	w := &whole{}
	for _, e := range coalesce(c.upper, 12, true) {
		p := c.pairOf(e.event, d, cut, share)
		w.pairs = append(w.pairs, p)
		w.counts = append(w.counts, float64(e.count))
		w.lists = append(w.lists, p.points())
		w.stays.times(p.beyond[up], float64(e.count))
	}
	return w
}

// curve composes all events seen from one direction.
func (c *composer) curve(d direction, t target) *curve {
	upper, lower := c.compose(c.upper, d, t)
	if c.coalesced {
		_, lower = c.compose(c.lower, d, t)
	}
	t.evaluate(upper)
	t.evaluate(lower)
	return newCurve(upper, lower, t.limit)
}

// compose lays every event on points. For a number of points the error is least where
// an event's cells may be wrong by its count times its variance to the power 1/3.
func (c *composer) compose(events []counted, d direction, t target) (upper, lower *spectrum) {
	upper, lower = &spectrum{tilt: t.tilt}, &spectrum{tilt: t.tilt}
	surveys := make([]survey, 0, len(events))
	counts := make([]float64, 0, len(events))
	shares := 0.0
	for _, e := range events {
		count := float64(e.count)
		if !e.sampled() && e.pureGaussian() {
			upper.addGaussian(count * e.gaussian * e.gaussian)
			lower.addGaussian(count * e.gaussian * e.gaussian)
			continue
		}
		s := newSurvey(c.pairOf(e.event, d, c.cut(t.limit), t.share), t.tilt, t.threshold/c.steps)
		surveys, counts = append(surveys, s), append(counts, count)
		shares += math.Cbrt(count * s.variance)
	}
	for i := range surveys {
		s, count := &surveys[i], counts[i]
		square := t.cells / shares * math.Cbrt(count*s.variance) / count
		l := s.discretize(min(square, coarsest*s.variance), t.widest)
		upper.add(l.twins[up], l.beyond[up], count)
		lower.add(l.twins[low], l.beyond[low], count)
		upper.lost.add(portion{count * l.lost.with, count * l.lost.without})
	}
	return upper, lower
}
