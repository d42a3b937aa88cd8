package main

import "testing"

// A clock that saw no time pass, as one of 15 ms may not where a run has nothing left to
// do, gives a speed that run.json can hold.
func TestSpeedWithoutTime(t *testing.T) {
	w := &watch{each: 20, first: 3}
	for _, lot := range []int{3, 5} {
		if v := w.speed(lot, 0); v != 0 {
			t.Errorf("lot %d: %v examples/s", lot, v)
		}
	}
}
