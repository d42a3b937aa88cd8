package defaults

import (
	"fmt"
	"math"
	"testing"

	"github.com/dptrain/dptrain/accountant"
)

// μ is the largest for which the Gaussian mechanism satisfies (ε, δ).
func TestPrivacyParameter(t *testing.T) {
	for _, epsilon := range []float64{0.01, 0.5, 1, 2, 8, 100} {
		for _, delta := range []float64{1e-3, 1e-5, 1e-9} {
			mu := PrivacyParameter(epsilon, delta)
			if got := accountant.GaussianEpsilon(mu, delta); math.Abs(got-epsilon) > 1e-6*epsilon {
				t.Errorf("ε %v, δ %v: μ = %v costs %v", epsilon, delta, mu, got)
			}
		}
	}
}

// The settings of real tables, as docs/defaults.md lists them.
func TestForTable(t *testing.T) {
	for _, c := range []struct {
		name  string
		facts Facts
		want  Settings
	}{
		{"wine", Facts{Records: 142, Columns: 13, Weights: 14, Classes: 3, Epsilon: 1, Delta: 1e-5}, Settings{0, 142, 400, 0.1, "adam", 0.039, 0.95, true, Reasons{}}},
		{"breast cancer", Facts{Records: 455, Columns: 30, Weights: 31, Classes: 2, Epsilon: 1, Delta: 1e-5}, Settings{0, 455, 400, 0.17, "adam", 0.039, 0.95, false, Reasons{}}},
		{"adult", Facts{Records: 26048, Columns: 14, Weights: 117, Classes: 2, Epsilon: 1, Delta: 1e-5}, Settings{64, 2048, 400, 2, "adam", 0.02, 0.95, false, Reasons{}}},
		{"70 records", Facts{Records: 70, Columns: 4, Weights: 5, Classes: 2, Epsilon: 8, Delta: 1e-5}, Settings{0, 70, 400, 0.6, "adam", 0.028, 0.95, true, Reasons{}}},
		{"30 words", Facts{Records: 1200, Columns: 4, Weights: 35, Classes: 2, Epsilon: 1, Delta: 1e-5}, Settings{0, 1200, 400, 1.6, "adam", 0.11, 0.95, false, Reasons{}}},
		{"five classes", Facts{Records: 2400, Columns: 8, Weights: 9, Classes: 5, Epsilon: 1, Delta: 1e-5}, Settings{64, 600, 400, 2, "adam", 0.02, 0.95, false, Reasons{}}},
		{"ten classes of 64 columns", Facts{Records: 1437, Columns: 64, Weights: 65, Classes: 10, Epsilon: 8, Delta: 1e-5}, Settings{0, 1437, 400, 2.5, "adam", 0.014, 0.95, true, Reasons{}}},
		{"2,000 records, ρ = 106", Facts{Records: 2000, Columns: 12, Weights: 13, Classes: 2, Epsilon: 1, Delta: 1e-5}, Settings{64, 500, 400, 2, "adam", 0.02, 0.95, false, Reasons{}}},
		{"1,450 records, ρ = 77", Facts{Records: 1450, Columns: 12, Weights: 13, Classes: 2, Epsilon: 1, Delta: 1e-5}, Settings{0, 1450, 400, 2.5, "adam", 0.069, 0.95, true, Reasons{}}},
		{"25 columns, ρ = 100", Facts{Records: 2660, Columns: 25, Weights: 26, Classes: 2, Epsilon: 1, Delta: 1e-5}, Settings{0, 2660, 400, 2.5, "adam", 0.049, 0.95, true, Reasons{}}},
		{"480 records", Facts{Records: 480, Columns: 12, Weights: 13, Classes: 2, Epsilon: 8, Delta: 1e-5}, Settings{64, 256, 400, 2, "adam", 0.02, 0.95, false, Reasons{}}},
		{"399 records", Facts{Records: 399, Columns: 6, Weights: 7, Classes: 2, Epsilon: 8, Delta: 1e-5}, Settings{0, 399, 400, 1.9, "adam", 0.094, 0.95, true, Reasons{}}},
		{"999 records with a number", Facts{Records: 999, Columns: 6, Weights: 7, Epsilon: 8, Delta: 1e-5}, Settings{0, 999, 400, 1.3, "adam", 0.038, 0.98, false, Reasons{}}},
		{"diabetes", Facts{Records: 353, Columns: 10, Weights: 11, Epsilon: 1, Delta: 1e-5}, Settings{0, 353, 400, 0.47, "adam", 0.0086, 0.98, false, Reasons{}}},
	} {
		if got := values(ForTable(c.facts, Fixed{})); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// Every table has settings that can be trained, from 1 record to ten millions, 1 to 5,000 columns and
// 2 to 100 classes, for every budget.
func TestForTable_AllSizes(t *testing.T) {
	for _, n := range []int{1, 50, 1000, 1e5, 1e7} {
		for _, columns := range []int{1, 2, 100, 5000} {
			for _, classes := range []int{0, 2, 100} {
				for _, epsilon := range []float64{1e-3, 1, 8, 1000} {
					f := Facts{Records: n, Columns: columns, Weights: columns + 1, Classes: classes, Epsilon: epsilon, Delta: 1e-9}
					for _, fixed := range []Fixed{{}, {Linear: true}, {Hidden: true}, {Epochs: 0.01}, {Epochs: 3}, {Steps: 1}, {Lot: 1}, {LargestLot: max(1, n/8)}} {
						s := ForTable(f, fixed)
						ok := s.Lot >= 1 && s.Lot <= n && s.Steps >= 1 && s.Clip > 0 && s.Clip < 100 && s.LearningRate > 0 && s.LearningRate < 5
						if fixed.LargestLot > 0 {
							ok = ok && s.Lot <= fixed.LargestLot
						}
						if !ok {
							t.Errorf("%+v, %+v: %+v", f, fixed, s)
						}
					}
				}
			}
		}
	}
}

// The settings of a bag of words.
func TestForBag(t *testing.T) {
	for records, want := range map[int]Settings{
		1:    {0, 1, 200, 1, "adam", 0.071, 0.95, false, Reasons{}},
		6919: {0, 1729, 200, 1, "adam", 0.071, 0.95, false, Reasons{}},
		1e6:  {0, 8192, 200, 1, "adam", 0.071, 0.95, false, Reasons{}},
	} {
		if got := values(ForBag(records, Fixed{})); got != want {
			t.Errorf("%d records: %+v, want %+v", records, got, want)
		}
	}
}

// The settings of a transformer: more records have a larger rate, up to a limit.
func TestForTransformer(t *testing.T) {
	for _, c := range []struct {
		facts Facts
		fixed Fixed
		want  Settings
	}{
		{Facts{Records: 1, Classes: 2, Epsilon: 1, Delta: 1e-5}, Fixed{}, Settings{0, 1, 150, 1, "momentum", 2.7e-5, 0, false, Reasons{}}},
		{Facts{Records: 2000, Classes: 2, Epsilon: 2, Delta: 1e-5}, Fixed{}, Settings{0, 500, 150, 1, "momentum", 0.1, 0, false, Reasons{}}},
		{Facts{Records: 20000, Classes: 2, Epsilon: 2, Delta: 1e-6}, Fixed{}, Settings{0, 500, 150, 1, "momentum", 0.5, 0, false, Reasons{}}},
		{Facts{Records: 20000, Classes: 2, Epsilon: 2, Delta: 1e-6}, Fixed{Steps: 600}, Settings{0, 500, 600, 1, "momentum", 0.22, 0, false, Reasons{}}},
		{Facts{Records: 1e6, Classes: 2, Epsilon: 2, Delta: 1e-7}, Fixed{}, Settings{0, 1024, 150, 1, "momentum", 0.5, 0, false, Reasons{}}},
	} {
		if got := values(ForTransformer(c.facts, c.fixed)); got != c.want {
			t.Errorf("%+v, %+v: %+v, want %+v", c.facts, c.fixed, got, c.want)
		}
	}
}

// The settings of the head of a checkpoint: lots of all records, up to a number of texts in all lots.
func TestForHead(t *testing.T) {
	for records, want := range map[int]Settings{
		1:    {0, 1, 200, 0.5, "adam", 0.014, 0.95, false, Reasons{}},
		6920: {0, 6920, 200, 0.5, "adam", 0.014, 0.95, false, Reasons{}},
		1e6:  {0, 10000, 200, 0.5, "adam", 0.014, 0.95, false, Reasons{}},
	} {
		if got := values(ForHead(Facts{Records: records, Classes: 2, Epsilon: 1, Delta: 1e-5}, Fixed{})); got != want {
			t.Errorf("%d records: %+v, want %+v", records, got, want)
		}
	}
}

// The settings of a linear bag of words: reach grows with ρ, and lots with it.
func TestForBow(t *testing.T) {
	for _, c := range []struct {
		facts Facts
		fixed Fixed
		want  Settings
	}{
		{Facts{Records: 1, Classes: 2, Epsilon: 1, Delta: 1e-5}, Fixed{}, Settings{0, 1, 100, 0.71, "momentum", 0.00015, 0, false, Reasons{}}},
		{Facts{Records: 6920, Classes: 2, Epsilon: 2, Delta: 1e-5}, Fixed{}, Settings{0, 6920, 100, 0.71, "momentum", 1.9, 0, false, Reasons{}}},
		{Facts{Records: 6920, Classes: 2, Epsilon: 2, Delta: 1e-5}, Fixed{Steps: 200}, Settings{0, 6920, 200, 0.71, "momentum", 0.95, 0, false, Reasons{}}},
		{Facts{Records: 6920, Classes: 2, Epsilon: 8, Delta: 1e-5}, Fixed{}, Settings{0, 6920, 106, 0.71, "momentum", 6, 0, false, Reasons{}}},
		{Facts{Records: 6920, Classes: 20, Epsilon: 2, Delta: 1e-5}, Fixed{}, Settings{0, 6920, 100, 0.97, "momentum", 0.44, 0, false, Reasons{}}},
		{Facts{Records: 6920, Epsilon: 2, Delta: 1e-5}, Fixed{}, Settings{0, 6920, 100, 1, "momentum", 0.42, 0, false, Reasons{}}},
		{Facts{Records: 1e6, Epsilon: 2, Delta: 1e-7}, Fixed{}, Settings{0, 1 << 16, 400, 1, "momentum", 1.5, 0, false, Reasons{}}},
		{Facts{Records: 1e6, Classes: 2, Epsilon: 2, Delta: 1e-7}, Fixed{}, Settings{0, 1 << 16, 400, 0.71, "momentum", 6, 0, false, Reasons{}}},
	} {
		if got := values(ForBow(c.facts, c.fixed)); got != c.want {
			t.Errorf("%+v, %+v: %+v, want %+v", c.facts, c.fixed, got, c.want)
		}
	}
}

// What the user gives stays, and the number of passes over the data stays where the user gives it.
func TestForTable_FitsAroundWhatIsGiven(t *testing.T) {
	f := Facts{Records: 1000, Columns: 10, Weights: 11, Classes: 2, Epsilon: 1, Delta: 1e-5}
	for fixed, want := range map[Fixed]string{
		{}:                     "1000 400",
		{Lot: 100}:             "100 4000",
		{Lot: 1}:               "1 4000",
		{Steps: 7}:             "1000 7",
		{Epochs: 30}:           "75 400",
		{Epochs: 800}:          "1000 800",
		{Epochs: 0.1}:          "1 100",
		{Lot: 100, Epochs: 30}: "100 300",
		{Lot: 100, Steps: 30}:  "100 30",
	} {
		s := ForTable(f, fixed)
		if got := fmt.Sprint(s.Lot, s.Steps); got != want {
			t.Errorf("%+v: lot and steps %s, want %s", fixed, got, want)
		}
		if scale := s.LearningRate * math.Sqrt(float64(s.Steps)); math.Abs(scale-1.5) > 0.08 {
			t.Errorf("%+v: S = %v depends on the number of lots", fixed, scale)
		}
	}
}

// values returns the settings without their reasons.
func values(s Settings) Settings {
	s.Why = Reasons{}
	return s
}

// Every value that a rule chooses has a reason.
func TestReasons(t *testing.T) {
	f := Facts{Records: 1000, Columns: 10, Weights: 11, Classes: 2, Epsilon: 1, Delta: 1e-5}
	number, many := f, f
	number.Classes, many.Records = 0, 100000
	pictures := func(f Facts) Settings {
		s, _ := ForPictures(f, Fixed{})
		return s
	}
	for name, s := range map[string]Settings{
		"table": ForTable(f, Fixed{}), "number": ForTable(number, Fixed{}), "hidden layer": ForTable(many, Fixed{}), "few records": ForTable(f, Fixed{Steps: 10}),
		"bow": ForBow(f, Fixed{}), "bow, number": ForBow(number, Fixed{}), "bag": ForBag(1000, Fixed{}), "transformer": ForTransformer(f, Fixed{}), "pictures": pictures(f), "many pictures": pictures(many),
	} {
		w := s.Why
		missing := w.Lot == "" || w.Steps == "" || w.Clip == "" || w.Optimizer == "" || w.LearningRate == ""
		if missing || (s.Average > 0) != (w.Average != "") {
			t.Errorf("%s: %+v", name, s)
		}
		if s.Lot == 1000 && w.Lot != "all records" {
			t.Errorf("%s: lots of 1000 of 1000 records: %s", name, w.Lot)
		}
	}
}

// A clip bound that the user gives changes the rate of an update whose steps grow with it, and no other.
func TestFixedClip(t *testing.T) {
	f := Facts{Records: 20000, Columns: 10, Weights: 11, Classes: 2, Epsilon: 1, Delta: 1e-5}
	for name, rates := range map[string][2]float64{
		"bow":         {ForBow(f, Fixed{Clip: 1}).LearningRate, ForBow(f, Fixed{Clip: 2}).LearningRate * 2},
		"pictures":    {first(ForPictures(f, Fixed{})), 10 * first(ForPictures(f, Fixed{Clip: 1}))},
		"transformer": {ForTransformer(f, Fixed{}).LearningRate, ForTransformer(f, Fixed{Clip: 0.1}).LearningRate / 10},
		"table":       {ForTable(f, Fixed{}).LearningRate, ForTable(f, Fixed{Clip: 1}).LearningRate},
	} {
		if math.Abs(rates[0]/rates[1]-1) > 0.06 {
			t.Errorf("%s: %v", name, rates)
		}
	}
}

// first returns the rate of the settings for pictures.
func first(s Settings, linear bool) float64 { return s.LearningRate }
