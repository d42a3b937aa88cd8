package engine

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/network"
	"github.com/dptrain/dptrain/engine/internal/score"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/perexample"
)

// Evaluation is the quality of a network on a set. It is a function of the set's examples: it is
// public only where the set is.
//
// The labels are those that package layer's cross-entropy compares with the network's Output. For
// a network without such a loss they are those of the first column whose classes the Output may
// score.
type Evaluation struct {
	Examples int
	Labels   int     // labels that were compared, without data.Pad and layer.IgnoreLabel's; 0 where the Output scores no classes
	Accuracy float64 // share of Labels that were predicted correctly; 0 where Labels is 0
	Loss     float64 // mean; 0 where the network keeps no losses
	// Confusion counts the predictions for each true class; nil for more than 4,096 classes.
	Confusion [][]int
	Targets   int // targets that were compared; 0 where no loss such as layer.SquaredError compares the Output with them
	// RMSE and MAE are the root of the mean squared error and the mean absolute error of the
	// targets, in their unit where their column has Bounds, and otherwise in that of its numbers.
	// R2 is the coefficient of determination; NaN where the targets do not vary. All are 0 where
	// Targets is 0.
	RMSE, MAE, R2 float64
}

// mostConfused is the largest number of classes with a confusion matrix. That of a vocabulary of 50,000 would take 20 GB.
const mostConfused = 4096

// evaluationBatch is the number of examples that are evaluated together, if memory permits.
const evaluationBatch = 256

// smallBatches are the numbers of examples for which an evaluator compiles the network again where a set
// has no more, so that one example does not take the time of a whole batch.
var smallBatches = []int{1, 8, 64}

// Evaluator evaluates weights on sets. On the CPU it computes with the caller's weights and has
// none of its own. It serves one goroutine.
type Evaluator struct {
	build     perexample.Build
	device    plan.Device
	signature network.Signature
	weights   [][]float32 // of the executable; nil before there are any
	borrows   bool        // executables compute with the caller's memory
	whole     *evaluation
	small     map[int]*evaluation // by elements of smallBatches; absent before a set needs them
	kept      *keptOutputs        // nil if no set has any
}

// evaluation is the network, lowered for a number of examples.
type evaluation struct {
	size       int
	program    *plan.Program
	executable plan.Executable // nil before there are weights
	inputs     [][]float32
	used       [][]float32
	rows       []int
}

// NewEvaluator compiles a network for evaluation. It refuses a network that a run refuses, for
// example one whose output for an example depends on other examples of the batch. Where a run
// computes a network one record at a time, because an operation has no per-example rule, it
// evaluates one example at a time. The CPU replaces the device gorgonia.
func NewEvaluator(build perexample.Build, options DeviceOptions) (*Evaluator, error) {
	needsSingle, err := build.NeedsSingleExamples()
	if err != nil {
		return nil, err
	}
	if _, err := options.resolver().Resolve(); err != nil {
		return nil, err
	}
	if options.Name == "gorgonia" {
		options.Name = "cpu"
	}
	device, err := options.resolver().Open(0)
	if err != nil {
		return nil, err
	}
	limit, err := device.MemoryLimit()
	if err != nil {
		return nil, err
	}
	e := &Evaluator{build: build, device: device}
	batch := evaluationBatch
	if needsSingle {
		batch = 1
	}
	for ; ; batch /= 2 {
		if err := e.lowerWhole(batch); err != nil {
			return nil, err
		}
		p := e.whole.program
		if batch == 1 || int64(p.MicrobatchBytes()) <= limit && device.PreferredMicrobatch(p) == p.Records {
			return e, nil
		}
	}
}

// lowerWhole lowers the network for the largest batch.
func (e *Evaluator) lowerWhole(batch int) (err error) {
	e.whole, e.signature, err = e.lower(batch)
	return err
}

