package rdp

import "github.com/dptrain/dptrain/accountant/internal/dpevent"

// Rényi divergences of high orders are large where lots are truncated, however rarely. There is
// a second bound. A truncated lot is at most as revealing as one that publishes the record if it
// is in the lot, and nothing otherwise. So all lots together cost δ = Σ τ·c more than lots that
// are not truncated (dpevent.Truncation).

// epsilonWithTruncation returns the smaller of two bounds of ε at delta by a method.
func epsilonWithTruncation(events []dpevent.RepeatedEvent, delta float64,
	method func([]dpevent.RepeatedEvent, float64) (epsilon, order float64)) (epsilon, order float64) {
	epsilon, order = method(events, delta)
	if !dpevent.AnyTruncated(events) {
		return epsilon, order
	}
	plain, published := publishTruncated(events)
	if published < delta {
		if other, at := method(plain, delta-published); other < epsilon {
			return other, at
		}
	}
	return epsilon, order
}

// deltaWithTruncation returns the smaller of two bounds of δ at epsilon by a method.
func deltaWithTruncation(events []dpevent.RepeatedEvent, epsilon float64,
	method func([]dpevent.RepeatedEvent, float64) (delta, order float64)) (delta, order float64) {
	delta, order = method(events, epsilon)
	if !dpevent.AnyTruncated(events) {
		return delta, order
	}
	plain, published := publishTruncated(events)
	if other, at := method(plain, epsilon); other+published < delta {
		return other + published, at
	}
	return delta, order
}

// publishTruncated returns the events without truncation and the δ of truncated lots that
// publish the record.
func publishTruncated(events []dpevent.RepeatedEvent) (plain []dpevent.RepeatedEvent, delta float64) {
	plain = make([]dpevent.RepeatedEvent, len(events))
	for i, e := range events {
		_, truncated := e.Truncation.Weights(true)
		delta += float64(e.Count) * truncated * e.Truncation.Rate
		e.Truncation = dpevent.Truncation{}
		plain[i] = e
	}
	return plain, delta * (1 + dpevent.RoundingUnit*float64(8+2*len(events)))
}
