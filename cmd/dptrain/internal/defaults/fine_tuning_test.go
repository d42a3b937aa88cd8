package defaults

import "testing"

// Lots have at most 1,024 records, each record takes part once on average, and the rate falls with the root of the lots.
func TestForFineTuning(t *testing.T) {
	for _, c := range []struct {
		records, lot, steps int
		rate                float64
		fixed               Fixed
		tuned               Tuned
		clip                float64
	}{
		{records: 6920, lot: 1024, steps: 60, rate: 0.0099, clip: 0.5},
		{records: 6920, lot: 1024, steps: 60, rate: 0.00099, tuned: Tuned{Whole: true}, clip: 0.5},
		{records: 239, lot: 239, steps: 60, rate: 0.0099, tuned: Tuned{Next: true}, clip: 0.1},
		{records: 100, lot: 100, steps: 60, rate: 0.0099, clip: 0.5},
		{records: 400000, lot: 1024, steps: 390, rate: 0.0039, clip: 0.5},
		{records: 6920, lot: 1024, steps: 15, rate: 0.02, fixed: Fixed{Steps: 15}, clip: 0.5},
		{records: 6920, lot: 512, steps: 119, rate: 0.0071, fixed: Fixed{Lot: 512}, clip: 0.5},
	} {
		s := ForFineTuning(Facts{Records: c.records, Classes: 2, Epsilon: 8, Delta: 1e-5}, c.fixed, c.tuned)
		if s.Lot != c.lot || s.Steps != c.steps || s.LearningRate != c.rate || s.Clip != c.clip || s.Optimizer != "adam" || s.Average != 0 {
			t.Errorf("%+v: %+v", c, s)
		}
	}
}
