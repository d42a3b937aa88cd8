package engine

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/internal/op"
)

// microbatch is the memory of the examples under way. It is as large as a
// microbatch and knows nothing of the lot.
type microbatch struct {
	records []int       // of the lot
	rows    []int       // of the data set, record by record
	inputs  [][]float32 // the machine's
	used    [][]float32 // the part of them that holds examples
	sizes   []int       // numbers of an example in each column
	weights []float32   // the machine's; nil where records are examples
	ticket  []float32   // the machine's; nil where the network takes none
	output  []float32   // the machine's; nil where it keeps none
	losses  []float32   // the machine's; nil where it keeps none
	words   []uint64    // that decide what varies; nil where nothing does
	example []Example   // of one record
}

func (r *Run) newMicrobatch() {
	b := &r.batch
	b.records = make([]int, r.program.Records)
	b.rows = make([]int, r.program.Batch)
	for k, c := range r.config.Train.Columns() {
		b.inputs = append(b.inputs, r.machine.Input(k))
		b.sizes = append(b.sizes, c.Size())
	}
	b.used = make([][]float32, len(b.inputs))
	b.weights, b.ticket = r.machine.ExampleWeights(), r.machine.MaskSeed()
	b.output, b.losses = r.machine.Output(), r.machine.Losses()
	if b.ticket != nil || r.viewer.Transform != nil {
		b.words = make([]uint64, changeWords*len(b.rows))
	}
	b.example = make([]Example, r.slots())
	for i := range b.example {
		b.example[i].Columns = make([][]float32, len(b.inputs))
	}
}

// slots is how many rows of a microbatch a record has.
func (r *Run) slots() int { return r.deck.per * r.viewer.each() }

// microbatch adds the clipped sums of the first n records in the batch.
func (r *Run) microbatch(n int) error {
	if r.pipeline != nil {
		return r.push(n)
	}
	if err := r.fill(n, nil); err != nil {
		return err
	}
	if err := r.machine.Forward(); err != nil {
		return err
	}
	if err := r.weigh(n); err != nil {
		return err
	}
	if err := r.look(n); err != nil {
		return err
	}
	return r.machine.AddClippedSums()
}

// fill loads the examples of n records, or, where the device holds the data set,
// says which rows they are; the padding after them is zeros, of weight and factor
// 0.
func (r *Run) fill(n int, rows []int32) error {
	b, per := &r.batch, r.slots()
	for i, record := range b.records[:n] {
		dealt := b.rows[i*per : (i+1)*per]
		var w, share []float32
		if b.weights != nil {
			w = b.weights[i*per : (i+1)*per]
			share = w[:r.deck.per]
		}
		r.deck.deal(record, dealt[:r.deck.per], share)
		r.viewer.spread(dealt, w)
	}
	if b.weights != nil {
		clear(b.weights[n*per:])
	}
	if b.ticket != nil {
		if err := r.tickets(n * per); err != nil {
			return err
		}
	}
	if rows != nil {
		for i, row := range b.rows[:n*per] {
			rows[i] = int32(row)
		}
		return nil
	}
	for k, in := range b.inputs {
		b.used[k] = in[:n*per*b.sizes[k]]
		clear(in[n*per*b.sizes[k]:])
	}
	if err := r.config.Train.Read(b.used, b.rows[:n*per]); err != nil {
		return fmt.Errorf("training data: %w", err)
	}
	return r.augment(n * per)
}

// tickets draws the masks of so many views of examples.
func (r *Run) tickets(views int) error {
	b := &r.batch
	if err := r.vary(b.words[:views], 1, varyMasks); err != nil {
		return err
	}
	clear(b.ticket)
	for i, word := range b.words[:views] {
		op.WriteMaskSeed(b.ticket[i*op.MaskSeedWidth:], word>>16, r.step)
	}
	return nil
}

// weigh hands every record's factor to the machine: 0 for padding.
func (r *Run) weigh(n int) error {
	if clipper := r.mechanism.clipper; clipper != nil {
		if err := clipper.ComputeFactors(r.factors, r.squared, n); err != nil {
			return err
		}
	} else {
		for i := range r.factors[0] {
			r.factors[0][i] = 0
			if i < n {
				r.factors[0][i] = 1
			}
		}
	}
	for v, g := range r.mechanism.groups {
		copy(r.machine.ClipFactors(v), r.factors[g])
	}
	return nil
}

// look reads what statistics, or the one who trains, want of the records beside
// their gradients.
func (r *Run) look(n int) error {
	r.private.Records += n
	for i := range n {
		whole := true
		for _, f := range r.factors {
			whole = whole && f[i] >= 1
		}
		if whole {
			r.private.Unclipped++
		}
	}
	if len(r.tallies) == 0 && r.batch.losses == nil {
		return nil
	}
	for i := range n {
		record := r.record(i)
		if r.batch.losses != nil {
			for _, e := range record {
				r.private.Loss += float64(e.Loss) / float64(len(record))
			}
		}
		for _, t := range r.tallies {
			if err := t.add(record); err != nil {
				return err
			}
		}
	}
	return nil
}

// record gathers what statistics may read of a record of the microbatch.
func (r *Run) record(i int) []Example {
	b, per := &r.batch, r.slots()
	n := 0
	for s := i * per; s < (i+1)*per; s++ {
		if b.weights != nil && b.weights[s] == 0 {
			continue
		}
		e := &b.example[n]
		n++
		for k, size := range b.sizes {
			e.Columns[k] = b.inputs[k][s*size : (s+1)*size]
		}
		if b.output != nil {
			width := len(b.output) / r.program.Batch
			e.Output = b.output[s*width : (s+1)*width]
		}
		e.Loss = float32(math.NaN())
		if b.losses != nil {
			width := len(b.losses) / r.program.Batch
			e.Loss = 0
			for _, l := range b.losses[s*width : (s+1)*width] {
				e.Loss += l
			}
		}
	}
	return b.example[:n]
}
