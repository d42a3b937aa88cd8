package report

import (
	"math"
	"testing"
)

func TestRoundNumbers(t *testing.T) {
	for _, high := range []float64{0.0013, 0.7, 1, 2.4, 9.99, 10, 123, 40000, 1e7} {
		for _, low := range []float64{0, high / 3} {
			values := RoundNumbers(low, high, 6)
			if len(values) < 2 || len(values) > 6 || values[0] < low*(1-1e-9) || values[len(values)-1] > high*(1+1e-9) {
				t.Errorf("%v to %v: %v", low, high, values)
			}
		}
	}
	if RoundNumbers(1, 1, 6) != nil || RoundNumbers(0, math.NaN(), 6) != nil {
		t.Error("an empty range has round numbers")
	}
}

func TestPowers(t *testing.T) {
	for _, r := range [][2]float64{{0.5, 300}, {0.9, 2.2}, {1e-3, 1e9}, {1, 10}, {0.2, 1e40}} {
		values := powers(r[0], r[1])
		if len(values) < 2 || len(values) > 8 {
			t.Errorf("%v: %v", r, values)
		}
		for _, v := range values {
			if v < r[0]*(1-1e-8) || v > r[1]*(1+1e-8) {
				t.Errorf("%v: %v lies outside", r, v)
			}
		}
	}
}

// The ends of an axis are the ends of the picture, and between them order is kept.
func TestAxis(t *testing.T) {
	for _, a := range []axis{across(0, 7), upwards(0.2, 0.9), {low: 0.1, high: 1000, from: 0, to: 100, logarithmic: true}} {
		if a.at(a.low) != a.from || a.at(a.high) != a.to {
			t.Errorf("%+v: ends at %v and %v", a, a.at(a.low), a.at(a.high))
		}
		middle := a.at(a.low + (a.high-a.low)/3)
		if (middle-a.from)*(a.to-middle) <= 0 {
			t.Errorf("%+v: %v lies outside", a, middle)
		}
		if n := len(a.ticks(numeral)); a.logarithmic != (n == 5) || n > 8 {
			t.Errorf("%+v: %d ticks", a, n)
		}
	}
}
