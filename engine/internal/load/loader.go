package load

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/noise"
)

// Loader copies the records of a microbatch into the buffers of an executable. Its
// memory does not depend on the size of the lot.
type Loader struct {
	train     data.Set
	index     *Index
	augmenter *Augmenter
	source    *noise.Source
	step      int // of the lot
	Loaded    int // records of the lot so far

	Records   []int            // of the microbatch; the caller fills them
	Positions []int            // of these records among those of the lot; nil: behind those loaded before
	WeightCap float64          // the largest weight of a record; 0: records have no weights
	LotWeight int64            // of the lot's records so far, in WeightSteps
	shares    []float32        // the records' weights, from 0 to 1; nil where records have none
	rows      []int            // of the data set, record by record
	Inputs    [][]float32      // buffers of the executable
	used      [][]float32      // the part of inputs that contains examples
	Sizes     []int            // numbers of an example in each column
	weights   []float32        // of the examples, in the executable; nil where records are examples
	MaskSeed  []float32        // of the executable; nil where the network drops nothing
	Output    []float32        // of the executable; nil where the network keeps no output
	Losses    []float32        // of the executable; nil where the network keeps no losses
	observed  [][]float32      // of the executable, for running statistics
	words     []uint64         // random words for masks and views; nil where neither is drawn
	seeds     []uint64         // of the records' roundings, in the executable; nil unless arithmetic is exact
	examples  []Example        // of one record
	states    []data.CellState // of all examples; nil where the data set has none
	cells     int              // states of an example
}

// Buffers are the memory of a program's microbatch.
type Buffers struct {
	plan.Executable
	Records, Rows int // of a microbatch
	Running       int // running statistics
}

// NewLoader returns a loader of the records of a set. weightCap is the largest weight of a
// record; 0: records have no weights.
func NewLoader(set data.Set, index *Index, a *Augmenter, source *noise.Source, p Buffers,
	weightCap float64) *Loader {
	l := &Loader{train: set, index: index, augmenter: a, source: source, WeightCap: weightCap}
	l.Records = make([]int, p.Records)
	l.rows = make([]int, p.Rows)
	if weightCap > 0 {
		l.shares = make([]float32, p.Records)
	}
	for k, column := range set.Columns() {
		l.Inputs = append(l.Inputs, p.Input(k))
		l.Sizes = append(l.Sizes, column.Size())
	}
	l.used = make([][]float32, len(l.Inputs))
	l.weights, l.MaskSeed = p.ExampleWeights(), p.MaskSeed()
	l.Output, l.Losses = p.Output(), p.Losses()
	for i := range p.Running {
		l.observed = append(l.observed, p.Observed(i))
	}
	if c := p.Contributions(); c != nil {
		l.seeds = c.Seeds
	}
	if l.MaskSeed != nil || a.changesViews() {
		l.words = make([]uint64, wordsPerView*len(l.rows))
	}
	l.examples = l.NewExamples(l.rowsPerRecord())
	l.states, l.cells, _ = data.ValidatedCellStates(set) // newLotStatistics reports the error
	return l
}

// NewExamples returns examples without content.
func (l *Loader) NewExamples(n int) []Example {
	examples := make([]Example, n)
	for i := range examples {
		examples[i].Columns = make([][]float32, len(l.Inputs))
		examples[i].Observed = make([][]float32, len(l.observed))
	}
	return examples
}

// StartLot begins the lot of a step.
func (l *Loader) StartLot(step int) { l.step, l.Loaded, l.LotWeight = step, 0, 0 }

// rowsPerRecord returns how many rows of a microbatch a record has.
func (l *Loader) rowsPerRecord() int {
	return l.index.PerRecord * l.augmenter.ViewsPerExample()
}

// RecordWeights returns the weights of the first n records, from 0 to 1; nil where records have none.
func (l *Loader) RecordWeights(n int) []float32 {
	if l.shares == nil {
		return nil
	}
	return l.shares[:n]
}

// LoadNext loads the first n records into the buffers of a pipeline's next microbatch.
func (l *Loader) LoadNext(p plan.Pipeline, n int) error {
	l.weights, l.MaskSeed = p.ExampleWeights(), p.MaskSeed()
	rows := p.Rows()
	if rows == nil {
		for k := range l.Inputs {
			l.Inputs[k] = p.Input(k)
		}
	}
	return l.Load(n, rows)
}

// Load copies the examples of the first n records. Where the device has the data set, it
// writes their rows to deviceRows instead. The padding after them is zeros of weight 0.
func (l *Loader) Load(n int, deviceRows []int32) error {
	per := l.rowsPerRecord()
	for i, record := range l.Records[:n] {
		rows := l.rows[i*per : (i+1)*per]
		var weights, ofRecord []float32
		if l.weights != nil {
			weights = l.weights[i*per : (i+1)*per]
			ofRecord = weights[:l.index.PerRecord]
		}
		l.index.WriteRows(record, rows[:l.index.PerRecord], ofRecord)
		if l.shares != nil {
			weight := l.index.Weight(record, l.WeightCap)
			l.shares[i] = float32(weight) / WeightSteps // exact
			l.LotWeight += weight
		}
		l.augmenter.replicateViews(rows, weights)
	}
	if l.weights != nil {
		clear(l.weights[n*per:])
	}
	if l.MaskSeed != nil {
		if err := l.drawRecordWords(l.words, n, per, MaskStream); err != nil {
			return err
		}
		l.writeMaskSeeds(n * per)
	}
	if l.seeds != nil {
		if err := l.drawRecordWords(l.seeds, n, 1, roundingStream); err != nil {
			return err
		}
	}
	if deviceRows != nil {
		for i, row := range l.rows[:n*per] {
			deviceRows[i] = int32(row)
		}
		l.Loaded += n
		return nil
	}
	for k, in := range l.Inputs {
		l.used[k] = in[:n*per*l.Sizes[k]]
		clear(in[n*per*l.Sizes[k]:])
	}
	if n == 0 {
		return nil
	}
	if err := l.train.Read(l.used, l.rows[:n*per]); err != nil {
		return fmt.Errorf("training data: %w", err)
	}
	if err := l.transformViews(n * per); err != nil {
		return err
	}
	l.Loaded += n
	return nil
}

