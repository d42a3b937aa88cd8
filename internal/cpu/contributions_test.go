package cpu

import (
	"math"
	"testing"

	"github.com/dptrain/dptrain/internal/plan"
)

// A built gradient is rounded in its own memory. If the integers exceed the record's budget or
// their range, the second rounding begins with the gradient and not with integers.
func TestChooseBuilt_SecondRoundingBuildsAgain(t *testing.T) {
	const size = 2*builtBlock + 5
	for name, largest := range map[string]float32{"budget": 1, "range": 1e30} {
		gradient := make([]float32, size)
		norm := 0.0
		for i := range gradient {
			gradient[i] = float32(i%7) - 3
			norm += float64(gradient[i]) * float64(gradient[i])
		}
		steps := 1.5 * plan.Bound / math.Sqrt(norm)
		if largest > 1 {
			steps = plan.Bound / float64(largest)
			gradient[size-1] = largest
		}
		c := &contributions{Contributions: &plan.Contributions{Seeds: []uint64{7}, Steps: []float64{steps}, Group: []int{0}}}
		c.begin()
		p := &part{contributions: c, factors: []float32{1}}
		if largest > 1 {
			p.factors[0] = 1.5
		}
		row, built := make([]float32, size), 0
		ints := asInts(row)
		how := p.chooseBuilt(0, ints, row, func(row []float32, _ int, _ *worker) {
			built++
			copy(row, gradient)
		}, nil)
		if built != 2 || how.scale == 0 || c.reduced.Load() != 1 || c.omitted.Load() != 0 {
			t.Fatalf("%s: built %d times, scale %v, %d reduced, %d omitted", name, built, how.scale, c.reduced.Load(), c.omitted.Load())
		}
		var squares int64
		for i, v := range ints {
			if want := float64(gradient[i]) * how.scale; math.Abs(float64(v)-want) > 1+1e-6*math.Abs(want) {
				t.Fatalf("%s: element %d is %d, want %v rounded", name, i, v, want)
			}
			squares += int64(v) * int64(v)
		}
		if rest := int64(plan.Bound*plan.Bound) - squares; *p.budget(0) != rest {
			t.Errorf("%s: the rest of the budget is %d, want %d", name, *p.budget(0), rest)
		}
	}
}
