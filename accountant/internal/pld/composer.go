package pld

import (
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
)

// composer composes events, in one or both directions of adjacency.
type composer struct {
	roundedUp, roundedDown []dpevent.RepeatedEvent // equal unless rounded
	rounded                bool
	lots                   float64
	directions             []lossDirection
	symmetric              bool // lots of a fixed size use the symmetric curve
	jointPairs             map[string]lossPair
}

func newComposer(lots []dpevent.RepeatedEvent, symmetric bool) (*composer, error) {
	points := 0.0
	for _, e := range lots {
		for _, d := range e.DiscreteGaussians {
			if points += 30*d.Sigma + d.Shift; points > maxDiscretePoints {
				return nil, dpevent.InvalidArgument("too many different discrete Gaussians with wide noise: pld sums at most about %v integers in total; use rdp", float64(maxDiscretePoints))
			}
			if d.Shift != math.Round(d.Shift) {
				return nil, dpevent.InvalidArgument("discrete Gaussian of sensitivity %v: pld needs an integer sensitivity; use rdp", d.Shift)
			}
			if d.Sigma > maxDiscreteSigma || d.Shift > maxDiscreteShift {
				return nil, dpevent.InvalidArgument("discrete Gaussian of sensitivity %v and noise %v: pld supports at most %v and %v; use rdp", d.Shift, d.Sigma, float64(maxDiscreteShift), float64(maxDiscreteSigma))
			}
		}
	}
	c := &composer{directions: []lossDirection{removeRecord, addRecord}, symmetric: symmetric, jointPairs: map[string]lossPair{}}
	events := separateUnsampled(lots)
	if err := dpevent.CheckIntegratedEvents(events, func(dpevent.Event) bool { return true }); err != nil {
		return nil, err
	}
	c.roundedUp = dpevent.RoundEvents(events, maxEventsUp, true)
	if !slices.ContainsFunc(events, func(e dpevent.RepeatedEvent) bool { return e.Subsampled() && !c.isSymmetric(e.Event) }) {
		c.directions = c.directions[:1] // every pair is symmetric
	}
	c.roundedDown = c.roundedUp
	if c.rounded = len(events) > maxEventsUp; c.rounded {
		c.roundedDown = dpevent.RoundEvents(events, maxEventsDown, false)
	}
	for _, e := range c.roundedUp {
		c.lots += float64(e.Count)
	}
	return c, nil
}

// separateUnsampled splits unsampled lots with several kinds of noise into their groups, which
// compose as if they were released one after the other. It merges all unsampled Gaussians
// into one.
func separateUnsampled(events []dpevent.RepeatedEvent) []dpevent.RepeatedEvent {
	out := make([]dpevent.RepeatedEvent, 0, len(events))
	index := map[string]int{}
	merge := func(e dpevent.Event, count int) {
		key := e.Key()
		at, seen := index[key]
		if !seen {
			at = len(out)
			index[key] = at
			out = append(out, dpevent.RepeatedEvent{Event: e})
		}
		out[at].Count += count
	}
	squares := 0.0
	for _, e := range events {
		if e.Subsampled() {
			out = append(out, e)
			continue
		}
		squares = dpevent.AddUp(squares, dpevent.MultiplyUp(float64(e.Count), dpevent.MultiplyUp(e.GaussianShift, e.GaussianShift)))
		for _, ratio := range e.LaplaceShifts {
			merge(dpevent.Event{Rate: 1, LaplaceShifts: []float64{ratio}}, e.Count)
		}
		for _, loss := range e.PureLosses {
			merge(dpevent.Event{Rate: 1, PureLosses: []float64{loss}}, e.Count)
		}
		for _, d := range e.DiscreteGaussians {
			merge(dpevent.Event{Rate: 1, DiscreteGaussians: []dpevent.DiscreteGaussian{d}}, e.Count)
		}
	}
	if squares > 0 {
		out = append(out, dpevent.RepeatedEvent{Event: dpevent.Event{Rate: 1, GaussianShift: dpevent.SqrtUp(squares)}, Count: 1})
	}
	return out
}

// components are the components of the dominating pair of an event, with their weights.
func (c *composer) components(e dpevent.Event, d lossDirection, cut, share float64) []component {
	t := e.Truncation
	if t.Probability == 0 {
		return []component{{c.dominatingPair(e, d, cut, share), [2]float64{1, 1}}}
	}
	truncated := gaussianPair(t.Far * e.GaussianShift)
	truncated.rate, truncated.near, truncated.direction = t.Rate, t.Near*e.GaussianShift, d
	if t.Symmetric {
		truncated.direction = bothDirections
	}
	truncated.truncate(cut, share)
	list := []component{{lossPair: c.dominatingPair(e, d, cut, share)}, {lossPair: truncated}}
	list[0].weights[pessimistic], list[1].weights[pessimistic] = t.Weights(true)
	list[0].weights[optimistic], list[1].weights[optimistic] = t.Weights(false)
	return list
}

