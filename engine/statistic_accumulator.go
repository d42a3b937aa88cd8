package engine

import (
	"fmt"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/noise"
)

// statisticAccumulator sums one statistic over a lot.
type statisticAccumulator struct {
	Statistic
	*noisedSum           // over the lot's records
	vector     []float64 // of one record
	mean       []float64 // the last release
}

func newStatisticAccumulator(s Statistic, q ledger.Query) *statisticAccumulator {
	return &statisticAccumulator{Statistic: s, noisedSum: newNoisedSum(q, s.Size), vector: make([]float64, s.Size), mean: make([]float64, s.Size)}
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

// addRecord adds one record's vector.
func (a *statisticAccumulator) addRecord(record []Example) (err error) {
	defer func() {
		// The panic's value is not passed on: it may quote the record.
		if recover() != nil {
			err = fmt.Errorf("statistic %s: its function panicked on a training record; test it on public records", a.Name)
		}
	}()
	clear(a.vector)
	a.Of(a.vector, record)
	a.noisedSum.add(a.vector)
	return nil
}

// releaseMean releases the sum, divided by the public expected lot.
func (a *statisticAccumulator) releaseMean(source *noise.Source, stream noise.Stream, expectedLot float64) error {
	if err := a.release(a.mean, source, stream); err != nil {
		return err
	}
	for i := range a.mean {
		a.mean[i] /= expectedLot
	}
	return nil
}
