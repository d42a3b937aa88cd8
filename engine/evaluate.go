package engine

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/plan"
	"github.com/dptrain/dptrain/perexample"
)

// Evaluation is how well a network does on a set. It is a function of the set's
// examples: public only where the set is.
//
// Labels are those that package layer's cross-entropy compares the network's Output with;
// where the network has no such loss, of the first column whose classes the Output may score.
type Evaluation struct {
	Examples int
	Labels   int     // that were compared with an answer, but for data.Pad and layer.IgnoreLabel's; 0 where the Output scores no classes
	Accuracy float64 // the share of Labels that were right; 0 where Labels is
	Loss     float64 // mean; 0 where the network keeps no losses
	// Confusion counts, for each true class, what was answered.
	Confusion        [][]int
	Targets          int // numbers that were to be predicted; 0 where no loss such as layer.SquaredError compares the Output with them
	RegressionErrors     // of these; zeros where Targets is 0
}

// RegressionErrors are by how much answers miss targets, in the targets' own units where their column
// has Bounds, else in those of its numbers.
type RegressionErrors struct {
	RMSE float64 // the root of the mean squared error
	MAE  float64 // the mean absolute error
	R2   float64 // 1 less the squared errors as a share of those of the targets' means; NaN where targets do not vary
}

// evaluationBatch is how many examples are scored together, where they fit.
const evaluationBatch = 256

// Evaluator scores weights on sets. On the CPU it computes with them where they lie,
// and has none of its own. It serves one goroutine.
type Evaluator struct {
	build   perexample.Build
	device  plan.Device
	network face
	program *plan.Program
	weights [][]float32     // that the machine has; nil before there are any
	borrows bool            // the machine computes with the caller's own memory
	machine plan.Executable // nil before it has weights
	inputs  [][]float32
	used    [][]float32
	rows    []int
}

// NewEvaluator builds the network for evaluation. It refuses one that a run would
// refuse, such as one whose answer to an example depends on the others in the batch.
// One that a run computes one record at a time, for an operation that has no rule, it
// asks one example at a time. The CPU stands in for the device gorgonia.
func NewEvaluator(build perexample.Build, place DeviceOptions) (*Evaluator, error) {
	alone, err := build.NeedsSingleExamples()
	if err != nil {
		return nil, err
	}
	if _, err := place.settle(); err != nil {
		return nil, err
	}
	if place.Name == "gorgonia" {
		place.Name = "cpu"
	}
	device, err := place.open()
	if err != nil {
		return nil, err
	}
	limit, err := device.MemoryLimit()
	if err != nil {
		return nil, err
	}
	e := &Evaluator{build: build, device: device}
	batch := evaluationBatch
	if alone {
		batch = 1
	}
	for ; ; batch /= 2 {
		if err := e.lower(batch); err != nil {
			return nil, err
		}
		if batch == 1 || int64(e.program.MicrobatchBytes()) <= limit && device.PreferredMicrobatch(e.program) == e.program.Records {
			return e, nil
		}
	}
}

// lower builds the network for so many examples at a time.
func (e *Evaluator) lower(batch int) error {
	net, program, err := evaluation(e.build, batch)
	if err != nil {
		return err
	}
	e.network, e.program = faceOf(net), program
	e.rows, e.used = make([]int, batch), make([][]float32, len(net.Inputs))
	return nil
}

// evaluation lowers the network's forward pass.
func evaluation(build perexample.Build, batch int) (*perexample.Network, *plan.Program, error) {
	net, err := build.ForBatch(batch)
	if err != nil {
		return nil, nil, err
	}
	program, err := plan.LowerEvaluation(net)
	return net, program, err
}

// Close ends the evaluator's threads and gives its memory back.
func (e *Evaluator) Close() error {
	m := e.machine
	if m == nil {
		return nil
	}
	e.machine = nil
	return m.Close()
}

// Weights are those that were scored last, at first the network's starting values.
func (e *Evaluator) Weights() [][]float32 {
	if e.weights != nil {
		return e.weights
	}
	for _, v := range e.program.Parameters {
		w := make([]float32, v.Shape.TotalSize())
		e.program.Buffers[v.Value].Initialize(w)
		e.weights = append(e.weights, w)
	}
	return e.weights
}

// Score evaluates weights, one slice a parameter, on a set.
func (e *Evaluator) Score(weights [][]float32, s data.Set) (Evaluation, error) {
	if err := e.readyFor(weights, s, e.network); err != nil {
		return Evaluation{}, err
	}
	score := Evaluation{Examples: s.Len()}
	columns := s.Columns()
	label, scores := e.network.scored(columns)
	if label >= 0 {
		score.Confusion = make([][]int, min(columns[label].Classes, scores))
		for i := range score.Confusion {
			score.Confusion[i] = make([]int, scores)
		}
	}
	losses, output := e.machine.Losses(), e.machine.Output()
	target := e.network.target
	var missed misses
	padded := label >= 0 && (len(columns[label].Shape) > 0 || e.network.label.ignored != data.Pad)
	err := e.each(s, func(_, n int) error {
		for _, l := range losses[:n*(len(losses)/e.network.batch)] {
			score.Loss += float64(l)
		}
		if target >= 0 {
			missed.add(e.used[target], output, e.network.output)
		}
		if label >= 0 {
			return score.count(columns[label], padded, e.used[label], output, scores)
		}
		return nil
	})
	if err != nil {
		return Evaluation{}, err
	}
	right := 0
	for i := range score.Confusion {
		right += score.Confusion[i][i]
	}
	if score.Labels > 0 {
		score.Accuracy = float64(right) / float64(score.Labels)
	}
	score.Loss /= float64(s.Len())
	if target >= 0 {
		score.Targets, score.RegressionErrors = missed.count, missed.errors(columns[target].ScaleFactor())
	}
	return score, nil
}

