package report

import (
	"testing"
)

func TestLogarithmicTicks(t *testing.T) {
	for _, r := range [][2]float64{{0.5, 300}, {0.9, 2.2}, {1e-3, 1e9}, {1, 10}, {0.2, 1e40}} {
		values := logarithmicTicks(r[0], r[1])
		if len(values) < 2 || len(values) > 8 {
			t.Errorf("%v: %v", r, values)
		}
		for _, v := range values {
			if v < r[0]*(1-1e-8) || v > r[1]*(1+1e-8) {
				t.Errorf("%v: %v is out of range", r, v)
			}
		}
	}
}

// An axis maps its limits to the ends of the canvas and keeps the order between them.
func TestAxis(t *testing.T) {
	for _, a := range []axis{horizontalAxis(0, 7), verticalAxis(0.2, 0.9), {low: 0.1, high: 1000, from: 0, to: 100, logarithmic: true}} {
		if a.position(a.low) != a.from || a.position(a.high) != a.to {
			t.Errorf("%+v: ends at %v and %v", a, a.position(a.low), a.position(a.high))
		}
		middle := a.position(a.low + (a.high-a.low)/3)
		if (middle-a.from)*(a.to-middle) <= 0 {
			t.Errorf("%+v: %v is out of range", a, middle)
		}
		if n := len(a.ticks(tickLabel)); a.logarithmic != (n == 5) || n > 8 {
			t.Errorf("%+v: %d ticks", a, n)
		}
	}
}
