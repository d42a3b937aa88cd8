package engine

import (
	"fmt"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/forward"
	"github.com/dptrain/dptrain/engine/internal/network"
	"github.com/dptrain/dptrain/engine/internal/score"
)

// mostConfused is the largest number of classes with a confusion matrix. That of a vocabulary of 50,000 would take 20 GB.
const mostConfused = 4096

// scorer compares outputs with labels or targets, batch by batch.
type scorer struct {
	network network.Signature
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
	sc := &scorer{network: e.network.Signature, each: each, columns: s.Columns(), target: e.network.Signature.TargetInput}
	sc.result.Examples = s.Len()
	sc.label, sc.scores = sc.network.ScoredLabel(sc.columns)
	if sc.label < 0 {
		return sc
	}
	column := sc.columns[sc.label]
	sc.classes = min(column.Classes, sc.scores)
	sc.mayPad = len(column.Shape) > 0 || sc.network.Label.Ignored != data.Pad
	if sc.scores <= mostConfused {
		sc.result.Confusion = make([][]int, sc.classes)
		for i := range sc.result.Confusion {
			sc.result.Confusion[i] = make([]int, sc.scores)
		}
	}
	return sc
}

// add adds a batch of n examples, whose columns are in b, with the network's losses and outputs.
func (sc *scorer) add(b *forward.Batch, n int, losses, output []float32) error {
	if compared := max(sc.label, sc.target); sc.each != nil && compared >= 0 {
		expected := b.Columns[compared]
		for i, size, outputs := 0, len(expected)/n, sc.network.OutputSize; i < n; i++ {
			sc.each(expected[i*size:(i+1)*size], output[i*outputs:(i+1)*outputs])
		}
	}
	for _, l := range losses[:n*b.LossesPerExample()] {
		sc.result.Loss += float64(l)
	}
	if sc.target >= 0 {
		sc.metrics.Add(b.Columns[sc.target], output, sc.network.OutputSize)
	}
	if sc.label >= 0 {
		return sc.result.countPredictions(sc.columns[sc.label], sc.classes, sc.mayPad, b.Columns[sc.label], output, sc.scores)
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
