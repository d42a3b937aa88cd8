package simulation

import (
	"math"
	"slices"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/report"
)

// compareAll compares each line at its best learning rate, and then all lines at each learning rate.
func compareAll(r *report.Simulation) []report.SimulationClaim {
	all := compare(r.Best(), 0)
	for _, rate := range r.LearningRates {
		all = append(all, compare(slices.DeleteFunc(slices.Clone(r.Rows),
			func(row report.SimulationRow) bool { return row.LearningRate != rate }), rate)...)
	}
	return all
}

// compare compares draw and discard with batches of k² and of k clients, for each k above 1 and each ε
// where batches on both sides were simulated. The accuracy of a batch between two simulated ones is
// interpolated over its logarithm. A single instance is a batch of one client.
func compare(rows []report.SimulationRow, rate float64) (all []report.SimulationClaim) {
	for _, row := range rows {
		if row.Method != report.DrawAndDiscard || row.Instances == 1 {
			continue
		}
		k := float64(row.Instances)
		square, ok := batchAccuracy(rows, k*k, row.Epsilon)
		same, sameOK := batchAccuracy(rows, k, row.Epsilon)
		if ok && sameOK {
			all = append(all, report.SimulationClaim{
				Instances: row.Instances, Epsilon: row.Epsilon, LearningRate: rate, Accuracy: row.Final, AtSquare: square, AtSame: same,
				SquareHolds: math.Abs(row.Final-square) <= report.ClaimMargin, SameHolds: math.Abs(row.Final-same) <= report.ClaimMargin,
			})
		}
	}
	return all
}

// batchAccuracy interpolates the final accuracy of a server batch.
func batchAccuracy(rows []report.SimulationRow, batch float64, epsilon number.Float) (float64, bool) {
	below, above := math.Inf(-1), math.Inf(1) // logarithms of batches
	var low, high float64
	for _, row := range rows {
		size := float64(row.Batch)
		if row.Method == report.DrawAndDiscard && row.Instances == 1 {
			size = 1
		}
		if size == 0 || row.Epsilon != epsilon {
			continue
		}
		if at := math.Log(size); at <= math.Log(batch) && at > below {
			below, low = at, row.Final
		}
		if at := math.Log(size); at >= math.Log(batch) && at < above {
			above, high = at, row.Final
		}
	}
	switch {
	case math.IsInf(below, -1) || math.IsInf(above, 1):
		return 0, false
	case above == below:
		return low, true
	}
	return low + (high-low)*(math.Log(batch)-below)/(above-below), true
}
