package noise

import (
	"math"
	"testing"
)

func TestAllocation_ComposesToMultiplier(t *testing.T) {
	for _, groups := range [][]GroupSize{
		{{1, 1}},
		{{1, 10}, {1, 10}},
		{{0.1, 5}, {3, 1_000_000}, {1e-3, 77}, {250, 3}},
	} {
		for _, z := range []float64{0.3, 1.1, 40} {
			for name, allocate := range map[string]func(float64, []GroupSize) ([]float64, error){
				"proportional": Proportional, "dimension-adjusted": DimensionAdjusted,
				"by share": func(z float64, groups []GroupSize) ([]float64, error) {
					return ByShare(z, groups, []float64{3, 0.1, 40, 7}[:len(groups)])
				},
			} {
				sigmas, err := allocate(z, groups)
				if err != nil {
					t.Fatal(err)
				}
				sum := 0.0
				for i, g := range groups {
					sum += (g.Sensitivity / sigmas[i]) * (g.Sensitivity / sigmas[i])
				}
				if got := 1 / math.Sqrt(sum); !(math.Abs(got-z) <= 1e-14*z) {
					t.Errorf("%s %v: composes to %v, want %v", name, groups, got, z)
				}
			}
		}
	}
}

// The values are computed by hand from the two formulas.
func TestAllocation_KnownValues(t *testing.T) {
	groups := []GroupSize{{2, 1}, {3, 3}}
	check := func(name string, got []float64, err error, want ...float64) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if !(math.Abs(got[i]-want[i]) <= 1e-14*want[i]) {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
		}
	}
	p, err := Proportional(0.5, groups)
	check("proportional", p, err, math.Sqrt2, 1.5*math.Sqrt2)
	d, err := DimensionAdjusted(0.5, groups)
	check("dimension-adjusted", d, err, 2, math.Sqrt(3))
	w, err := ByShare(0.5, groups, []float64{1, 8})
	check("by share", w, err, 3, 0.5*math.Sqrt(9.0/8)*3)
}

func TestAllocation_RejectsInvalidInput(t *testing.T) {
	good := []GroupSize{{1, 1}, {1, 1}}
	nan, inf := math.NaN(), math.Inf(1)
	for name, err := range map[string]error{
		"no groups":       second(Proportional(1, nil)),
		"z = 0":           second(Proportional(0, good)),
		"z < 0":           second(Proportional(-1, good)),
		"z NaN":           second(Proportional(nan, good)),
		"z infinite":      second(DimensionAdjusted(inf, good)),
		"sensitivity 0":   second(Proportional(1, []GroupSize{{0, 1}})),
		"sensitivity NaN": second(Proportional(1, []GroupSize{{nan, 1}})),
		"sensitivity inf": second(DimensionAdjusted(1, []GroupSize{{inf, 1}})),
		"dimension 0":     second(DimensionAdjusted(1, []GroupSize{{1, 0}})),
		"overflow":        second(Proportional(1e300, []GroupSize{{1e300, 1}})),
		"underflow":       second(Proportional(1e-300, []GroupSize{{1e-300, 1}})),
		"share 0":         second(ByShare(1, good, []float64{1, 0})),
		"one share":       second(ByShare(1, good, []float64{1})),
		"share infinite":  second(ByShare(1, good, []float64{1, inf})),
		"sensitivity < 0": second(Proportional(1, []GroupSize{{-1, 1}})),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func second[T any](_ T, err error) error { return err }
