package engine

import (
	"context"
	"reflect"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/frozen"
	"github.com/dptrain/dptrain/engine/internal/network"
	"github.com/dptrain/dptrain/internal/host/memory"
)

// keptOutputs are the outputs of a network's frozen first layers for a set, and the layers behind them.
type keptOutputs struct {
	evaluation
	set             data.Set
	outputs         *frozen.Outputs
	inputsOfOutputs [][]float32 // of the executable
}

// KeepFrozen makes the evaluator compute the outputs of frozen first layers once for a set. Score and Predict
// of this set then compute the layers behind them, with the same bits. It has no effect on a GPU, for a network
// without such layers, and where the outputs would take more than half of the memory that is left.
func (e *Evaluator) KeepFrozen(s data.Set) error {
	if e.device.Name() != "cpu" || s.Len() == 0 || !reflect.ValueOf(s).Comparable() {
		return nil
	}
	private, program, err := network.LowerTrainedLayers(e.build, e.whole.size)
	if err != nil || program == nil || !memory.AtStart().Fits(2*frozen.BytesFor(private, s.Len())) {
		return err
	}
	batch := e.whole.size
	k := &keptOutputs{set: s, evaluation: evaluation{
		size: batch, program: program, rows: make([]int, batch), used: make([][]float32, len(private.Inputs)),
	}}
	if k.outputs, err = frozen.New(e.device, private, s, nil); err != nil {
		return err
	}
	e.kept = k
	return nil
}

// keptFor returns the kept outputs of a set, computed; nil if it has none.
func (e *Evaluator) keptFor(s data.Set) (*keptOutputs, error) {
	k := e.kept
	if k == nil || k.set != s || !e.borrows {
		return nil, nil
	}
	if err := k.outputs.Compute(context.Background()); err != nil {
		return nil, err
	}
	if k.executable == nil {
		if err := k.open(e.device, e.weights); err != nil {
			return nil, err
		}
		k.inputsOfOutputs = nil
		for i := range k.outputs.Count() {
			k.inputsOfOutputs = append(k.inputsOfOutputs, k.executable.Input(len(k.used)+i))
		}
	}
	return k, nil
}
