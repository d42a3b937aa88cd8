package pld

import (
	"math"
	"testing"
	"time"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
	"github.com/dptrain/dptrain/accountant/internal/gaussian"
)

// The time to separate different unsampled lots is proportional to their number.
func TestSeparateUnsampled_ManyKindsInTime(t *testing.T) {
	events := make([]dpevent.RepeatedEvent, 100_000)
	for i := range events {
		events[i] = dpevent.RepeatedEvent{Event: dpevent.Event{Rate: 1, LaplaceShifts: []float64{1 / float64(i+1)}}, Count: 1}
	}
	least := time.Duration(math.MaxInt64)
	for try := 0; try < 3 && least > 20*time.Second; try++ { // another process may use the processor
		began := time.Now()
		if n := len(separateUnsampled(append(events, events...))); n != len(events) {
			t.Errorf("%d kinds", n)
		}
		least = min(least, time.Since(began))
	}
	if least > 20*time.Second {
		t.Errorf("it took %v, three times", least)
	}
}

// The test discretises and composes n Gaussians and compares the bounds with the closed form.
func TestDivergenceBounds_ComposedGaussians(t *testing.T) {
	const total, tilt = 1.7, 1.3
	for _, steps := range []float64{1, 7, 64, 1000, 123457, 1e7} {
		p := gaussianPair(total / math.Sqrt(steps))
		p.truncate(math.Inf(1), 1e-20/steps)
		laid := tiltPair(p, tilt, 1e-12/steps)
		l := laid.discretize(2e-4*laid.variance, 1)
		look := computation{tilt: tilt, period: 30, blurVariance: 1e-4, sumTolerance: 1e-9, maxEpsilon: 10}
		var sides [2]*characteristicFunction
		for side := range sides {
			sides[side] = &characteristicFunction{tilt: tilt}
			sides[side].add(l.estimates[side], l.cutOff[side], steps)
			look.evaluate(sides[side])
		}
		c := newDivergenceBounds(sides[pessimistic], sides[optimistic], look.maxEpsilon)
		for _, epsilon := range []float64{.5, 2, 4, 7} {
			want := gaussian.Delta(total, epsilon)
			high, low := c.upperDelta(epsilon), c.lowerDelta(epsilon)
			if high < want || low > want || high > 1.002*low {
				t.Errorf("%v Gaussians at %v: %v in [%v, %v]", steps, epsilon, want, low, high)
			}
		}
	}
}