// lower lowers the network for a batch.
func (e *Evaluator) lower(batch int) (*evaluation, network.Signature, error) {
	net, program, err := network.LowerEvaluation(e.build, batch)
	if err != nil {
		return nil, network.Signature{}, err
	}
	x := &evaluation{size: batch, program: program, rows: make([]int, batch), used: make([][]float32, len(net.Inputs))}
	return x, network.SignatureOf(net), nil
}

// Close ends the evaluator's threads and frees its memory.
func (e *Evaluator) Close() error {
	err := e.whole.close()
	for _, x := range e.small {
		err = errors.Join(err, x.close())
	}
	e.small = nil
	if e.kept != nil {
		err = errors.Join(err, e.kept.close())
	}
	return err
}

func (x *evaluation) close() error {
	if x.executable == nil {
		return nil
	}
	open := x.executable
	x.executable = nil
	return open.Close()
}

// Weights returns the weights that were loaded last; before that, the network's starting values.
func (e *Evaluator) Weights() [][]float32 {
	if e.weights != nil {
		return e.weights
	}
	for _, v := range e.whole.program.Parameters {
		w := make([]float32, v.Shape.TotalSize())
		e.whole.program.Buffers[v.Value].Initialize(w)
		e.weights = append(e.weights, w)
	}
	return e.weights
}

// Score evaluates weights, one slice per parameter, on a set.
func (e *Evaluator) Score(weights [][]float32, s data.Set) (Evaluation, error) {
	return e.ScoreEach(weights, s, nil)
}

// ScoreEach is Score. It also passes the labels or targets of each example, and the network's Output
// for it, to a function, in order. The function must not keep the slices. It is not called where
// Score compares neither labels nor targets.
func (e *Evaluator) ScoreEach(weights [][]float32, s data.Set, each func(expected, output []float32)) (Evaluation, error) {
	if err := e.prepare(weights, s, e.signature); err != nil {
		return Evaluation{}, err
	}
	sc := e.newScorer(s, each)
	err := e.forEachBatch(s, func(x *evaluation, _, n int) error {
		return sc.add(x, n, x.executable.Losses(), x.executable.Output())
	})
	if err != nil {
		return Evaluation{}, err
	}
	return sc.evaluation(), nil
}

// scorer compares outputs with labels or targets, batch by batch.
type scorer struct {
	of      *Evaluator
	each    func(expected, output []float32) // nil: none
	columns []data.Column
	label   int // the column that the output is compared with; -1: none
	target  int // likewise
	scores  int // numbers of the output for a label
	classes int
	mayPad  bool
	metrics score.Regression
	result  Evaluation
}

func (e *Evaluator) newScorer(s data.Set, each func(expected, output []float32)) *scorer {
	sc := &scorer{of: e, each: each, columns: s.Columns(), target: e.signature.TargetInput}
	sc.result.Examples = s.Len()
	sc.label, sc.scores = e.signature.ScoredLabel(sc.columns)
	if sc.label < 0 {
		return sc
	}
	column := sc.columns[sc.label]
	sc.classes = min(column.Classes, sc.scores)
	sc.mayPad = len(column.Shape) > 0 || e.signature.Label.Ignored != data.Pad
	if sc.scores <= mostConfused {
		sc.result.Confusion = make([][]int, sc.classes)
		for i := range sc.result.Confusion {
			sc.result.Confusion[i] = make([]int, sc.scores)
		}
	}
	return sc
}

// add adds a batch of n examples, whose columns are in x, with the network's losses and outputs.
func (sc *scorer) add(x *evaluation, n int, losses, output []float32) error {
	if compared := max(sc.label, sc.target); sc.each != nil && compared >= 0 {
		expected := x.used[compared]
		for i, size, outputs := 0, len(expected)/n, sc.of.signature.OutputSize; i < n; i++ {
			sc.each(expected[i*size:(i+1)*size], output[i*outputs:(i+1)*outputs])
		}
	}
	for _, l := range losses[:n*x.lossesPerExample()] {
		sc.result.Loss += float64(l)
	}
	if sc.target >= 0 {
		sc.metrics.Add(x.used[sc.target], output, sc.of.signature.OutputSize)
	}
	if sc.label >= 0 {
		return sc.result.countPredictions(sc.columns[sc.label], sc.classes, sc.mayPad, x.used[sc.label], output, sc.scores)
	}
	return nil
}

