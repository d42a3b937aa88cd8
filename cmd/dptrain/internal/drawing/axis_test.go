package drawing

import "testing"

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
	for _, a := range []Axis{{0, 7, 46, 466, false}, {0.2, 0.9, 216, 26, false}, {0.1, 1000, 0, 100, true}} {
		if a.Position(a.Low) != a.From || a.Position(a.High) != a.To {
			t.Errorf("%+v: ends at %v and %v", a, a.Position(a.Low), a.Position(a.High))
		}
		middle := a.Position(a.Low + (a.High-a.Low)/3)
		if (middle-a.From)*(a.To-middle) <= 0 {
			t.Errorf("%+v: %v is out of range", a, middle)
		}
		if n := len(a.Ticks(6)); a.Logarithmic != (n == 5) || n > 8 {
			t.Errorf("%+v: %d ticks", a, n)
		}
	}
}
