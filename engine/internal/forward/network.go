// Package forward computes the outputs and the losses of a network for the examples of a set, batch by
// batch:
//
//	set ──Read──▶ Batch.Columns ──Compute──▶ Batch.Executable.Losses, .Output
//
// A [Network] is lowered for one large batch and, for sets with few examples, for small ones. All batches
// compute with the same weights.
package forward

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/network"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/perexample"
)

// LargestBatch is the number of examples that are computed together, if memory permits.
const LargestBatch = 256

// smallBatches are the numbers of examples for which a network is compiled again where a set has no more,
// so that one example does not take the time of a whole batch.
var smallBatches = []int{1, 8, 64}

// Network is a network on a device. On the CPU it computes with the caller's weights and has none of its
// own. It serves one goroutine.
type Network struct {
	Signature network.Signature

	build   perexample.Build
	device  plan.Device
	weights [][]float32 // of the executables; nil before there are any
	borrows bool        // executables compute with the caller's memory
	whole   *Batch
	small   map[int]*Batch // by elements of smallBatches; absent before a set needs them
	kept    *keptOutputs   // nil if no set has any
}

// New compiles a network, for as many examples as memory permits. A network that runs compute one record
// at a time, because an operation has no per-example rule, is computed one example at a time. The CPU
// replaces the device gorgonia.
func New(build perexample.Build, options network.DeviceOptions) (*Network, error) {
	needsSingle, err := build.NeedsSingleExamples()
	if err != nil {
		return nil, err
	}
	if _, err := options.Resolve(); err != nil {
		return nil, err
	}
	if options.Name == "gorgonia" {
		options.Name = "cpu"
	}
	device, err := options.Open(0, nil)
	if err != nil {
		return nil, err
	}
	limit, err := device.MemoryLimit()
	if err != nil {
		return nil, err
	}
	n := &Network{build: build, device: device}
	batch := LargestBatch
	if needsSingle {
		batch = 1
	}
	for ; ; batch /= 2 {
		if err := n.lowerWhole(batch); err != nil {
			return nil, err
		}
		p := n.whole.program
		if batch == 1 || int64(p.MicrobatchBytes()) <= limit && device.PreferredMicrobatch(p) == p.Records {
			return n, nil
		}
	}
}

// lowerWhole lowers the network for the largest batch.
func (n *Network) lowerWhole(batch int) (err error) {
	n.whole, n.Signature, err = n.lower(batch)
	return err
}

// lower lowers the network for a batch.
func (n *Network) lower(size int) (*Batch, network.Signature, error) {
	net, program, err := network.LowerEvaluation(n.build, size)
	if err != nil {
		return nil, network.Signature{}, err
	}
	return newBatch(program, size, len(net.Inputs)), network.SignatureOf(net), nil
}

// Close ends the threads of the network and frees its memory. The next Load opens it again.
func (n *Network) Close() error {
	err := n.whole.close()
	for _, b := range n.small {
		err = errors.Join(err, b.close())
	}
	n.small = nil
	if n.kept != nil {
		err = errors.Join(err, n.kept.close())
	}
	return err
}

// Weights returns the weights that were loaded last; before that, the network's starting values.
func (n *Network) Weights() [][]float32 {
	if n.weights != nil {
		return n.weights
	}
	for _, v := range n.whole.program.Parameters {
		w := make([]float32, v.Shape.TotalSize())
		n.whole.program.Buffers[v.Value].Initialize(w)
		n.weights = append(n.weights, w)
	}
	return n.weights
}

// Load loads the weights to compute with, one slice per parameter. It fails where memory is short.
func (n *Network) Load(weights [][]float32) error {
	parameters := n.whole.program.Parameters
	if len(parameters) != len(weights) {
		return fmt.Errorf("evaluation: got %d parameters, and the network has %d", len(weights), len(parameters))
	}
	areLoaded := n.whole.Executable != nil
	for v := range parameters {
		if size := parameters[v].Shape.TotalSize(); size != len(weights[v]) {
			return fmt.Errorf("evaluation: parameter %d has %d elements, and the network needs %d", v, len(weights[v]), size)
		}
		areLoaded = areLoaded && &weights[v][0] == &n.weights[v][0]
	}
	switch {
	case areLoaded:
	case n.whole.Executable != nil && !n.borrows:
		for v := range weights {
			copy(n.weights[v], weights[v])
		}
	default:
		if err := n.openWhole(weights); err != nil {
			return err
		}
	}
	return n.whole.Executable.LoadState()
}

// openWhole opens the executable of the largest batch for weights. The batch becomes smaller where memory
// is short.
func (n *Network) openWhole(weights [][]float32) error {
	if err := n.Close(); err != nil {
		return err
	}
	for {
		err := n.whole.open(n.device, weights)
		if err == nil {
			break
		}
		if !errors.Is(err, plan.ErrOutOfMemory) || n.whole.Size == 1 {
			return err
		}
		if err := n.lowerWhole(n.whole.Size / 2); err != nil {
			return err
		}
	}
	n.weights = n.whole.Executable.State().Weights
	n.borrows = &n.weights[0][0] == &weights[0][0]
	debug.FreeOSMemory() // the memory of the graph
	return nil
}

// BatchFor returns the smallest batch that contains a number of examples, or the largest batch. Weights
// are loaded.
func (n *Network) BatchFor(examples int) *Batch {
	i := slices.IndexFunc(smallBatches, func(size int) bool { return size >= examples })
	if i < 0 || smallBatches[i] >= n.whole.Size || !n.borrows {
		return n.whole
	}
	size := smallBatches[i]
	if n.small[size] == nil {
		b, _, err := n.lower(size)
		if err == nil {
			err = b.open(n.device, n.weights)
		}
		if err != nil { // memory is short, or the network has no form for this number: the largest batch gives the same outputs
			b = n.whole
		}
		if n.small == nil {
			n.small = map[int]*Batch{}
		}
		n.small[size] = b
	}
	return n.small[size]
}

// ForEachBatch computes the network for a set, and calls do after each batch: from is its first example, and
// count the number of its examples. Weights are loaded.
func (n *Network) ForEachBatch(s data.Set, do func(b *Batch, from, count int) error) error {
	b := n.BatchFor(s.Len())
	kept, err := n.keptFor(s)
	if err != nil {
		return err
	}
	if kept != nil {
		b = &kept.Batch
	}
	for from := 0; from < s.Len(); from += b.Size {
		count := min(b.Size, s.Len()-from)
		if err := b.Read(s, from, count); err != nil {
			return err
		}
		if kept != nil {
			kept.outputs.Read(kept.inputsOfOutputs, b.rows[:count])
		}
		if err := b.Executable.Forward(); err != nil {
			return err
		}
		n.Signature.PadIgnoredLabels(b.Columns[:len(s.Columns())])
		if err := do(b, from, count); err != nil {
			return err
		}
	}
	return nil
}
