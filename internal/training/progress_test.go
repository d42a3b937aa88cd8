package training

import "testing"

// On a clock with a resolution of 15 ms, a run that has no lots left can take no time. Its
// speed must still be a number that run.json can represent.
func TestExamplesPerSecond_WithoutElapsedTime(t *testing.T) {
	p := &Progress{examplesPerLot: 20, firstLot: 3}
	for _, lot := range []int{3, 5} {
		if v := p.examplesPerSecond(lot, 0); v != 0 {
			t.Errorf("lot %d: %v examples/s", lot, v)
		}
	}
}