// count compares labels, but for those that are padding, with the scores that they were
// answered by, so many for each.
func (e *Evaluation) count(column data.Column, padded bool, labels, answers []float32, scores int) error {
	for i, l := range labels {
		truth := int(l)
		if truth == data.Pad && padded {
			continue
		}
		if truth < 0 || truth >= len(e.Confusion) {
			return fmt.Errorf("evaluation: column %s holds a label that is not between 0 and %d", column.Name, len(e.Confusion)-1)
		}
		e.Confusion[truth][argmax(answers[i*scores:(i+1)*scores])]++
		e.Labels++
	}
	return nil
}

// Predictions are what the network answers, by weights, to each example of a set: its
// Output, one slice an example. They do not depend on columns that the loss alone
// reads, such as labels, and the set may be without those at the end.
func (e *Evaluator) Predictions(weights [][]float32, s data.Set) (all [][]float32, err error) {
	err = e.Predict(weights, s, func(_ int, answer []float32) error {
		all = append(all, slices.Clone(answer))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Predict is Answers one at a time, for more examples than memory holds answers to: each
// goes to a function, in order, which may read it until it returns and whose error ends all.
func (e *Evaluator) Predict(weights [][]float32, s data.Set, to func(example int, answer []float32) error) error {
	network := e.network
	if s != nil {
		network = network.without(len(s.Columns()))
	}
	if err := e.readyFor(weights, s, network); err != nil {
		return err
	}
	size := e.network.output
	if size == 0 {
		return fmt.Errorf("evaluation: the network keeps no answers: set Output of the network")
	}
	return e.each(s, func(from, n int) error {
		for i := range n {
			if err := to(from+i, e.machine.Output()[i*size:(i+1)*size]); err != nil {
				return err
			}
		}
		return nil
	})
}

// readyFor makes weights ready to be computed with on a set for so much of the network.
func (e *Evaluator) readyFor(weights [][]float32, s data.Set, network face) error {
	if s == nil {
		return fmt.Errorf("evaluation without a set: give one with at least one example")
	}
	if err := network.check(s.Columns()); err != nil {
		return err
	}
	if s.Len() == 0 {
		return fmt.Errorf("evaluation on a set of no examples: give at least one")
	}
	return e.LoadWeights(weights)
}

// LoadWeights takes the weights to compute with, as Score and Answer do by themselves. It is an
// error if there is no memory for that.
func (e *Evaluator) LoadWeights(weights [][]float32) error {
	vectors := e.program.Parameters
	if len(vectors) != len(weights) {
		return fmt.Errorf("evaluation: %d parameters given, the network has %d", len(weights), len(vectors))
	}
	there := e.machine != nil
	for v := range vectors {
		if size := vectors[v].Shape.TotalSize(); size != len(weights[v]) {
			return fmt.Errorf("evaluation: parameter %d has %d elements, the network wants %d", v, len(weights[v]), size)
		}
		there = there && &weights[v][0] == &e.weights[v][0]
	}
	switch {
	case there:
	case e.machine != nil && !e.borrows:
		for v := range weights {
			copy(e.weights[v], weights[v])
		}
	default:
		if err := e.open(weights); err != nil {
			return err
		}
	}
	return e.machine.LoadState()
}

// open makes a machine for weights, of fewer examples where memory is short.
func (e *Evaluator) open(weights [][]float32) error {
	if err := e.Close(); err != nil {
		return err
	}
	for {
		m, err := e.device.Compile(e.program.WithBorrowedWeights(weights), plan.Optimizer{Kind: plan.SGD}, false)
		if err == nil {
			e.machine, e.weights, e.inputs = m, m.State().Weights, nil
			e.borrows = &e.weights[0][0] == &weights[0][0]
			break
		}
		if !errors.Is(err, plan.ErrOutOfMemory) || e.network.batch == 1 {
			return err
		}
		if err := e.lower(e.network.batch / 2); err != nil {
			return err
		}
	}
	e.program = e.program.Stripped()
	debug.FreeOSMemory() // that the graph took
	for k := range e.used {
		e.inputs = append(e.inputs, e.machine.Input(k))
	}
	return nil
}

// each runs the network over a set, a batch at a time, and tells do which n examples, from
// one on, it has run over.
func (e *Evaluator) each(s data.Set, do func(from, n int) error) error {
	for from := 0; from < s.Len(); from += e.network.batch {
		n := min(e.network.batch, s.Len()-from)
		for i := range n {
			e.rows[i] = from + i
		}
		for k, in := range e.inputs {
			e.used[k] = in[:n*(len(in)/e.network.batch)]
		}
		if err := s.Read(e.used[:len(s.Columns())], e.rows[:n]); err != nil {
			return err
		}
		if err := e.machine.Forward(); err != nil {
			return err
		}
		e.network.blank(e.used[:len(s.Columns())])
		if err := do(from, n); err != nil {
			return err
		}
	}
	return nil
}
