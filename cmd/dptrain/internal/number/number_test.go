package number

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

func TestFloat_MarshalsInfinityAndNaN(t *testing.T) {
	b, err := json.Marshal([]Float{1.5, Float(math.Inf(1)), Float(math.NaN())})
	if err != nil || string(b) != `[1.5,"Infinity",null]` {
		t.Errorf("%s, %v", b, err)
	}
}

// Rounding goes in the requested direction and moves the number by at most one unit of the
// last digit.
func TestRound_KeepsItsDirection(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		x := math.Exp(40 * (rng.Float64() - 0.5))
		for digits := 2; digits <= 6; digits++ {
			for _, direction := range []int{1, -1} {
				got, err := strconv.ParseFloat(Round(x, direction, digits), 64)
				if err != nil || float64(direction)*(got-x) < 0 || !(math.Abs(got-x) <= 1.01*x*math.Pow(10, 1-float64(digits))) {
					t.Fatalf("%v with %d digits in direction %d: %v, %v", x, digits, direction, got, err)
				}
			}
		}
	}
}

func TestFormats(t *testing.T) {
	for got, want := range map[string]string{
		RoundUp(0) + RoundUp(1): "01",
		RoundUp(999999.5):       "1e+06",
		RoundUp(math.Inf(1)):    "∞",
		Short(1e-5):             "1e-5",
		Plural(1, "lot"):        "1 lot",
		Plural(1200, "lot"):     "1200 lots",
		Thousands(1234567):      "1\u202f234\u202f567",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestTwoDigits_Rounds(t *testing.T) {
	for x, want := range map[float64]float64{0: 0, 0.012345: 0.012, 1.0499: 1, 95.6: 96, 12345.6: 12000, 999: 1000} {
		if got := TwoDigits(x); got != want {
			t.Errorf("%v becomes %v, want %v", x, got, want)
		}
	}
}

func TestMultiples(t *testing.T) {
	for _, high := range []float64{0.0013, 0.7, 1, 2.4, 9.99, 10, 123, 40000, 1e7} {
		for _, low := range []float64{0, high / 3} {
			values := Multiples(low, high, 6)
			if len(values) < 2 || len(values) > 6 || values[0] < low*(1-1e-9) || values[len(values)-1] > high*(1+1e-9) {
				t.Errorf("%v to %v: %v", low, high, values)
			}
		}
	}
	if Multiples(1, 1, 6) != nil || Multiples(0, math.NaN(), 6) != nil {
		t.Error("an empty range has multiples")
	}
}
