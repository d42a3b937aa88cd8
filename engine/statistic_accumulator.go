package engine

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/noise"
)

// statisticAccumulator sums one statistic over a lot.
type statisticAccumulator struct {
	Statistic
	sum    []float64 // over the lot's records
	vector []float64 // of one record
	normal []float64
	mean   []float64 // the last release
}

func newStatisticAccumulator(s Statistic) *statisticAccumulator {
	zeros := func() []float64 { return make([]float64, s.Size) }
	return &statisticAccumulator{Statistic: s, sum: zeros(), vector: zeros(), normal: zeros(), mean: zeros()}
}

// tryOnZeros calls the user's function on a record of one example of zeros: a function that
// reads a missing column fails before anything is spent.
func (a *statisticAccumulator) tryOnZeros(columns []data.Column, output int) error {
	e := Example{Output: make([]float32, output)}
	for _, c := range columns {
		e.Columns = append(e.Columns, make([]float32, c.Size()))
	}
	if p := recoverPanic(func() { a.Of(a.vector, []Example{e}) }); p != nil {
		return fmt.Errorf("statistic %s: its function panicked on an example of zeros (%v); check that it reads only columns that the data have", a.Name, p)
	}
	return nil
}

// recoverPanic returns the value of a function's panic, or nil where it returns.
func recoverPanic(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}

// add adds one record's vector, scaled down to the sensitivity. A margin covers the rounding
// of this arithmetic. A vector that is not finite adds nothing.
func (a *statisticAccumulator) add(record []Example) (err error) {
	defer func() {
		// The panic's value is not passed on: it may quote the record.
		if recover() != nil {
			err = fmt.Errorf("statistic %s: its function panicked on a training record; test it on public records", a.Name)
		}
	}()
	clear(a.vector)
	a.Of(a.vector, record)
	unit, norm := scaledNorm(a.vector)
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return nil
	}
	bound := a.Sensitivity * (1 - 1e-12*float64(1+a.Size))
	scale := 1.0
	if norm > bound/unit { // always, unless unit is 1: see maxSensitivity
		scale = bound / norm
	}
	for i, v := range a.vector {
		a.sum[i] += scale * (v / unit)
	}
	return nil
}

// scaledNorm returns the norm of a vector in a unit, so that norm·unit is the norm. The unit is 1
// unless the squares overflow. Then it is the largest absolute value, and the norm lies between 1
// and the root of the size: this bounds every vector of finite numbers. The norm of a vector with
// a number that is not finite is not finite.
func scaledNorm(vector []float64) (unit, norm float64) {
	sumOfSquares := func(unit float64) (sum float64) {
		for _, v := range vector {
			v /= unit
			sum += v * v
		}
		return sum
	}
	unit = 1
	squares := sumOfSquares(unit)
	if math.IsInf(squares, 1) {
		for _, v := range vector {
			unit = max(unit, math.Abs(v))
		}
		squares = sumOfSquares(unit) // NaN if a number is infinite
	}
	return unit, math.Sqrt(squares)
}

// release adds noise to the sum and resets it.
func (a *statisticAccumulator) release(source *noise.Source, stream noise.Stream, expectedLot float64) error {
	if err := source.Normals64(a.normal, stream, 0); err != nil {
		return err
	}
	for i := range a.sum {
		a.mean[i] = (a.sum[i] + a.Noise*a.normal[i]) / expectedLot
	}
	clear(a.sum)
	return nil
}
