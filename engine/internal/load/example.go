package load

import "github.com/dptrain/dptrain/engine/data"

// Example is what a statistic may read of one example.
type Example struct {
	Columns [][]float32 // the data set's columns
	Output  []float32   // the network's output; nil if it keeps none
	Loss    float32     // NaN if the network keeps no losses
	Clipped bool        // the contribution of the example's record was scaled down, in some group of parameters
	// Cells are the states of the cells that the example was read from, where the data set knows
	// them: see data.CellStateSet.
	Cells []data.CellState

	Observed [][]float32 // what BatchStatistics reads, two for each layer
}

// Set copies an example.
func (e *Example) Set(from *Example) {
	for k, column := range from.Columns {
		e.Columns[k] = append(e.Columns[k][:0], column...)
	}
	for i, channels := range from.Observed {
		e.Observed[i] = append(e.Observed[i][:0], channels...)
	}
	e.Output, e.Loss, e.Cells = append(e.Output[:0], from.Output...), from.Loss, from.Cells
}
