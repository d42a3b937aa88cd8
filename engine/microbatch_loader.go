package engine

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/frozen"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/noise"
)

// microbatchLoader copies the records of a microbatch into the buffers of an executable. Its
// memory does not depend on the size of the lot.
type microbatchLoader struct {
	train     data.Set
	index     *recordIndex
	augmenter *augmenter
	source    *noise.Source
	step      int // of the lot
	loaded    int // records of the lot so far

	records   []int            // of the microbatch; the caller fills them
	limits    Weights          // of the records' weights
	lotWeight int64            // of the lot's records so far, in weightSteps
	shares    []float32        // the records' weights, from 0 to 1; nil where records have none
	rows      []int            // of the data set, record by record
	inputs    [][]float32      // buffers of the executable
	used      [][]float32      // the part of inputs that contains examples
	sizes     []int            // numbers of an example in each column
	frozen    *frozen.Outputs  // nil where the executable computes all layers
	outputs   [][]float32      // buffers of the executable for frozen
	weights   []float32        // of the examples, in the executable; nil where records are examples
	maskSeed  []float32        // of the executable; nil where the network drops nothing
	output    []float32        // of the executable; nil where the network keeps no output
	losses    []float32        // of the executable; nil where the network keeps no losses
	observed  [][]float32      // of the executable, for running statistics
	words     []uint64         // random words for masks and views; nil where neither is drawn
	seeds     []uint64         // of the records' roundings, in the executable; nil unless arithmetic is exact
	examples  []Example        // of one record
	states    []data.CellState // of all examples; nil where the data set has none
	cells     int              // states of an example
}

func newMicrobatchLoader(c *Config, index *recordIndex, a *augmenter, source *noise.Source, n *compiledNetwork) *microbatchLoader {
	l := &microbatchLoader{train: c.Train, index: index, augmenter: a, source: source}
	l.records = make([]int, n.program.Records)
	l.rows = make([]int, n.program.Batch)
	if c.isWeighted() {
		l.limits, l.shares = c.Weights, make([]float32, n.program.Records)
	}
	for k, column := range c.Train.Columns() {
		l.inputs = append(l.inputs, n.executable.Input(k))
		l.sizes = append(l.sizes, column.Size())
	}
	l.used = make([][]float32, len(l.inputs))
	if l.frozen = n.frozen; l.frozen != nil {
		for k := range l.frozen.Count() {
			l.outputs = append(l.outputs, n.executable.Input(len(l.inputs)+n.running.count()+k))
		}
	}
	l.weights, l.maskSeed = n.executable.ExampleWeights(), n.executable.MaskSeed()
	l.output, l.losses = n.executable.Output(), n.executable.Losses()
	if s := n.running; s != nil {
		for i := range s.parts {
			l.observed = append(l.observed, n.executable.Observed(i))
		}
	}
	if c := n.executable.Contributions(); c != nil {
		l.seeds = c.Seeds
	}
	if l.maskSeed != nil || a.Transform != nil {
		l.words = make([]uint64, wordsPerView*len(l.rows))
	}
	l.examples = l.newExamples(l.rowsPerRecord())
	l.states, l.cells, _ = data.ValidatedCellStates(c.Train) // newLotStatistics reports the error
	return l
}

// newExamples returns examples without content.
func (l *microbatchLoader) newExamples(n int) []Example {
	examples := make([]Example, n)
	for i := range examples {
		examples[i].Columns = make([][]float32, len(l.inputs))
		examples[i].observed = make([][]float32, len(l.observed))
	}
	return examples
}

// startLot begins the lot of a step.
func (l *microbatchLoader) startLot(step int) { l.step, l.loaded, l.lotWeight = step, 0, 0 }

// rowsPerRecord returns how many rows of a microbatch a record has.
func (l *microbatchLoader) rowsPerRecord() int {
	return l.index.perRecord * l.augmenter.viewsPerExample()
}

// recordWeights returns the weights of the first n records, from 0 to 1; nil where records have none.
func (l *microbatchLoader) recordWeights(n int) []float32 {
	if l.shares == nil {
		return nil
	}
	return l.shares[:n]
}

// loadNext loads the first n records into the buffers of a pipeline's next microbatch.
func (l *microbatchLoader) loadNext(p plan.Pipeline, n int) error {
	l.weights, l.maskSeed = p.ExampleWeights(), p.MaskSeed()
	rows := p.Rows()
	if rows == nil {
		for k := range l.inputs {
			l.inputs[k] = p.Input(k)
		}
	}
	return l.load(n, rows)
}

