package drawing

import (
	"math"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// Axis maps values to coordinates.
type Axis struct {
	Low, High   float64 // values
	From, To    float64 // coordinates
	Logarithmic bool
}

// Position returns the coordinate of a value, to a hundredth.
func (a Axis) Position(v float64) float64 {
	low, high := a.Low, a.High
	if a.Logarithmic {
		v, low, high = math.Log(v), math.Log(low), math.Log(high)
	}
	return math.Round(100*(a.From+(v-low)/(high-low)*(a.To-a.From))) / 100
}

// Ticks returns the values of tick marks: about limit round numbers, or powers of ten on a logarithmic axis.
func (a Axis) Ticks(limit int) []float64 {
	if a.Logarithmic {
		return logarithmicTicks(a.Low, a.High)
	}
	return number.Multiples(a.Low, a.High, limit)
}

// logarithmicTicks returns powers of ten from low to high. It skips some if there are many,
// and adds 2 and 5 times each power if there are few.
func logarithmicTicks(low, high float64) []float64 {
	from, to := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	factors, each := []float64{1}, math.Ceil((to-from)/6)
	if math.Log10(high/low) < 1.5 {
		factors = []float64{1, 2, 5}
	}
	var values []float64
	for e := from; e <= to; e += each {
		for _, f := range factors {
			if v := f * math.Pow(10, e); v >= low*(1-1e-9) && v <= high*(1+1e-9) {
				values = append(values, v)
			}
		}
	}
	return values
}
