package dpevent

import "math"

// RepeatedEvent is an event that happened count times.
type RepeatedEvent struct {
	Event
	Count int
}

// eventCounter counts equal events together.
type eventCounter struct {
	events    []RepeatedEvent
	positions map[roundedEventKey]int // where in events they are
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

// roundedEventKey tells events apart: others is "" where there is Gaussian noise alone.
type roundedEventKey struct {
	rate, gaussian float64
	fixed          bool
	exact          string
}

// roundedKey is the same for shifts that differ by rounding alone, as they do where a bound moves
// and its noise with it: what was planned as one event is accounted as one, with the largest
// shift.
func roundedKey(e Event) roundedEventKey {
	if !e.GaussianOnly() {
		return roundedEventKey{exact: e.Key()}
	}
	const unsure = 12 // bits
	bits := math.Float64bits(e.GaussianShift) + 1<<(unsure-1)
	return roundedEventKey{e.Rate, math.Float64frombits(bits >> unsure << unsure), e.FixedSize, ""}
}
