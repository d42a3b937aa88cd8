package accountant

import "math"

// counted is an event that happened count times.
type counted struct {
	event
	count int
}

// tally counts equal events together.
type tally struct {
	events []counted
	index  map[eventKey]int // where in events they are
}

func (t *tally) add(e event, count int) {
	if count == 0 || e.gaussian == 0 && e.pureGaussian() {
		return
	}
	key := keyOf(e)
	at, seen := t.index[key]
	if !seen {
		t.index[key] = len(t.events)
		t.events = append(t.events, counted{e, count})
		return
	}
	t.events[at].count += count
	t.events[at].gaussian = max(t.events[at].gaussian, e.gaussian)
}

// eventKey tells events apart: others is "" where there is Gaussian noise alone.
type eventKey struct {
	rate, gaussian float64
	fixed          bool
	others         string
}

// keyOf is the same for shifts that differ by rounding alone, as they do where a bound moves
// and its noise with it: what was planned as one event is accounted as one, with the largest
// shift.
func keyOf(e event) eventKey {
	if !e.pureGaussian() {
		return eventKey{others: e.key()}
	}
	const unsure = 12 // bits
	bits := math.Float64bits(e.gaussian) + 1<<(unsure-1)
	return eventKey{e.rate, math.Float64frombits(bits >> unsure << unsure), e.fixed, ""}
}