// load copies the examples of the first n records. Where the device has the data set, it
// writes their rows to deviceRows instead. The padding after them is zeros of weight 0.
func (l *microbatchLoader) load(n int, deviceRows []int32) error {
	per := l.rowsPerRecord()
	for i, record := range l.records[:n] {
		rows := l.rows[i*per : (i+1)*per]
		var weights, ofRecord []float32
		if l.weights != nil {
			weights = l.weights[i*per : (i+1)*per]
			ofRecord = weights[:l.index.perRecord]
		}
		l.index.writeRows(record, rows[:l.index.perRecord], ofRecord)
		if l.shares != nil {
			weight := l.index.weight(record, l.limits)
			l.shares[i] = float32(weight) / weightSteps // exact
			l.lotWeight += weight
		}
		l.augmenter.replicateViews(rows, weights)
	}
	if l.weights != nil {
		clear(l.weights[n*per:])
	}
	if l.maskSeed != nil {
		if err := l.drawMaskSeeds(n*per, uint64(l.loaded)*uint64(per), maskStream); err != nil {
			return err
		}
	}
	if l.seeds != nil {
		if err := l.drawWords(l.seeds[:n], uint64(l.loaded), roundingStream); err != nil {
			return err
		}
	}
	if deviceRows != nil {
		for i, row := range l.rows[:n*per] {
			deviceRows[i] = int32(row)
		}
		l.loaded += n
		return nil
	}
	for k, in := range l.inputs {
		l.used[k] = in[:n*per*l.sizes[k]]
		clear(in[n*per*l.sizes[k]:])
	}
	for _, out := range l.outputs {
		clear(out[n*per*len(out)/len(l.rows):])
	}
	if n == 0 {
		return nil
	}
	if err := l.train.Read(l.used, l.rows[:n*per]); err != nil {
		return fmt.Errorf("training data: %w", err)
	}
	if l.frozen != nil {
		l.frozen.Read(l.outputs, l.rows[:n*per])
	}
	if err := l.transformViews(n * per); err != nil {
		return err
	}
	l.loaded += n
	return nil
}

// Random streams of the views of a lot's examples, and of its records.
const (
	maskStream = iota
	transformStream
	roundingStream
	statisticMaskStream // masks of the statistics of users with local steps
	randomStreams
)

// drawWords fills words with those of the lot from a number on. They are independent
// of each other and of the data, and they are secret: the distribution for one record does
// not depend on the other records of the lot or of the data set.
//
// The numbers continue in another vector after the last one of a vector: the number of words that a
// lot needs follows from the records that it drew, and must not cause an error.
func (l *microbatchLoader) drawWords(words []uint64, first uint64, stream uint32) error {
	for len(words) > 0 {
		vector, at := first/noise.MaxValues, first%noise.MaxValues
		n := min(uint64(len(words)), noise.MaxValues-at)
		s := noise.Stream{Purpose: noise.ExampleRandomness, Lot: uint64(l.step), Vector: stream + randomStreams*uint32(vector)}
		if err := l.source.Uint64s(words[:n], s, at); err != nil {
			return err
		}
		words, first = words[n:], first+n
	}
	return nil
}

// drawMaskSeeds draws the dropout masks of the first rows of the microbatch from a stream, from a number
// on.
func (l *microbatchLoader) drawMaskSeeds(rows int, first uint64, stream uint32) error {
	if err := l.drawWords(l.words[:rows], first, stream); err != nil {
		return err
	}
	clear(l.maskSeed)
	for i, word := range l.words[:rows] {
		op.WriteMaskSeed(l.maskSeed[i*op.MaskSeedWidth:], word>>16, l.step)
	}
	return nil
}

// transformViews changes the views in the first rows of the microbatch. A row of weight 0
// repeats an example of its record and stays as it is.
func (l *microbatchLoader) transformViews(rows int) error {
	a := l.augmenter
	if a.Transform == nil {
		return nil
	}
	words := l.words[:rows*wordsPerView]
	if err := l.drawWords(words, uint64(l.loaded)*uint64(l.rowsPerRecord()*wordsPerView), transformStream); err != nil {
		return err
	}
	for row := range rows {
		if l.weights != nil && l.weights[row] == 0 {
			continue
		}
		for k, size := range l.sizes {
			a.view[k] = l.used[k][row*size : (row+1)*size : (row+1)*size]
		}
		if err := a.transform(words[row*wordsPerView:][:wordsPerView]); err != nil {
			return err
		}
	}
	return nil
}

// examplesOf returns what statistics may read of record i of the microbatch. The next call
// overwrites it.
func (l *microbatchLoader) examplesOf(i int) []Example {
	per := l.rowsPerRecord()
	n := 0
	for row := i * per; row < (i+1)*per; row++ {
		if l.weights != nil && l.weights[row] == 0 {
			continue
		}
		l.readRow(&l.examples[n], row, l.rows[row])
		n++
	}
	return l.examples[:n]
}

// readRow sets an example to a row of the microbatch, whose memory it shares. The row was read from
// an example of the data set.
func (l *microbatchLoader) readRow(e *Example, row, example int) {
	e.Cells = l.states[l.cells*example : l.cells*(example+1)]
	for k, size := range l.sizes {
		e.Columns[k] = l.inputs[k][row*size : (row+1)*size]
	}
	if l.output != nil {
		width := len(l.output) / len(l.rows)
		e.Output = l.output[row*width : (row+1)*width]
	}
	for i := range l.observed {
		e.observed[i] = l.observedOf(i, row)
	}
	e.Loss = float32(math.NaN())
	if l.losses != nil {
		width := len(l.losses) / len(l.rows)
		e.Loss = 0
		for _, loss := range l.losses[row*width : (row+1)*width] {
			e.Loss += loss
		}
	}
}

// observedOfFirst returns the observed numbers of the first row.
func (l *microbatchLoader) observedOfFirst() (all [][]float32) {
	for i := range l.observed {
		all = append(all, l.observedOf(i, 0))
	}
	return all
}

// observedOf returns the numbers of a row that the i-th statistic behind running statistics reads.
func (l *microbatchLoader) observedOf(i, row int) []float32 {
	width := len(l.observed[i]) / len(l.rows)
	return l.observed[i][row*width : (row+1)*width]
}
