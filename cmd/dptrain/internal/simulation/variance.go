package simulation

import (
	"math"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/report"
	"github.com/dptrain/dptrain/engine/drawdiscard"
	"github.com/dptrain/dptrain/noise"
)

type varianceJob struct {
	report.SimulationVariance
	measure func() error
}

const (
	varianceWeights = 200
	varianceUpdates = 100_000 // at least, and varianceTurns times k²
	varianceTurns   = 100     // the instances of one time have no memory of the others after k²/2 updates
)

// varianceJobs measure the variance for each k.
func (t *task) varianceJobs() (all []*varianceJob) {
	for _, k := range t.Instances {
		j := &varianceJob{SimulationVariance: report.SimulationVariance{Instances: k, Theory: drawdiscard.StationaryVariance(k, 1)}}
		j.measure = func() (err error) {
			j.SimulationVariance, err = measureVariance(k, max(varianceUpdates, varianceTurns*k*k), t.Seed)
			return err
		}
		all = append(all, j)
	}
	return all
}

func measureVariance(k, updates int, seed uint64) (report.SimulationVariance, error) {
	p := report.SimulationVariance{Instances: k, Theory: drawdiscard.StationaryVariance(k, 1), Updates: updates}
	set, err := drawdiscard.NewInstances(make([]float32, varianceWeights), k, 1, noise.NewSeeded(seed))
	if err != nil {
		return p, err
	}
	server := stream(seed, varianceStream, uint64(k))
	bank, err := drawdiscard.NewNoiseBank(drawdiscard.Laplace, varianceWeights, server.Uint64())
	if err != nil {
		return p, err
	}
	next := &drawdiscard.Instance{Weights: make([]float32, varianceWeights)}
	start, end := make([]float32, varianceWeights), make([]float32, varianceWeights)
	set.Average(start)
	sum, measurements := 0.0, 0
	due := courseUpdates(updates)
	for n := range updates {
		copy(next.Weights, set.At(server.IntN(k)).Weights)
		bank.AddTo(next.Weights, math.Sqrt2/2) // variance 1
		next = set.Swap(server.IntN(k), next)
		if n+1 == due[0] {
			due = due[1:]
			point := report.VariancePoint{Updates: n + 1, Variance: set.Spread()}
			if k == 1 {
				point.Variance = squaredDistance(set.At(0).Weights, start) / varianceWeights
			}
			p.Course = append(p.Course, point)
		}
		if n%(k*k/4+1) == 0 {
			sum += set.Spread()
			measurements++
		}
	}
	p.Measured = sum / float64(measurements)
	set.Average(end)
	p.Moved = squaredDistance(end, start) / varianceWeights * float64(k) / float64(updates)
	return p, nil
}

func squaredDistance(a, b []float32) (sum float64) {
	for i := range a {
		d := float64(a[i] - b[i])
		sum += d * d
	}
	return sum
}

// coursePoints is the number of points of a course.
const coursePoints = 60

// courseUpdates returns at most coursePoints numbers of updates, at equal distances on a logarithmic axis,
// and then 0.
func courseUpdates(updates int) (all []int) {
	for i := range coursePoints {
		n := int(math.Round(math.Pow(float64(updates), float64(i)/(coursePoints-1))))
		if len(all) == 0 || n > all[len(all)-1] {
			all = append(all, n)
		}
	}
	return append(all, 0)
}
