package pld

import (
	"testing"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
)

// A curve is at least the lower bound of Delta at every ε, and close to the upper bound where δ is
// not small.
func TestCurve_AgreesWithDelta(t *testing.T) {
	event := func(rate, shift float64, count int) dpevent.RepeatedEvent {
		return dpevent.RepeatedEvent{Event: dpevent.Event{Rate: rate, GaussianShift: shift}, Count: count}
	}
	laplace := dpevent.RepeatedEvent{Event: dpevent.Event{Rate: 0.1, LaplaceShifts: []float64{0.5}}, Count: 20}
	fixed := dpevent.RepeatedEvent{Event: dpevent.Event{Rate: 0.1, ReplaceOne: true, FixedSize: true, GaussianShift: 1}, Count: 20}
	for name, events := range map[string][]dpevent.RepeatedEvent{
		"small": {event(0.01, 0.05, 10)}, "usual": {event(0.01, 1/1.1, 1000)}, "large": {event(0.02, 2, 2000)}, "one lot": {event(0.3, 1.4, 1)},
		"schedule": {event(0.1, 0.2, 50), event(0.1, 0.4, 50)}, "unsampled": {event(1, 0.3, 4)}, "laplace": {laplace}, "fixed size": {fixed},
	} {
		c, err := NewCurve(events, true)
		if err != nil {
			t.Fatal(name, err)
		}
		for _, epsilon := range []float64{0, 1e-3, 0.03, 0.1, 0.4, 1, 2, 4, 8} {
			upper, lower, err := Delta(events, true, epsilon)
			if err != nil {
				t.Fatal(name, err)
			}
			if got := c.Delta(epsilon); got < lower || got > upper*1.005+1e-5 {
				t.Errorf("%s: δ ≤ %v at ε = %v; Delta gives %v to %v", name, got, epsilon, lower, upper)
			}
		}
	}
}
