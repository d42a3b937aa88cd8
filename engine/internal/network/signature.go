package network

import (
	"fmt"
	"slices"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
)

// Signature describes a network's inputs and outputs, without its graph and weights.
type Signature struct {
	Batch       int
	inputs      []inputSpec
	usedInputs  int // the first usedInputs inputs reach the output; the loss alone reads the others
	OutputSize  int // numbers of an example's output; 0: the network keeps no output
	TargetInput int // the input with which the loss compares the output; -1: none
	Label       labelSpec
}

// labelSpec describes the input whose classes the output scores.
type labelSpec struct {
	isKnown bool // otherwise any column of labels may be the input
	input   int  // -1: none, or not known
	Ignored int  // the class that layer.IgnoreLabel ignores; data.Pad: none
}

// inputSpec describes an input.
type inputSpec struct {
	name    string
	size    int // numbers of an example
	entries int // entries of the table, or classes, that the numbers select; 0: they are no indices
}

// unknownLabel is the label of a network without cross-entropy.
var unknownLabel = labelSpec{input: -1, Ignored: data.Pad}

// SignatureOf returns the signature of a network.
func SignatureOf(n *perexample.Network) Signature {
	s := Signature{Batch: n.Batch, TargetInput: -1, Label: unknownLabel}
	entries := countEntries(n)
	for _, in := range n.Inputs {
		s.inputs = append(s.inputs, inputSpec{in.Name(), in.Shape().TotalSize() / n.Batch, entries[in]})
	}
	if n.Output != nil {
		s.OutputSize = n.Output.Shape().TotalSize() / n.Batch
		s.usedInputs = countUsedInputs(n)
		if s.TargetInput = slices.Index(n.Inputs, n.Target); n.Target == nil {
			s.TargetInput = findTarget(n)
		}
		if s.Label = declaredLabel(n); n.Label == nil {
			s.Label = findLabel(n)
		}
	}
	return s
}

// countUsedInputs returns the number of inputs up to the last one that reaches the output.
func countUsedInputs(n *perexample.Network) (used int) {
	read := op.Ancestors(n.Output)
	for k, in := range n.Inputs {
		if slices.Contains(read, in) {
			used = k + 1
		}
	}
	return used
}

// declaredLabel returns the label that the network declares, with the class that its
// cross-entropies ignore.
func declaredLabel(n *perexample.Network) labelSpec {
	l := labelSpec{true, slices.Index(n.Inputs, n.Label), data.Pad}
	for _, loss := range n.Loss.Graph().AllNodes() {
		if _, ok := op.OperationOf(loss).(op.CrossEntropy); !ok {
			continue
		}
		labels := skipReshapes(op.Operands(loss)[1])
		if r, ok := op.OperationOf(labels).(op.Replace); ok && skipReshapes(op.Operands(labels)[0]) == n.Label {
			l.Ignored = int(r.Old)
			break
		}
	}
	return l
}

