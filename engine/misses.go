package engine

import "math"

// misses adds up by how much answers miss targets.
type misses struct {
	count             int
	squared, absolute float64
	first             []float64 // targets: sums are of what others are above it, lest they cancel
	sum, square       []float64
}

// add counts the targets of some examples, size of each, and what was answered.
func (m *misses) add(targets, answers []float32, size int) {
	if m.first == nil {
		m.sum, m.square = make([]float64, size), make([]float64, size)
		for _, t := range targets[:size] {
			m.first = append(m.first, float64(t))
		}
	}
	for i, t := range targets {
		off := float64(answers[i]) - float64(t)
		m.squared += off * off
		m.absolute += math.Abs(off)
		above := float64(t) - m.first[i%size]
		m.sum[i%size] += above
		m.square[i%size] += above * above
	}
	m.count += len(targets)
}

// errors are in units of which 1 in the numbers added is so many.
func (m *misses) errors(unit float64) RegressionErrors {
	n := float64(m.count)
	var varied float64
	for k, sum := range m.sum {
		varied += m.square[k] - sum*sum*float64(len(m.sum))/n
	}
	e := RegressionErrors{RMSE: math.Sqrt(m.squared/n) * unit, MAE: m.absolute / n * unit, R2: math.NaN()}
	if varied > 0 {
		e.R2 = 1 - m.squared/varied
	}
	return e
}
