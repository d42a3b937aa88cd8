package budget

import (
	"math"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/drawing"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// Infinite values, and zeros on a logarithmic axis, are not drawn. A curve on a linear axis starts at 0.
// A curve enters a logarithmic axis at its lower edge.
func TestCurves_Points(t *testing.T) {
	free, spent := Curve{Epsilon: []number.Float{0, 0, 0}}, Curve{Epsilon: []number.Float{0, 2, number.Float(math.Inf(1))}}
	rising := Curve{Epsilon: []number.Float{0.01, 1, 10}}
	linear, logarithmic := drawing.Axis{High: 4, From: 100}, drawing.Axis{Low: 0.1, High: 10, From: 100, Logarithmic: true}
	for _, test := range []struct {
		inEpochs bool
		y        drawing.Axis
		curve    Curve
		want     []drawing.Point
	}{
		{false, linear, spent, []drawing.Point{{X: 0, Y: 100}, {X: 10, Y: 100}, {X: 50, Y: 50}}},
		{true, logarithmic, spent, []drawing.Point{{X: 5, Y: 34.95}}},
		{false, logarithmic, rising, []drawing.Point{{X: 30, Y: 100}, {X: 50, Y: 50}, {X: 90, Y: 0}}},
		{false, logarithmic, free, nil},
	} {
		c := Curves{At: []int{1, 5, 9}, Epochs: []float64{0.1, 0.5, 0.9}, inEpochs: test.inEpochs}
		if got := c.points(test.curve, drawing.Axis{High: 10, To: 100}, test.y); !slices.Equal(got, test.want) {
			t.Errorf("%v, want %v", got, test.want)
		}
	}
	c := Curves{Curves: []Curve{free, spent, {Epsilon: []number.Float{1, 2, 8}}, {Epsilon: []number.Float{3, 3, 4}}}}
	if c.lastRatio() != 2 || c.logarithmicMin() != 4 {
		t.Errorf("the ratio of the last values is %v, and the axis starts at %v", c.lastRatio(), c.logarithmicMin())
	}
}

// The ε axis is logarithmic if one accountant would flatten the others, and has a height if nothing is spent.
func TestCurves_Axes(t *testing.T) {
	for _, test := range []struct {
		last [2]number.Float
		want drawing.Axis
	}{
		{[2]number.Float{2, 4}, drawing.Axis{High: 4.2, From: chartBottom, To: chartTop}},
		{[2]number.Float{2, number.Float(math.Inf(1))}, drawing.Axis{High: 2.1, From: chartBottom, To: chartTop}},
		{[2]number.Float{2, 60}, drawing.Axis{Low: 2, High: 60, From: chartBottom, To: chartTop, Logarithmic: true}},
		{[2]number.Float{0, 0}, drawing.Axis{High: 1, From: chartBottom, To: chartTop}},
	} {
		c := Curves{At: []int{7}, Epochs: []float64{0.5}, inEpochs: true}
		for _, e := range test.last {
			c.Curves = append(c.Curves, Curve{Epsilon: []number.Float{e}})
		}
		if x, y := c.axes(); y != test.want || x.High != 0.5 {
			t.Errorf("%v: %+v and %+v", test.last, x, y)
		}
	}
}

func TestTickLabel(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.0013: "0.0013", 2.5: "2.5", 999: "999", 40000: "40\u202f000", 1e7: "1e+07"} {
		if got := tickLabel(v); got != want {
			t.Errorf("%g: %q, want %q", v, got, want)
		}
	}
}

func TestLineColors_EveryAccountant(t *testing.T) {
	for _, name := range accountant.Names() {
		if _, known := lineColors[name]; !known {
			t.Errorf("%s has no colour", name)
		}
	}
}
