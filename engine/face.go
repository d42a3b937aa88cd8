package engine

import (
	"fmt"
	"slices"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
)

// face is what data meet of a network, without the graph and the weights in it.
type face struct {
	batch  int
	inputs []facet
	asked  int // how many of the inputs, the first ones, answers depend on
	output int // numbers that an example is answered with; 0: none are kept
	target int // the input that answers are to come near to; -1: none
	label  label
}

// label is the input whose classes answers are scores of.
type label struct {
	known   bool // else any column of labels may be it
	input   int  // -1: none, or not known
	ignored int  // the class that is none, as layer.IgnoreLabel has it; data.Pad: there is none
}

// facet is an input: its name, how many numbers of an example it takes, and, where
// they name entries of a table or classes, how many there are; else 0.
type facet struct {
	name    string
	size    int
	entries int
}

// unknown is the label of a network of which no cross-entropy tells.
var unknown = label{input: -1, ignored: data.Pad}

func faceOf(n *perexample.Network) face {
	f := face{batch: n.Batch, target: -1, label: unknown}
	named := entries(n)
	for _, in := range n.Inputs {
		f.inputs = append(f.inputs, facet{in.Name(), in.Shape().TotalSize() / n.Batch, named[in]})
	}
	if n.Output != nil {
		f.output = n.Output.Shape().TotalSize() / n.Batch
		f.asked = asked(n)
		if f.target = slices.Index(n.Inputs, n.Target); n.Target == nil {
			f.target = predicted(n)
		}
		if f.label = declared(n); n.Label == nil {
			f.label = answered(n)
		}
	}
	return f
}

// declared is the label that the network declares, with the class that its
// cross-entropies ignore.
func declared(n *perexample.Network) label {
	l := label{true, slices.Index(n.Inputs, n.Label), data.Pad}
	for _, loss := range n.Loss.Graph().AllNodes() {
		if _, is := op.SpecOf(loss).(op.CrossEntropy); !is {
			continue
		}
		labels := reshaped(op.Operands(loss)[1])
		if r, replaced := op.SpecOf(labels).(op.Replace); replaced && reshaped(op.Operands(labels)[0]) == n.Label {
			l.ignored = int(r.Old)
			break
		}
	}
	return l
}

// asked is how many of the inputs, the first ones, reach the output.
func asked(n *perexample.Network) (first int) {
	read := op.Ancestors(n.Output)
	for k, in := range n.Inputs {
		if slices.Contains(read, in) {
			first = k + 1
		}
	}
	return first
}

// predicted is the input that the loss measures the output's distance from; -1 where it does
// nothing of the kind, as where the output is the logarithm of a rate.
func predicted(n *perexample.Network) int {
	for _, loss := range n.Loss.Graph().AllNodes() {
		switch o := op.SpecOf(loss).(type) {
		case op.SquaredError:
		case op.ElementLosses:
			if o.Kind != op.AbsoluteError && o.Kind != op.HuberError {
				continue
			}
		default:
			continue
		}
		if in := op.Operands(loss); in[0] == n.Output {
			return slices.Index(n.Inputs, in[1])
		}
	}
	return -1
}

// answered is the label that cross-entropy compares the output with, or what the output is made
// of number by number, such as the logits of its softmax. Of several heads each has its own.
func answered(n *perexample.Network) label {
	asked := map[*G.Node]label{}
	for _, loss := range n.Loss.Graph().AllNodes() {
		if _, is := op.SpecOf(loss).(op.CrossEntropy); !is {
			continue
		}
		in := op.Operands(loss)
		labels, ignored := reshaped(in[1]), data.Pad
		if r, replaced := op.SpecOf(labels).(op.Replace); replaced {
			labels, ignored = reshaped(op.Operands(labels)[0]), int(r.Old)
		}
		if x := reshaped(in[0]); !asked[x].known {
			asked[x] = label{true, slices.Index(n.Inputs, labels), ignored}
		}
	}
	for x := n.Output; ; {
		if l, is := asked[x]; is {
			return l
		}
		in := op.Operands(x)
		switch op.Canonical(x).(type) {
		case op.Reshape, op.Softmax, op.Unary, op.Activate, op.Add, op.Binary:
			if x = in[0]; x.Shape().TotalSize() == 1 && len(in) > 1 { // a number times the rest
				x = in[1]
			}
		default:
			return label{len(asked) > 0, -1, data.Pad}
		}
	}
}