func (sc *scorer) evaluation() Evaluation {
	r := &sc.result
	if r.Labels > 0 {
		r.Accuracy /= float64(r.Labels)
	}
	r.Loss /= float64(r.Examples)
	if sc.target >= 0 {
		r.Targets = sc.metrics.Count
		r.RMSE, r.MAE, r.R2 = sc.metrics.Errors(sc.columns[sc.target].ScaleFactor())
	}
	return *r
}

func (x *evaluation) lossesPerExample() int { return len(x.executable.Losses()) / x.size }

// countPredictions adds labels to the confusion matrix, without padding, and correct ones to Accuracy. output contains
// scores numbers for each label.
func (e *Evaluation) countPredictions(column data.Column, classes int, mayPad bool, labels, output []float32, scores int) error {
	for i, l := range labels {
		class := int(l)
		if class == data.Pad && mayPad {
			continue
		}
		if class < 0 || class >= classes {
			return fmt.Errorf("evaluation: column %s contains a label that is not between 0 and %d", column.Name, classes-1)
		}
		predicted := score.Argmax(output[i*scores : (i+1)*scores])
		if predicted == class {
			e.Accuracy++
		}
		if e.Confusion != nil {
			e.Confusion[class][predicted]++
		}
		e.Labels++
	}
	return nil
}

