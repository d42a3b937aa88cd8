package account

import (
	"testing"
	"testing/synctest"
	"time"
)

// The ε of the meter is never below the spent ε, exact at the end, and mostly cached, however
// long its computation takes.
func TestMeter_UpperBound(t *testing.T) {
	synctest.Test(t, shownIsNeverLess)
}

func shownIsNeverLess(t *testing.T) {
	for _, took := range []time.Duration{0, 2 * time.Millisecond} {
		const lots = 400
		calls := 0
		m := &Meter{Allowed: lots}
		m.Cost = func(n int) (float64, error) {
			calls++
			time.Sleep(took)
			return float64(n), nil
		}
		for left := lots - 1; left >= 0; left-- {
			time.Sleep(100 * time.Microsecond)
			m.countLot()
			if e := m.Current(left); e < float64(m.Done) || e > lots {
				t.Fatalf("%v is shown after %d of %d lots", e, m.Done, lots)
			}
		}
		if m.epsilon != lots || calls > lots/4 {
			t.Errorf("%v is shown in the end, computed %d times", m.epsilon, calls)
		}
	}
}
