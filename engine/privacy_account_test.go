package engine

import (
	"testing"
	"testing/synctest"
	"time"
)

// The ε of the meter is never below the spent ε, exact at the end, and mostly cached, however
// long its computation takes.
func TestEpsilonMeter_UpperBound(t *testing.T) {
	synctest.Test(t, shownIsNeverLess)
}

func shownIsNeverLess(t *testing.T) {
	for _, took := range []time.Duration{0, 2 * time.Millisecond} {
		const lots = 400
		calls := 0
		m := &epsilonMeter{allowed: lots}
		m.cost = func(n int) (float64, error) {
			calls++
			time.Sleep(took)
			return float64(n), nil
		}
		for left := lots - 1; left >= 0; left-- {
			time.Sleep(100 * time.Microsecond)
			m.countLot()
			if e := m.current(left); e < float64(m.done) || e > lots {
				t.Fatalf("%v is shown after %d of %d lots", e, m.done, lots)
			}
		}
		if m.epsilon != lots || calls > lots/4 {
			t.Errorf("%v is shown in the end, computed %d times", m.epsilon, calls)
		}
	}
}
