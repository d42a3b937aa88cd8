package engine

import "testing"

func TestDefaultDelta_PowersOfTen(t *testing.T) {
	for records, want := range map[int]float64{1: 0.1, 9: 0.1, 10: 0.01, 11: 0.01, 50000: 1e-5, 60000: 1e-5, 99999: 1e-5, 100000: 1e-6, 1 << 30: 1e-10} {
		if got := DefaultDelta(records); got != want {
			t.Errorf("%d records: %v, want %v", records, got, want)
		}
	}
}
