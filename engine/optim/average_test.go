package optim

import (
	"math"
	"testing"
)

// The average is the weighted mean of its doc comment. Its initial value has no effect.
func TestAverage_IsWeightedMean(t *testing.T) {
	for _, decay := range []float64{0, 0.5, 0.9, 0.999, 0.99999} {
		a := Average{Decay: decay}
		if err := a.Check(); err != nil {
			t.Fatal(err)
		}
		average := []float32{float32(math.NaN()), 7}
		weights := make([]float32, 2)
		var sum [2]float64
		var total float64
		for step := 1; step <= 200; step++ {
			total = decay*total + 1
			for i := range weights {
				weights[i] = float32(gradientAt(step, i) + 3)
				sum[i] = decay*sum[i] + float64(weights[i])
			}
			if err := a.Apply(step, average, weights); err != nil {
				t.Fatal(err)
			}
			for i := range average {
				if got, want := float64(average[i]), sum[i]/total; !(math.Abs(got-want) <= 5e-6) {
					t.Fatalf("decay %v, step %d: average %v, want %v", decay, step, got, want)
				}
			}
		}
	}
}

func TestAverage_Invalid(t *testing.T) {
	for _, decay := range []float64{-0.1, 1, 2, math.NaN()} {
		checkError(t, "decay", Average{Decay: decay}.Check(), "use a number")
	}
	row := make([]float32, 3)
	checkError(t, "step 0", Average{0.9}.Apply(0, row, row), "numbered from 1")
	checkError(t, "short", Average{0.9}.Apply(1, row, row[:2]), "2 weights")
	if n := testing.AllocsPerRun(10, func() { _ = Average{0.9}.Apply(2, row, row) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