// findTarget returns the input from which the loss measures the output's distance; -1 where the
// loss is no distance, for example because the output is the logarithm of a rate.
func findTarget(n *perexample.Network) int {
	for _, loss := range n.Loss.Graph().AllNodes() {
		switch o := op.OperationOf(loss).(type) {
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

// findLabel returns the label that cross-entropy compares with the output, or with the node from
// which the output is computed number by number, such as the logits of its softmax. With several
// heads, each has its own label.
func findLabel(n *perexample.Network) labelSpec {
	labels := map[*G.Node]labelSpec{}
	for _, loss := range n.Loss.Graph().AllNodes() {
		if _, ok := op.OperationOf(loss).(op.CrossEntropy); !ok {
			continue
		}
		in := op.Operands(loss)
		input, ignored := skipReshapes(in[1]), data.Pad
		if r, ok := op.OperationOf(input).(op.Replace); ok {
			input, ignored = skipReshapes(op.Operands(input)[0]), int(r.Old)
		}
		if x := skipReshapes(in[0]); !labels[x].isKnown {
			labels[x] = labelSpec{true, slices.Index(n.Inputs, input), ignored}
		}
	}
	for x := n.Output; ; {
		if l, ok := labels[x]; ok {
			return l
		}
		in := op.Operands(x)
		switch op.Canonical(x).(type) {
		case op.Reshape, op.Softmax, op.Unary, op.Activate, op.Add, op.Binary:
			if x = in[0]; x.Shape().TotalSize() == 1 && len(in) > 1 { // a scalar operand
				x = in[1]
			}
		default:
			return labelSpec{len(labels) > 0, -1, data.Pad}
		}
	}
}

// skipReshapes returns the node that a chain of reshapes starts from.
func skipReshapes(x *G.Node) *G.Node {
	for {
		if _, ok := op.Canonical(x).(op.Reshape); !ok {
			return x
		}
		x = op.Operands(x)[0]
	}
}

// RestrictTo returns the signature for a set that has only the first columns, if the output needs
// no others.
func (s Signature) RestrictTo(columns int) Signature {
	if columns >= s.usedInputs && columns < len(s.inputs) {
		s.inputs = s.inputs[:columns]
	}
	return s
}

// countEntries returns the number of values of each input that selects something: the rows of the
// smallest table that it indexes, or the classes of which it is a label.
func countEntries(n *perexample.Network) map[*G.Node]int {
	entries := map[*G.Node]int{}
	for _, user := range n.Loss.Graph().AllNodes() {
		count, in := 0, op.Operands(user)
		switch op.OperationOf(user).(type) {
		case op.Embed, op.EmbedBag:
			count = in[0].Shape()[0]
		case op.CrossEntropy:
			count = in[0].Shape()[1]
		default:
			continue
		}
		x := skipReshapes(in[1])
		if known := entries[x]; known == 0 || count < known {
			entries[x] = count
		}
	}
	return entries
}

// Check returns an error where the network does not fit the columns of a set.
func (s Signature) Check(columns []data.Column) error {
	if len(s.inputs) != len(columns) {
		return fmt.Errorf("the network has %d inputs and the data %d columns: they must match one to one", len(s.inputs), len(columns))
	}
	for k, in := range s.inputs {
		c := columns[k]
		if in.size != c.Size() {
			return fmt.Errorf("input %s takes %d numbers per example, and column %s has %d", in.name, in.size, c.Name, c.Size())
		}
		switch {
		case in.entries == 0:
		case c.Kind != data.Label && c.Kind != data.Index:
			return fmt.Errorf("input %s takes indices below %d, and column %s is a %v: make it a data.Label or data.Index, whose numbers are checked", in.name, in.entries, c.Name, c.Kind)
		case c.Classes > in.entries:
			return fmt.Errorf("input %s takes indices below %d, and column %s has %d classes", in.name, in.entries, c.Name, c.Classes)
		}
	}
	if label, _ := s.ScoredLabel(columns); label >= 0 {
		return nil
	}
	for _, k := range s.labelCandidates(columns) {
		if scores := s.OutputSize / columns[k].Size(); scores > 1 {
			return fmt.Errorf("the network outputs %d scores, and column %s has %d classes", scores, columns[k].Name, columns[k].Classes)
		}
	}
	return nil
}

// labelCandidates returns the columns whose classes the output may score.
func (s Signature) labelCandidates(columns []data.Column) (candidates []int) {
	for k, c := range columns {
		if c.Kind == data.Label && s.OutputSize > 0 && s.OutputSize%c.Size() == 0 && (!s.Label.isKnown || s.Label.input == k) {
			candidates = append(candidates, k)
		}
	}
	return candidates
}

// PadIgnoredLabels replaces labels that the network ignores by data.Pad, after it has read them.
func (s Signature) PadIgnoredLabels(columns [][]float32) {
	if s.Label.Ignored == data.Pad || s.Label.input < 0 || s.Label.input >= len(columns) {
		return
	}
	for i, l := range columns[s.Label.input] {
		if int(l) == s.Label.Ignored {
			columns[s.Label.input][i] = data.Pad
		}
	}
}

// ScoredLabel returns the label column that the output is compared with, and the number of scores
// for each label; -1 where there is no such column.
func (s Signature) ScoredLabel(columns []data.Column) (label, scores int) {
	for _, k := range s.labelCandidates(columns) {
		c := columns[k]
		scores = s.OutputSize / c.Size()
		if scores >= c.Classes || scores > 1 && s.Label.Ignored >= scores && s.Label.Ignored == c.Classes-1 {
			return k, scores
		}
	}
	return -1, 0
}
