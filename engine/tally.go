package engine

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/noise"
)

// tally gathers one statistic over a lot.
type tally struct {
	Statistic
	sum    []float64 // of the lot's records
	one    []float64 // a record's vector
	normal []float64
	mean   []float64 // what was released last
}

func newTally(s Statistic) *tally {
	zeros := func() []float64 { return make([]float64, s.Size) }
	return &tally{Statistic: s, sum: zeros(), one: zeros(), normal: zeros(), mean: zeros()}
}

// try calls the function on a record of one example of zeros: one that reads a
// column which is not there fails before anything was spent.
func (t *tally) try(columns []data.Column, output int) error {
	e := Example{Output: make([]float32, output)}
	for _, c := range columns {
		e.Columns = append(e.Columns, make([]float32, c.Size()))
	}
	if said := panicked(func() { t.Of(t.one, []Example{e}) }); said != nil {
		return fmt.Errorf("statistic %s: its function panicked on an example of zeros (%v): does it read what the data have?", t.Name, said)
	}
	return nil
}

// panicked is what a function's panic says, nil where it returns.
func panicked(f func()) (said any) {
	defer func() { said = recover() }()
	f()
	return nil
}

// add takes one record's vector, scaled down to the sensitivity with room for the
// roundings of this arithmetic; one that is not finite takes no part.
func (t *tally) add(record []Example) (err error) {
	defer func() {
		// What the panic says is not passed on: it may quote the record.
		if recover() != nil {
			err = fmt.Errorf("statistic %s: its function panicked on a record; try it on public ones", t.Name)
		}
	}()
	clear(t.one)
	t.Of(t.one, record)
	var squares float64
	for _, v := range t.one {
		squares += v * v
	}
	norm := math.Sqrt(squares)
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return nil
	}
	bound := t.Sensitivity * (1 - 1e-12*float64(1+t.Size))
	scale := 1.0
	if norm > bound {
		scale = bound / norm
	}
	for i, v := range t.one {
		t.sum[i] += scale * v
	}
	return nil
}

// release noises the sum and begins anew.
func (t *tally) release(source *noise.Source, stream noise.Stream, expected float64) error {
	if err := source.Normals64(t.normal, stream, 0); err != nil {
		return err
	}
	for i := range t.sum {
		t.mean[i] = (t.sum[i] + t.Noise*t.normal[i]) / expected
	}
	clear(t.sum)
	return nil
}
