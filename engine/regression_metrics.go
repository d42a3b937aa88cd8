package engine

import "math"

// regressionMetrics accumulates errors for RMSE, MAE and R².
type regressionMetrics struct {
	count             int
	squared, absolute float64
	first             []float64 // the first targets: sums are of differences from them, to avoid cancellation
	sum, square       []float64
}

// add adds the targets of examples, size numbers each, and their predictions.
func (m *regressionMetrics) add(targets, predictions []float32, size int) {
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
	m.count += len(targets)
}

// errors returns the errors; unit is the size of 1 in the added numbers.
func (m *regressionMetrics) errors(unit float64) RegressionErrors {
	n := float64(m.count)
	var variation float64
	for k, sum := range m.sum {
		variation += m.square[k] - sum*sum*float64(len(m.sum))/n
	}
	e := RegressionErrors{RMSE: math.Sqrt(m.squared/n) * unit, MAE: m.absolute / n * unit, R2: math.NaN()}
	if variation > 0 {
		e.R2 = 1 - m.squared/variation
	}
	return e
}
