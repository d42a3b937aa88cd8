package drawdiscard

import (
	"fmt"

	"github.com/dptrain/dptrain/engine/data"
)

// LoadRecords reads all examples of a task as the records of one client. Features are scaled to
// [0, 1] by public constants: numeric columns by their bounds, words as a one-hot encoding, pixels
// by their range; other numbers are clipped to [0, 1]. Targets are scaled to [-1, 1] by their
// bounds, except the counts of a Poisson model. A blank example is left out.
func LoadRecords(task *data.Task, spec Spec) (Records, error) {
	columns := task.Train.Columns()
	if len(columns) != 2 {
		return Records{}, fmt.Errorf("the data have %d columns; a model of draw and discard reads the features and one label or target", len(columns))
	}
	features, label := columns[0], columns[1]
	switch {
	case features.Size() != spec.Inputs.Size():
		return Records{}, fmt.Errorf("the examples have %d features, and the model reads %d; use the bounds, vocabularies and shapes that the model's owner publishes", features.Size(), spec.Inputs.Size())
	case label.Size() != 1:
		return Records{}, fmt.Errorf("the examples have %d labels; a model of draw and discard predicts one", label.Size())
	case label.Kind == data.Label && label.Classes != spec.Classes:
		return Records{}, fmt.Errorf("the data have %d classes, and the model has %d", label.Classes, spec.Classes)
	case label.Kind == data.Target && spec.Classes != 0:
		return Records{}, fmt.Errorf("the data have a target, and the model predicts one of %d classes", spec.Classes)
	case (features.Kind == data.Index) != (spec.Vocabulary > 0) || features.Kind == data.Index && features.Classes != spec.Vocabulary:
		return Records{}, fmt.Errorf("the data have a vocabulary of %d, and the model has one of %d", features.Classes, spec.Vocabulary)
	}
	counts := Family(spec.Model) == Poisson
	if counts && label.Kind == data.Target && label.Bounds[0] < 0 {
		return Records{}, fmt.Errorf("a poisson model predicts counts, and the target's bounds begin at %v; use bounds of 0 or more", label.Bounds[0])
	}
	n, width := task.Train.Len(), features.Size()
	r := Records{Features: make([]float32, n*width), Labels: make([]float32, n)}
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	if err := task.Train.Read([][]float32{r.Features, r.Labels}, rows); err != nil {
		return Records{}, err
	}
	if features.Kind != data.Index {
		scaleFeatures(r.Features, BoundedFeatures(task.Schema, width))
	}
	if counts && label.Bounds != (data.Bounds{}) {
		for i, y := range r.Labels {
			r.Labels[i] = float32(label.Bounds.Unscale(float64(y)))
		}
	}
	return r.without(data.Blank(task.Train), width), nil
}

// BoundedFeatures reports which features of a table have the range [-1, 1] of the bounds of their
// column, which LoadRecords changes to [0, 1]. The others are 0 or 1. The schema states the order of
// the columns.
func BoundedFeatures(s data.Schema, width int) []bool {
	slots := make([]bool, 0, width)
	for _, c := range s.InputColumns() {
		at := len(slots)
		slots = append(slots, make([]bool, c.Width())...)
		slots[at] = c.Words == nil
	}
	if len(slots) != width {
		return make([]bool, width)
	}
	return slots
}

func scaleFeatures(features []float32, bounded []bool) {
	for i, x := range features {
		if bounded[i%len(bounded)] {
			x = (x + 1) / 2
		}
		features[i] = max(0, min(1, x))
	}
}

// without returns the records that are not blank.
func (r Records) without(blank []bool, width int) Records {
	if blank == nil {
		return r
	}
	kept := 0
	for i, skip := range blank {
		if !skip {
			copy(r.Features[kept*width:][:width], r.Features[i*width:])
			r.Labels[kept] = r.Labels[i]
			kept++
		}
	}
	return Records{r.Features[:kept*width], r.Labels[:kept]}
}