// Random streams of the views of a lot's examples, and of its records.
const (
	MaskStream = iota
	transformStream
	roundingStream
	StatisticMaskStream // masks of the statistics of users with local steps
	randomStreams
)

// drawWords fills words with those of the lot from a number on. They are independent
// of each other and of the data, and they are secret: the distribution for one record does
// not depend on the other records of the lot or of the data set.
//
// The numbers continue in another vector after the last one of a vector: the number of words that a
// lot needs follows from the records that it drew, and must not cause an error.
func (l *Loader) drawWords(words []uint64, first uint64, stream uint32) error {
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

// drawRecordWords draws the words of the first n records of the microbatch, each with as many. They have the
// number of their record in the lot, so they do not depend on the rank that loads it.
func (l *Loader) drawRecordWords(words []uint64, n, per int, stream uint32) error {
	if l.Positions == nil {
		return l.drawWords(words[:n*per], uint64(l.Loaded)*uint64(per), stream)
	}
	for i, position := range l.Positions[:n] {
		if err := l.drawWords(words[i*per:(i+1)*per], uint64(position)*uint64(per), stream); err != nil {
			return err
		}
	}
	return nil
}

// DrawMaskSeeds draws the dropout masks of the first rows of the microbatch from a stream, from a number
// on.
func (l *Loader) DrawMaskSeeds(rows int, first uint64, stream uint32) error {
	if err := l.drawWords(l.words[:rows], first, stream); err != nil {
		return err
	}
	l.writeMaskSeeds(rows)
	return nil
}

// writeMaskSeeds writes the words of the first rows to the executable.
func (l *Loader) writeMaskSeeds(rows int) {
	clear(l.MaskSeed)
	for i, word := range l.words[:rows] {
		op.WriteMaskSeed(l.MaskSeed[i*op.MaskSeedWidth:], word>>16, l.step)
	}
}

// transformViews changes the views in the first rows of the microbatch. A row of weight 0
// repeats an example of its record and stays as it is.
func (l *Loader) transformViews(rows int) error {
	a := l.augmenter
	if !a.changesViews() {
		return nil
	}
	words, per := l.words[:rows*wordsPerView], l.rowsPerRecord()
	if err := l.drawRecordWords(words, rows/per, per*wordsPerView, transformStream); err != nil {
		return err
	}
	for row := range rows {
		if l.weights != nil && l.weights[row] == 0 {
			continue
		}
		for k, size := range l.Sizes {
			a.view[k] = l.used[k][row*size : (row+1)*size : (row+1)*size]
		}
		if err := a.changeView(words[row*wordsPerView:][:wordsPerView], l.rows[row]); err != nil {
			return err
		}
	}
	return nil
}

// ExamplesOf returns what statistics may read of record i of the microbatch. The next call
// overwrites it.
func (l *Loader) ExamplesOf(i int) []Example {
	per := l.rowsPerRecord()
	n := 0
	for row := i * per; row < (i+1)*per; row++ {
		if l.weights != nil && l.weights[row] == 0 {
			continue
		}
		l.ReadRow(&l.examples[n], row, l.rows[row])
		n++
	}
	return l.examples[:n]
}

// ReadRow sets an example to a row of the microbatch, whose memory it shares. The row was read from
// an example of the data set.
func (l *Loader) ReadRow(e *Example, row, example int) {
	e.Cells = l.states[l.cells*example : l.cells*(example+1)]
	for k, size := range l.Sizes {
		e.Columns[k] = l.Inputs[k][row*size : (row+1)*size]
	}
	if l.Output != nil {
		width := len(l.Output) / len(l.rows)
		e.Output = l.Output[row*width : (row+1)*width]
	}
	for i := range l.observed {
		e.Observed[i] = l.observedOf(i, row)
	}
	e.Loss = float32(math.NaN())
	if l.Losses != nil {
		width := len(l.Losses) / len(l.rows)
		e.Loss = 0
		for _, loss := range l.Losses[row*width : (row+1)*width] {
			e.Loss += loss
		}
	}
}

// ObservedOfFirst returns the observed numbers of the first row.
func (l *Loader) ObservedOfFirst() (all [][]float32) {
	for i := range l.observed {
		all = append(all, l.observedOf(i, 0))
	}
	return all
}

// observedOf returns the numbers of a row that the i-th statistic behind running statistics reads.
func (l *Loader) observedOf(i, row int) []float32 {
	width := len(l.observed[i]) / len(l.rows)
	return l.observed[i][row*width : (row+1)*width]
}