// reshaped is the node that a node gives another shape.
func reshaped(x *G.Node) *G.Node {
	for {
		if _, is := op.Canonical(x).(op.Reshape); !is {
			return x
		}
		x = op.Operands(x)[0]
	}
}

// without is the face that a set of the first columns meets, where answers need no more.
func (f face) without(columns int) face {
	if columns >= f.asked && columns < len(f.inputs) {
		f.inputs = f.inputs[:columns]
	}
	return f
}

// entries counts what the numbers of an input name: the rows of the smallest table
// that they are looked up in, or the classes that they are labels of.
func entries(n *perexample.Network) map[*G.Node]int {
	named := map[*G.Node]int{}
	for _, user := range n.Loss.Graph().AllNodes() {
		count, in := 0, op.Operands(user)
		switch op.SpecOf(user).(type) {
		case op.Embed, op.EmbedBag:
			count = in[0].Shape()[0]
		case op.CrossEntropy:
			count = in[0].Shape()[1]
		default:
			continue
		}
		x := reshaped(in[1])
		if known := named[x]; known == 0 || count < known {
			named[x] = count
		}
	}
	return named
}

// check says how a network and the columns of a set do not fit.
func (f face) check(columns []data.Column) error {
	if len(f.inputs) != len(columns) {
		return fmt.Errorf("the network has %d inputs and the data %d columns: they must match one to one", len(f.inputs), len(columns))
	}
	for k, in := range f.inputs {
		c := columns[k]
		if in.size != c.Size() {
			return fmt.Errorf("input %s takes %d numbers an example where column %s has %d", in.name, in.size, c.Name, c.Size())
		}
		switch {
		case in.entries == 0:
		case c.Kind != data.Label && c.Kind != data.Index:
			return fmt.Errorf("input %s reads indices below %d, and column %s is a %v: make it a data.Label or data.Index, whose numbers are checked", in.name, in.entries, c.Name, c.Kind)
		case c.Classes > in.entries:
			return fmt.Errorf("input %s reads indices below %d where column %s has %d classes", in.name, in.entries, c.Name, c.Classes)
		}
	}
	if fit, _ := f.scored(columns); fit >= 0 {
		return nil
	}
	for _, k := range f.labels(columns) {
		if scores := f.output / columns[k].Size(); scores > 1 {
			return fmt.Errorf("the network answers with %d scores where column %s has %d classes", scores, columns[k].Name, columns[k].Classes)
		}
	}
	return nil
}

// labels are the columns whose classes answers may be scores of.
func (f face) labels(columns []data.Column) (all []int) {
	for k, c := range columns {
		if c.Kind == data.Label && f.output > 0 && f.output%c.Size() == 0 && (!f.label.known || f.label.input == k) {
			all = append(all, k)
		}
	}
	return all
}

// blank makes data.Pad of labels that the network ignores, once it has read them.
func (f face) blank(columns [][]float32) {
	if f.label.ignored == data.Pad || f.label.input < 0 || f.label.input >= len(columns) {
		return
	}
	for i, l := range columns[f.label.input] {
		if int(l) == f.label.ignored {
			columns[f.label.input][i] = data.Pad
		}
	}
}

// scored is the label column that a network's answers are compared with, and
// how many scores it gives each label; -1 where there is nothing to compare.
func (f face) scored(columns []data.Column) (label, scores int) {
	for _, k := range f.labels(columns) {
		c := columns[k]
		scores = f.output / c.Size()
		if scores >= c.Classes || scores > 1 && f.label.ignored >= scores && f.label.ignored == c.Classes-1 {
			return k, scores
		}
	}
	return -1, 0
}
