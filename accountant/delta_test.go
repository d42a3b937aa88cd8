package accountant

import "testing"

func TestDefaultDelta_PowersOfTen(t *testing.T) {
	for records, want := range map[int]float64{1: 0.1, 2: 0.01, 10: 0.01, 11: 0.001, 93: 1e-3, 100: 1e-3, 800: 1e-4, 1000: 1e-4, 50000: 1e-6, 60000: 1e-6, 100000: 1e-6, 100001: 1e-7, 1 << 30: 1e-11} {
		if got := DefaultDelta(records); got != want {
			t.Errorf("%d records: %v, want %v", records, got, want)
		}
	}
}
