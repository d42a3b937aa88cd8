package layer

import (
	"fmt"

	"github.com/dptrain/dptrain/internal/device/op"
	G "gorgonia.org/gorgonia"
)

// RecurrentOptions configures LSTM and GRU.
//
// Recurrent layers treat padding as any other step: it updates their state. Package
// engine/data puts padding at the end of a sequence, so padding does not affect the
// states of the steps before it. A reverse layer reads the padding first, so
// its states depend on the amount of padding.
type RecurrentOptions struct {
	Layers        int  // stacked layers; 0 means 1
	Bidirectional bool // each layer also reads in reverse, and returns both results side by side
}

// recurrentLayer adds one layer in one direction.
type recurrentLayer func(b *Builder, x *G.Node, name string, hidden int, reverse bool) *G.Node

// LSTM returns the hidden states [batch, time, hidden] of a long short-term memory
// that reads x [batch, time, features]; if bidirectional, [batch, time, 2·hidden].
// Layer k has the parameters name.k.input.weight [in, 4·hidden], name.k.input.bias
// [4·hidden] and name.k.hidden.weight [hidden, 4·hidden]. A reverse layer has the
// same under name.k.reverse. The gates have PyTorch's order i, f, g, o, and the
// weights are the transposes of PyTorch's. PyTorch's two biases are one here, their
// sum: two would count twice in a record's norm.
func LSTM(b *Builder, x *G.Node, name string, hidden int, o RecurrentOptions) *G.Node {
	return stackRecurrent(b, x, name, hidden, o, addLSTM)
}

// GRU returns the hidden states of gated recurrent units, as LSTM does. The gates
// have PyTorch's order r, z, n. The weights are name.k.input.weight [in, 3·hidden] and
// name.k.hidden.weight [hidden, 3·hidden]. The bias name.k.hidden.bias [hidden] is that
// of the candidate n, because the other gates' second bias in PyTorch only repeats
// the first.
func GRU(b *Builder, x *G.Node, name string, hidden int, o RecurrentOptions) *G.Node {
	return stackRecurrent(b, x, name, hidden, o, addGRU)
}

func stackRecurrent(b *Builder, x *G.Node, name string, hidden int, o RecurrentOptions, add recurrentLayer) *G.Node {
	if !b.requireSequence(name, x) {
		return nil
	}
	if o.Layers < 0 {
		return b.fail(fmt.Errorf("%s: %d layers: at least one is needed", name, o.Layers))
	}
	for k := range orOne(o.Layers) {
		if b.err != nil {
			return nil
		}
		layer := fmt.Sprintf("%s.%d", name, k)
		y := add(b, x, layer, hidden, false)
		if o.Bidirectional {
			y = b.apply(layer, op.Join{}, y, add(b, x, layer+".reverse", hidden, true))
		}
		x = y
	}
	return x
}

// recurrentInput returns the input's contribution to the gates of all steps, and the
// weight of the hidden states.
func recurrentInput(b *Builder, x *G.Node, name string, hidden, gates int) (contribution, hiddenWeight *G.Node) {
	init := fanIn(hidden) // for the input weight too, as in PyTorch
	w := b.Parameter(name+".input.weight", init, x.Shape()[2], gates*hidden)
	bias := b.Parameter(name+".input.bias", init, gates*hidden)
	rows, restore := b.flattenRows(name, x)
	contribution = restore(b.apply(name, op.Linear{}, rows, w, bias))
	return contribution, b.Parameter(name+".hidden.weight", init, hidden, gates*hidden)
}

func addLSTM(b *Builder, x *G.Node, name string, hidden int, reverse bool) *G.Node {
	in, w := recurrentInput(b, x, name, hidden, 4)
	trace := b.apply(name, op.LSTMTrace{Reverse: reverse}, in, w)
	return b.apply(name, op.LSTM{Reverse: reverse}, in, w, trace)
}

func addGRU(b *Builder, x *G.Node, name string, hidden int, reverse bool) *G.Node {
	in, w := recurrentInput(b, x, name, hidden, 3)
	bias := b.Parameter(name+".hidden.bias", fanIn(hidden), hidden)
	trace := b.apply(name, op.GRUTrace{Reverse: reverse}, in, w, bias)
	return b.apply(name, op.GRU{Reverse: reverse}, in, w, bias, trace)
}
