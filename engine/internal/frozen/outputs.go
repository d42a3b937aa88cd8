// Package frozen keeps in memory the outputs of a network's frozen first layers for the examples of records. The
// weights of these layers do not change, so a run computes this once and not in each lot. Each value has the bits
// that the lots would compute.
package frozen

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/host/memory"
	"github.com/dptrain/dptrain/perexample"
)

// Outputs are the outputs of frozen layers for the examples of records. They are private, as the
// examples are. A nil *Outputs belongs to a network without frozen first layers.
type Outputs struct {
	device  plan.Device
	program *plan.Program // computes the outputs; nil when they are computed
	set     data.Set
	rows    []int                          // of the set: the examples of all records; -1: nothing reads this one
	sizes   []int                          // numbers of a record in each output
	values  [][]float32                    // of the examples, one after the other, for each output
	report  func(done, examples int) error // see Observe
}

// BytesFor is the memory of the outputs for a number of examples.
func BytesFor(network *perexample.PrivateNetwork, examples int) (bytes int64) {
	for _, n := range network.FrozenOutputs {
		bytes += 4 * int64(n.Shape().TotalSize()/network.Batch) * int64(examples)
	}
	return bytes
}

// New returns outputs of zeros for records, each with the same number of examples. Rows names the examples of the set, a
// record after the other, and has -1 for those that keep the zeros.
func New(device plan.Device, network *perexample.PrivateNetwork, set data.Set, rows []int, perRecord int) (*Outputs, error) {
	o := &Outputs{device: device, set: set, rows: rows, report: func(int, int) error { return nil }}
	var err error
	if o.program, err = plan.LowerFrozen(network); err != nil {
		return nil, err
	}
	for _, n := range network.FrozenOutputs {
		size := n.Shape().TotalSize() / network.Batch
		o.sizes = append(o.sizes, size*perRecord)
		o.values = append(o.values, memory.Zeros[float32](size*len(rows)))
	}
	return o, nil
}

// Observe makes Compute call report at its start and after each batch. An error of report ends it.
func (o *Outputs) Observe(report func(done, examples int) error) {
	if o != nil {
		o.report = report
	}
}

// Compute computes the outputs, unless it has done so. The end of ctx interrupts it; another call
// starts again.
func (o *Outputs) Compute(ctx context.Context) error {
	if o == nil || o.program == nil {
		return nil
	}
	if _, err := o.compute(ctx, len(o.rows)); err != nil {
		return err
	}
	o.program = nil
	return nil
}

// Estimate computes one batch, and returns the estimated time for all examples. The other outputs
// stay zero, so call it only for a run that is only timed.
func (o *Outputs) Estimate() (time.Duration, error) {
	if o == nil || o.program == nil {
		return 0, nil
	}
	batch := min(o.program.Batch, len(o.rows))
	duration, err := o.compute(context.Background(), batch)
	o.program = nil
	return time.Duration(float64(duration) * float64(len(o.rows)) / float64(batch)), err
}

// compute computes the outputs of the first examples. It returns the duration without that of the
// compilation.
func (o *Outputs) compute(ctx context.Context, examples int) (time.Duration, error) {
	e, err := o.device.Compile(o.program, plan.Optimizer{Kind: plan.SGD}, false)
	if err != nil {
		return 0, err
	}
	defer e.Close()
	start, batch := time.Now(), o.program.Batch
	columns := o.set.Columns()
	inputs := make([][]float32, len(columns))
	rows, places := make([]int, 0, batch), make([]int, 0, batch)
	for next := 0; next < examples; {
		if err := cmp.Or(ctx.Err(), o.report(next, examples)); err != nil {
			return 0, err
		}
		for rows, places = rows[:0], places[:0]; len(rows) < batch && next < examples; next++ {
			if o.rows[next] >= 0 {
				rows, places = append(rows, o.rows[next]), append(places, next)
			}
		}
		if len(rows) == 0 {
			break
		}
		for k, c := range columns {
			inputs[k] = e.Input(k)[:len(rows)*c.Size()]
		}
		if err := o.set.Read(inputs, rows); err != nil {
			return 0, fmt.Errorf("training data: %w", err)
		}
		if err := e.Forward(); err != nil {
			return 0, err
		}
		for k, values := range o.values {
			size := len(values) / len(o.rows)
			for i, place := range places {
				copy(values[place*size:(place+1)*size], e.Observed(k)[i*size:])
			}
		}
	}
	return time.Since(start), o.report(examples, examples)
}

// Bytes is the memory of the outputs.
func (o *Outputs) Bytes() (bytes int) {
	if o == nil {
		return 0
	}
	for _, v := range o.values {
		bytes += 4 * len(v)
	}
	return bytes
}

// Count returns the number of outputs.
func (o *Outputs) Count() int { return len(o.sizes) }

// Read copies the outputs for the given records, one after the other, and clears the rest.
func (o *Outputs) Read(dst [][]float32, records []int) {
	for k, size := range o.sizes {
		clear(dst[k][len(records)*size:])
		for i, record := range records {
			copy(dst[k][i*size:(i+1)*size], o.values[k][record*size:])
		}
	}
}
