package simulation

import (
	"math"

	"github.com/dptrain/dptrain/internal/number"
	"github.com/dptrain/dptrain/internal/report"
)

// compare evaluates the claim k ≈ √batch of Pihur et al. 2018, and k ≈ batch, for each k above 1 and each ε, where batches on both sides of k² were
// simulated. The accuracy of a batch between two simulated ones is interpolated over its logarithm. A
// single instance is a batch of one client.
func compare(rows []report.SimulationRow) (all []report.SimulationClaim) {
	for _, row := range rows {
		if row.Method != report.DrawAndDiscard || row.Instances == 1 {
			continue
		}
		k := float64(row.Instances)
		square, ok := batchAccuracy(rows, k*k, row.Epsilon)
		same, sameOK := batchAccuracy(rows, k, row.Epsilon)
		if ok && sameOK {
			all = append(all, report.SimulationClaim{
				Instances: row.Instances, Epsilon: row.Epsilon, Accuracy: row.Final, AtSquare: square, AtSame: same,
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
