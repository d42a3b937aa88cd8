package settings

import (
	"math"
	"testing"
)

func TestLotSchedule_Values(t *testing.T) {
	for text, want := range map[string]map[int]float64{
		"linear:4->1@6":      {0: 4, 2: 3, 5: 1.5, 6: 1, 1000: 1},
		"linear:1->3@1":      {0: 1, 1: 3, 2: 3},
		"step:4,2@100,1@200": {0: 4, 99: 4, 100: 2, 199: 2, 200: 1, 5000: 1},
	} {
		s, err := parseLotSchedule(text)
		if err != nil || s.isConstant() {
			t.Fatalf("%s: %+v, %v", text, s, err)
		}
		if s.value != want[0] {
			t.Errorf("%s starts at %v, want %v", text, s.value, want[0])
		}
		for lot, value := range want {
			if got := s.at(lot); math.Abs(got-value) > 1e-12 {
				t.Errorf("%s: %v in lot %d, want %v", text, got, lot, value)
			}
		}
	}
	if s, err := parseLotSchedule("0.5"); err != nil || !s.isConstant() || s.value != 0.5 {
		t.Errorf("a constant: %+v, %v", s, err)
	}
}
