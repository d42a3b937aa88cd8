package layer

import (
	"fmt"

	"github.com/dptrain/dptrain/internal/op"
	G "gorgonia.org/gorgonia"
)

// Recurrent says how recurrent layers are put together.
//
// They read padding as any other step, and their state moves over it. Padding behind all
// other steps, where engine/data puts it, moves no state of those; reading from the end
// meets it first, and what an example says then depends on how far it is padded.
type Recurrent struct {
	Layers        int  // one upon the other; 0 means 1
	Bidirectional bool // each layer also reads from the end, and gives both results side by side
}

// cell is one recurrent layer in one direction.
type cell func(x *G.Node, name string, hidden int, reverse bool) *G.Node

// LSTM gives the hidden states [batch, time, hidden] of a long short-term memory
// that reads x [batch, time, features], or [batch, time, 2·hidden] in both
// directions. Layer k has parameters name.k.input.weight [in, 4·hidden],
// name.k.input.bias [4·hidden] and name.k.hidden.weight [hidden, 4·hidden], and
// the same under name.k.reverse. Gates follow PyTorch's order i, f, g, o and the
// weights are the transposes of PyTorch's, whose two biases are added up in one:
// two would count twice in a record's norm.
func (n *Net) LSTM(x *G.Node, name string, hidden int, r Recurrent) *G.Node {
	return n.recurrent(x, name, hidden, r, n.lstm)
}

// GRU gives the hidden states of gated recurrent units, as LSTM does. Gates
// follow PyTorch's order r, z, n; name.k.input.weight is [in, 3·hidden],
// name.k.hidden.weight [hidden, 3·hidden], and name.k.hidden.bias [hidden] is the
// candidate's, the only one that PyTorch's second bias does not merely repeat.
func (n *Net) GRU(x *G.Node, name string, hidden int, r Recurrent) *G.Node {
	return n.recurrent(x, name, hidden, r, n.gru)
}

func (n *Net) recurrent(x *G.Node, name string, hidden int, r Recurrent, layer cell) *G.Node {
	if !n.sequence(name, x) {
		return nil
	}
	if r.Layers < 0 {
		return n.fail(fmt.Errorf("%s: %d layers: at least one is needed", name, r.Layers))
	}
	for k := range orOne(r.Layers) {
		if n.err != nil {
			return nil
		}
		own := fmt.Sprintf("%s.%d", name, k)
		y := layer(x, own, hidden, false)
		if r.Bidirectional {
			y = n.apply(own, op.Join{}, y, layer(x, own+".reverse", hidden, true))
		}
		x = y
	}
	return x
}

// gates is the input's share of the gates for all steps at once, and the weight
// of the hidden states.
func (n *Net) gates(x *G.Node, name string, hidden, count int) (share, weight *G.Node) {
	start := fanIn(hidden) // of inputs too, as in PyTorch
	w := n.Param(name+".input.weight", start, x.Shape()[2], count*hidden)
	b := n.Param(name+".input.bias", start, count*hidden)
	rows, back := n.rows(name, x)
	share = back(n.apply(name, op.Linear{}, rows, w, b))
	return share, n.Param(name+".hidden.weight", start, hidden, count*hidden)
}

func (n *Net) lstm(x *G.Node, name string, hidden int, reverse bool) *G.Node {
	share, w := n.gates(x, name, hidden, 4)
	trace := n.apply(name, op.LSTMTrace{Reverse: reverse}, share, w)
	return n.apply(name, op.LSTM{Reverse: reverse}, share, w, trace)
}

func (n *Net) gru(x *G.Node, name string, hidden int, reverse bool) *G.Node {
	share, w := n.gates(x, name, hidden, 3)
	b := n.Param(name+".hidden.bias", fanIn(hidden), hidden)
	trace := n.apply(name, op.GRUTrace{Reverse: reverse}, share, w, b)
	return n.apply(name, op.GRU{Reverse: reverse}, share, w, b, trace)
}