// dominatingPair is the dominating pair of an event with one group, or with several groups
// sampled together. Losses above cut are cut off. Of the other losses, a probability of at
// most share is truncated.
func (c *composer) dominatingPair(e dpevent.Event, d lossDirection, cut, share float64) lossPair {
	if e.IsPoissonReplaceOne() {
		p := poissonReplaceOnePair(e.Rate, e.GaussianShift/2)
		p.truncate(cut, share)
		return p
	}
	var p lossPair
	switch groups := len(e.LaplaceShifts) + len(e.PureLosses) + len(e.DiscreteGaussians); {
	case groups == 0:
		p = gaussianPair(e.GaussianShift)
	case groups > 1 || e.GaussianShift > 0:
		key := fmt.Sprint(e.Key(), share)
		if _, known := c.jointPairs[key]; !known {
			c.jointPairs[key] = jointPair(e, share)
		}
		p = c.jointPairs[key]
	case len(e.LaplaceShifts) == 1:
		p = laplacePair(e.LaplaceShifts[0])
	case len(e.PureLosses) == 1:
		p = purePair(e.PureLosses[0])
	default:
		p = discreteGaussianPair(e.DiscreteGaussians[0], share)
	}
	p.rate = e.Rate
	p.direction = d
	if c.isSymmetric(e) {
		p.direction = bothDirections
	}
	p.truncate(cut, share)
	return p
}

// isSymmetric reports whether the pair of a sampled event is symmetric.
func (c *composer) isSymmetric(e dpevent.Event) bool {
	return e.Subsampled() && e.ReplaceOne && (c.symmetric || !e.FixedSize)
}

// maxAddingLoss is the largest loss in the direction addRecord: each event has at most
// -log(1-q) if no record is replaced.
func (c *composer) maxAddingLoss() float64 {
	total := 0.0
	for _, e := range c.roundedUp {
		if c.isSymmetric(e.Event) || e.Truncation.Symmetric {
			return math.Inf(1)
		}
		total -= float64(e.Count) * math.Log1p(-max(e.Rate, e.Truncation.Rate))
	}
	return total
}

// cutLoss is the loss of one event above which the loss of the composition exceeds epsilon for
// all losses of the other events.
func (c *composer) cutLoss(epsilon float64) float64 {
	return (epsilon + c.maxAddingLoss()) * (1 + 1e-12) // more than its rounding
}

// truncatedShare is the probability that may be truncated from an event if δ is e^logDelta.
func (c *composer) truncatedShare(logDelta float64) float64 {
	return math.Exp(max(-680, logDelta+logSumTolerance-math.Log(c.lots)))
}

// cumulants returns the cumulants from which a computation is planned. It rounds a long
// schedule to a few events.
func (c *composer) cumulants(d lossDirection, cut, share float64) *compositionCumulants {
	w := &compositionCumulants{}
	for _, e := range dpevent.RoundEvents(c.roundedUp, 12, true) {
		var samples []lossSample
		var cutOff probabilities
		for _, p := range c.components(e.Event, d, cut, share) {
			weight := p.weights[pessimistic]
			for _, at := range p.samples() {
				at.logP += math.Log(weight)
				samples = append(samples, at)
			}
			cutOff.addShare(p.cutOff[pessimistic], weight)
		}
		w.counts = append(w.counts, float64(e.Count))
		w.samples = append(w.samples, samples)
		w.retained.addEvent(cutOff, float64(e.Count))
	}
	return w
}

// bounds composes all events in one direction.
func (c *composer) bounds(d lossDirection, t computation) *divergenceBounds {
	upper, lower := c.discretize(c.roundedUp, d, t)
	if c.rounded {
		_, lower = c.discretize(c.roundedDown, d, t)
	}
	t.evaluate(upper)
	t.evaluate(lower)
	return newDivergenceBounds(upper, lower, t.maxEpsilon)
}

// discretize discretises every event. For a given number of points the total error is least
// if the error of an event's cells is proportional to (count·variance)^(1/3).
func (c *composer) discretize(events []dpevent.RepeatedEvent, d lossDirection, t computation) (upper, lower *characteristicFunction) {
	upper, lower = &characteristicFunction{tilt: t.tilt}, &characteristicFunction{tilt: t.tilt}
	surveys := make([]tiltedMixture, 0, len(events))
	counts := make([]float64, 0, len(events))
	shares := 0.0
	for _, e := range events {
		count := float64(e.Count)
		if !e.Subsampled() && e.GaussianOnly() {
			squares := dpevent.MultiplyUp(count, dpevent.MultiplyUp(e.GaussianShift, e.GaussianShift))
			upper.addGaussian(squares)
			lower.addGaussian(squares * (1 - 1e-12)) // more than all roundings up
			continue
		}
		s := tiltComponents(c.components(e.Event, d, c.cutLoss(t.maxEpsilon), t.truncatedShare), t.tilt, t.truncatedTilted/c.lots)
		surveys, counts = append(surveys, s), append(counts, count)
		for _, p := range s {
			shares += math.Cbrt(count * p.share * p.variance)
		}
	}
	for i := range surveys {
		count := counts[i]
		l := surveys[i].discretize(t.cellVariance/shares, count, t.maxCellWidth)
		upper.add(l.estimates[pessimistic], l.cutOff[pessimistic], count)
		upper.cutOffError = max(upper.cutOffError, l.cutOffError)
		lower.cutOffError = upper.cutOffError
		lower.add(l.estimates[optimistic], l.cutOff[optimistic], count)
		upper.truncated.add(probabilities{count * l.truncated.with, count * l.truncated.without})
	}
	return upper, lower
}
