package forward

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
	Batch
	set             data.Set
	outputs         *frozen.Outputs
	inputsOfOutputs [][]float32 // of the executable
}

// KeepFrozen makes the network compute the outputs of its frozen first layers once for a set. ForEachBatch
// of this set then computes the layers behind them, with the same bits. It has no effect on a GPU, for a
// network without such layers, and where the outputs would take more than half of the memory that is left.
func (n *Network) KeepFrozen(s data.Set) error {
	if n.device.Name() != "cpu" || s.Len() == 0 || !reflect.ValueOf(s).Comparable() {
		return nil
	}
	private, program, err := network.LowerTrainedLayers(n.build, n.whole.Size)
	if err != nil || program == nil || !memory.AtStart().Fits(2*frozen.BytesFor(private, s.Len())) {
		return err
	}
	k := &keptOutputs{set: s, Batch: *newBatch(program, n.whole.Size, len(private.Inputs))}
	rows := make([]int, s.Len())
	for i := range rows {
		rows[i] = i
	}
	if k.outputs, err = frozen.New(n.device, private, s, rows, 1); err != nil {
		return err
	}
	n.kept = k
	return nil
}

// KeepsFrozen reports whether the outputs of frozen first layers are kept for a set.
func (n *Network) KeepsFrozen() bool { return n.kept != nil }

// keptFor returns the kept outputs of a set, computed; nil if it has none.
func (n *Network) keptFor(s data.Set) (*keptOutputs, error) {
	k := n.kept
	if k == nil || k.set != s || !n.borrows {
		return nil, nil
	}
	if err := k.outputs.Compute(context.Background()); err != nil {
		return nil, err
	}
	if k.Executable == nil {
		if err := k.open(n.device, n.weights); err != nil {
			return nil, err
		}
		k.inputsOfOutputs = nil
		for i := range k.outputs.Count() {
			k.inputsOfOutputs = append(k.inputsOfOutputs, k.Executable.Input(len(k.Columns)+i))
		}
	}
	return k, nil
}
