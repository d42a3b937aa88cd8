package budget

import (
	"strings"
	"testing"
)

// usual are settings of the published run abadi-mnist (Abadi et al. 2016, section 5.2).
var usual = Settings{Delta: 1e-6, Records: 60000, Lot: 600, Steps: 4000, Clip: 4, NoiseMultiplier: 4, Parameters: 71010, StepLength: 0.4}

// Published settings get no advice; each setting outside its range gets one sentence.
func TestAdvice_OneSentenceForEachSetting(t *testing.T) {
	if advice := Advice(usual); len(advice) > 0 {
		t.Errorf("a published run gets the advice %q", advice)
	}
	for want, change := range map[string]func(*Settings){
		"δ = 1e-5 is above 5.547e-6":      func(s *Settings) { s.Delta = 1e-5 },
		"a clip bound of 0.01 is outside": func(s *Settings) { s.Clip = 0.01 },
		"a clip bound of 50 is outside":   func(s *Settings) { s.Clip = 50 },
		"lots of 200 records are below the root of the number of records, 245, so a pass has 300 lots": func(s *Settings) { s.Lot = 200 },
		"99 lots are few":                                 func(s *Settings) { s.Steps = 99 },
		"all lots together are 0.99 of a pass":            func(s *Settings) { s.Lot, s.Steps = 297, 200 },
		"times as long as a mean gradient":                func(s *Settings) { s.NoiseMultiplier = 50 },
		"a noise multiplier of 0.4 is below 0.5":          func(s *Settings) { s.NoiseMultiplier = 0.4 },
		"over 1 - momentum, is 40, outside 0.01 to 10":    func(s *Settings) { s.StepLength = 40 },
		"over 1 - momentum, is 0.004, outside 0.01 to 10": func(s *Settings) { s.StepLength = 0.004 },
	} {
		s := usual
		change(&s)
		if advice := Advice(s); len(advice) != 1 || !strings.Contains(advice[0], want) {
			t.Errorf("%+v gets the advice %q, want %q", s, advice, want)
		}
	}
	for name, change := range map[string]func(*Settings){
		"another kind of bound": func(s *Settings) { s.Clip = 0 },
		"a δ with a warning":    func(s *Settings) { s.Delta = 0.1 },
		"other noise":           func(s *Settings) { s.NoiseMultiplier = 0 },
		"few records":           func(s *Settings) { s.Records, s.Lot, s.Delta, s.NoiseMultiplier = 100, 20, 1e-4, 1 },
	} {
		s := usual
		change(&s)
		if advice := Advice(s); len(advice) > 0 {
			t.Errorf("%s gets the advice %q", name, advice)
		}
	}
}