// Predictions returns the network's Output for each example of a set, one slice per example. It
// does not depend on columns that only the loss reads, such as labels; the set may lack such
// columns at its end.
func (e *Evaluator) Predictions(weights [][]float32, s data.Set) (all [][]float32, err error) {
	err = e.Predict(weights, s, func(_ int, output []float32) error {
		all = append(all, slices.Clone(output))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Predict is Predictions for sets whose outputs do not fit in memory. It passes the output for
// each example to a function, in order. The function must not keep the slice; its error ends the
// evaluation.
func (e *Evaluator) Predict(weights [][]float32, s data.Set, to func(example int, output []float32) error) error {
	signature := e.signature
	if s != nil {
		signature = signature.RestrictTo(len(s.Columns()))
	}
	if err := e.prepare(weights, s, signature); err != nil {
		return err
	}
	size := e.signature.OutputSize
	if size == 0 {
		return fmt.Errorf("evaluation: the network keeps no output: set Output of the network")
	}
	return e.forEachBatch(s, func(x *evaluation, from, n int) error {
		for i := range n {
			if err := to(from+i, x.executable.Output()[i*size:(i+1)*size]); err != nil {
				return err
			}
		}
		return nil
	})
}

// prepare checks a set against a signature and loads weights.
func (e *Evaluator) prepare(weights [][]float32, s data.Set, signature network.Signature) error {
	if s == nil {
		return fmt.Errorf("evaluation without a set: give a set with at least one example")
	}
	if err := signature.Check(s.Columns()); err != nil {
		return err
	}
	if s.Len() == 0 {
		return fmt.Errorf("evaluation on an empty set: give a set with at least one example")
	}
	return e.LoadWeights(weights)
}

// LoadWeights loads the weights to compute with, as Score and Predict do themselves. It fails
// where memory is short.
func (e *Evaluator) LoadWeights(weights [][]float32) error {
	parameters := e.whole.program.Parameters
	if len(parameters) != len(weights) {
		return fmt.Errorf("evaluation: got %d parameters, and the network has %d", len(weights), len(parameters))
	}
	areLoaded := e.whole.executable != nil
	for v := range parameters {
		if size := parameters[v].Shape.TotalSize(); size != len(weights[v]) {
			return fmt.Errorf("evaluation: parameter %d has %d elements, and the network needs %d", v, len(weights[v]), size)
		}
		areLoaded = areLoaded && &weights[v][0] == &e.weights[v][0]
	}
	switch {
	case areLoaded:
	case e.whole.executable != nil && !e.borrows:
		for v := range weights {
			copy(e.weights[v], weights[v])
		}
	default:
		if err := e.openWhole(weights); err != nil {
			return err
		}
	}
	return e.whole.executable.LoadState()
}

// openWhole opens the executable of the largest batch for weights. The batch becomes smaller where memory
// is short.
func (e *Evaluator) openWhole(weights [][]float32) error {
	if err := e.Close(); err != nil {
		return err
	}
	for {
		err := e.whole.open(e.device, weights)
		if err == nil {
			break
		}
		if !errors.Is(err, plan.ErrOutOfMemory) || e.whole.size == 1 {
			return err
		}
		if err := e.lowerWhole(e.whole.size / 2); err != nil {
			return err
		}
	}
	e.weights = e.whole.executable.State().Weights
	e.borrows = &e.weights[0][0] == &weights[0][0]
	debug.FreeOSMemory() // the memory of the graph
	return nil
}

// open opens the executable for weights.
func (x *evaluation) open(device plan.Device, weights [][]float32) (err error) {
	x.executable, err = network.Open(device, x.program.WithBorrowedWeights(weights), plan.Optimizer{Kind: plan.SGD}, false)
	if err != nil {
		x.executable = nil // not an interface that contains nil
		return err
	}
	x.program = x.program.Stripped()
	x.inputs = nil
	for k := range x.used {
		x.inputs = append(x.inputs, x.executable.Input(k))
	}
	return nil
}

// evaluationFor returns the network for the smallest batch that contains a number of examples, or the
// largest batch.
func (e *Evaluator) evaluationFor(examples int) *evaluation {
	i := slices.IndexFunc(smallBatches, func(size int) bool { return size >= examples })
	if i < 0 || smallBatches[i] >= e.whole.size || !e.borrows {
		return e.whole
	}
	size := smallBatches[i]
	if e.small[size] == nil {
		x, _, err := e.lower(size)
		if err == nil {
			err = x.open(e.device, e.weights)
		}
		if err != nil { // memory is short, or the network has no form for this number: the largest batch gives the same outputs
			x = e.whole
		}
		if e.small == nil {
			e.small = map[int]*evaluation{}
		}
		e.small[size] = x
	}
	return e.small[size]
}

// forEachBatch runs the network on a set, and calls do after each batch of n examples, the first
// of which is from.
func (e *Evaluator) forEachBatch(s data.Set, do func(x *evaluation, from, n int) error) error {
	x := e.evaluationFor(s.Len())
	kept, err := e.keptFor(s)
	if err != nil {
		return err
	}
	if kept != nil {
		x = &kept.evaluation
	}
	for from := 0; from < s.Len(); from += x.size {
		n := min(x.size, s.Len()-from)
		if err := e.read(x, s, from, n); err != nil {
			return err
		}
		if kept != nil {
			kept.outputs.Read(kept.inputsOfOutputs, x.rows[:n])
		}
		if err := e.compute(x, s); err != nil {
			return err
		}
		if err := do(x, from, n); err != nil {
			return err
		}
	}
	return nil
}

// read reads n examples of a set.
func (e *Evaluator) read(x *evaluation, s data.Set, from, n int) error {
	for i := range n {
		x.rows[i] = from + i
	}
	for k, in := range x.inputs {
		x.used[k] = in[:n*(len(in)/x.size)]
	}
	return s.Read(x.used[:len(s.Columns())], x.rows[:n])
}

// compute runs the network on the examples of a set that were read.
func (e *Evaluator) compute(x *evaluation, s data.Set) error {
	if err := x.executable.Forward(); err != nil {
		return err
	}
	e.signature.PadIgnoredLabels(x.used[:len(s.Columns())])
	return nil
}
