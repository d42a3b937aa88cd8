package dpevent

import "math"

// RepeatedEvent is Count equal events.
type RepeatedEvent struct {
	Event
	Count int
}

// eventCounter merges equal events.
type eventCounter struct {
	events    []RepeatedEvent
	positions map[roundedEventKey]int // index of each key in events
}

func (t *eventCounter) add(e Event, count int) {
	if count == 0 || e.GaussianShift == 0 && e.GaussianOnly() {
		return
	}
	key := roundedKey(e)
	at, seen := t.positions[key]
	if !seen {
		t.positions[key] = len(t.events)
		t.events = append(t.events, RepeatedEvent{e, count})
		return
	}
	t.events[at].Count += count
	t.events[at].GaussianShift = max(t.events[at].GaussianShift, e.GaussianShift)
}

// roundedEventKey identifies events that are merged. If all noise is Gaussian, exact is "".
type roundedEventKey struct {
	rate, gaussian float64
	fixed          bool
	truncation     Truncation
	exact          string
}

// roundedKey is equal for events whose Gaussian shifts differ by float64 rounding only, as
// when a clipping bound changes and its noise in proportion. Events planned as one are so
// accounted as one, with the largest shift.
func roundedKey(e Event) roundedEventKey {
	if !e.GaussianOnly() {
		return roundedEventKey{exact: e.Key()}
	}
	const ignoredBits = 12
	bits := math.Float64bits(e.GaussianShift) + 1<<(ignoredBits-1)
	return roundedEventKey{e.Rate, math.Float64frombits(bits >> ignoredBits << ignoredBits), e.FixedSize, e.Truncation, ""}
}
