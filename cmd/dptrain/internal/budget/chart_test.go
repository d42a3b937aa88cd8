package budget

import (
	"math"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"gonum.org/v1/plot/plotter"
)

// Infinite values, and zeros on a logarithmic axis, are not drawn. A curve on a linear axis
// starts at 0.
func TestCurves_Points(t *testing.T) {
	free, spent := Curve{Epsilon: []number.Float{0, 0, 0}}, Curve{Epsilon: []number.Float{0, 2, number.Float(math.Inf(1))}}
	for _, test := range []struct {
		inEpochs, logarithmic bool
		want                  plotter.XYs
	}{
		{false, false, plotter.XYs{{X: 0, Y: 0}, {X: 1, Y: 0}, {X: 5, Y: 2}}},
		{true, true, plotter.XYs{{X: 0.5, Y: 2}}},
	} {
		c := Curves{At: []int{1, 5, 9}, Epochs: []float64{0.1, 0.5, 0.9}, inEpochs: test.inEpochs}
		if got := c.points(spent, test.logarithmic); !slices.Equal(got, test.want) {
			t.Errorf("%v, want %v", got, test.want)
		}
	}
	c := Curves{Curves: []Curve{free, spent, {Epsilon: []number.Float{1, 2, 8}}, {Epsilon: []number.Float{3, 3, 4}}}}
	if c.lastRatio() != 2 || c.logarithmicMin() != 4 {
		t.Errorf("the ratio of the last values is %v, and the axis starts at %v", c.lastRatio(), c.logarithmicMin())
	}
}

func TestTicks(t *testing.T) {
	for _, high := range []float64{0.0013, 0.7, 1, 2.4, 9.99, 10, 123, 40000, 1e7} {
		marks := ticks{}.Ticks(0, high)
		if len(marks) < 3 || len(marks) > 9 || marks[0].Label != "0" {
			t.Errorf("up to %g: %v", high, marks)
		}
	}
}

func TestLineColors_EveryAccountant(t *testing.T) {
	for _, name := range accountant.Names() {
		if lineColors[name] == nil {
			t.Errorf("%s has no colour", name)
		}
	}
}
