package score

import "math"

// Regression accumulates errors for RMSE, MAE and R².
type Regression struct {
	Count             int // of targets
	squared, absolute float64
	first             []float64 // the first targets: sums are of differences from them, to avoid cancellation
	sum, square       []float64
}

// Add adds the targets of examples, size numbers each, and their predictions.
func (m *Regression) Add(targets, predictions []float32, size int) {
	if m.first == nil {
		m.sum, m.square = make([]float64, size), make([]float64, size)
		for _, t := range targets[:size] {
			m.first = append(m.first, float64(t))
		}
	}
	for i, t := range targets {
		residual := float64(predictions[i]) - float64(t)
		m.squared += residual * residual
		m.absolute += math.Abs(residual)
		difference := float64(t) - m.first[i%size]
		m.sum[i%size] += difference
		m.square[i%size] += difference * difference
	}
	m.Count += len(targets)
}

// Errors returns the errors of the targets; unit is the size of 1 in the added numbers. R² is NaN where
// the targets do not vary.
func (m *Regression) Errors(unit float64) (rmse, mae, r2 float64) {
	n := float64(m.Count)
	var variation float64
	for k, sum := range m.sum {
		variation += m.square[k] - sum*sum*float64(len(m.sum))/n
	}
	r2 = math.NaN()
	if variation > 0 {
		r2 = 1 - m.squared/variation
	}
	return math.Sqrt(m.squared/n) * unit, m.absolute / n * unit, r2
}
