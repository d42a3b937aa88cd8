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
	var squares float64
	for _, v := range a.vector {
		squares += v * v
	}
	norm := math.Sqrt(squares)
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return nil
	}
	bound := a.Sensitivity * (1 - 1e-12*float64(1+a.Size))
	scale := 1.0
	if norm > bound {
		scale = bound / norm
	}
	for i, v := range a.vector {
		a.sum[i] += scale * v
	}
	return nil
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
