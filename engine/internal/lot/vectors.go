package lot

import (
	"context"
	"math"
)

// vectors adds vectors that the host has: those that the caller gives to AddVectors.
type vectors struct{ lot *Lot }

func (vectors) Prepare(context.Context) error { return nil }

func (vectors) Start() {}

func (vectors) Add(int) error { return nil }

func (vectors) Finish() error { return nil }

// Release releases the means of the vectors.
func (v vectors) Release(step int) error {
	m := v.lot.Mechanism
	return m.Vectors.Release(v.lot.Source, step, m.Step.Scale)
}

// AddVectors adds a copy of the vectors of one record, times weight/load.WeightSteps. A record with vectors
// of another number or size contributes nothing.
func (l *Lot) AddVectors(weight int64, of [][]float64) error {
	sums := l.Mechanism.Vectors
	same := len(of) == len(sums.Vectors)
	for i := 0; same && i < len(of); i++ {
		same = copy(sums.Vectors[i], of[i]) == len(of[i]) && len(of[i]) == len(sums.Vectors[i])
	}
	if !same {
		sums.Vectors[0][0] = math.NaN()
	}
	return sums.Add(weight)
}
