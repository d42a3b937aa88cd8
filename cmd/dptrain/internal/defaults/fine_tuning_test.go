package defaults

import "testing"

// Lots have at most 1,024 texts, each text takes part once on average, and the rate falls with the root of the lots.
func TestForFineTuning(t *testing.T) {
	for _, c := range []struct {
		records, lot, steps int
		rate                float64
		fixed               Fixed
		whole               bool
	}{
		{records: 6920, lot: 1024, steps: 60, rate: 0.0099},
		{records: 6920, lot: 1024, steps: 60, rate: 0.00099, whole: true},
		{records: 100, lot: 100, steps: 60, rate: 0.0099},
		{records: 400000, lot: 1024, steps: 390, rate: 0.0039},
		{records: 6920, lot: 1024, steps: 15, rate: 0.02, fixed: Fixed{Steps: 15}},
		{records: 6920, lot: 512, steps: 119, rate: 0.0071, fixed: Fixed{Lot: 512}},
	} {
		s := ForFineTuning(Facts{Records: c.records, Classes: 2, Epsilon: 8, Delta: 1e-5}, c.fixed, c.whole)
		if s.Lot != c.lot || s.Steps != c.steps || s.LearningRate != c.rate || s.Clip != 0.5 || s.Optimizer != "adam" || s.Average != 0 {
			t.Errorf("%+v: %+v", c, s)
		}
	}
}
