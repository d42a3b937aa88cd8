package gorgonia

import (
	"fmt"
	"slices"

	"github.com/dptrain/dptrain/internal/device/op"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// variable is a variable of the graph and the host's memory for its value.
type variable struct {
	node *G.Node
	host []float32
}

func newVariable(n *G.Node) *variable {
	return &variable{node: n, host: make([]float32, n.Shape().TotalSize())}
}

// bind makes the host's memory the variable's value.
func (l *variable) bind(values map[*G.Node]G.Value) {
	switch {
	case l == nil:
	case l.node.IsScalar():
		values[l.node] = G.NewF32(l.host[0])
	default:
		values[l.node] = tensor.New(tensor.WithShape(l.node.Shape()...), tensor.WithBacking(l.host))
	}
}

// step computes one node.
type step struct {
	node *G.Node
	op   G.Op
	in   G.Nodes
}

// miscomputed are operations of Gorgonia v0.9.18 that run by the reference of package op
// instead. Gorgonia's softmax takes every row's maximum to be at least the first number
// of the whole tensor, so that one example can overflow another. Its max pooling panics
// on a picture of NaNs.
var miscomputed = map[string]bool{
	"softmaxOp": true, "softmaxDiffOp": true, "maxPoolOp": true, "maxPoolDiffOp": true,
}

func newStep(n *G.Node) (step, error) {
	if !miscomputed[op.OpKind(n)] {
		return step{n, n.Op(), op.Operands(n)}, nil
	}
	spec := op.Canonical(n)
	if spec == nil {
		return step{}, fmt.Errorf("gorgonia: node %s (%v) has no reference; use an operation of models/layer", n.Name(), n.Op())
	}
	in := op.CanonicalOperands(n)
	sound, err := op.Apply(spec, in...)
	if err != nil {
		return step{}, err
	}
	return step{n, sound.Op(), in}, nil
}

// nodeList is a list of nodes to compute in order, and the results to read.
type nodeList struct {
	steps   []step
	values  map[*G.Node]G.Value
	results G.Nodes
	hosts   [][]float32
}

// addResult adds a node to the results and returns the memory that its value is read to.
func (t *nodeList) addResult(n *G.Node) []float32 {
	t.results = append(t.results, n)
	host := make([]float32, n.Shape().TotalSize())
	t.hosts = append(t.hosts, host)
	return host
}

// collect lists all nodes that the results depend on and that an earlier list does not
// compute.
func (t *nodeList) collect(earlier *nodeList) error {
	seen := map[*G.Node]bool{}
	if earlier != nil {
		for _, s := range earlier.steps {
			seen[s.node] = true
		}
	}
	for _, n := range op.Ancestors(t.results...) {
		if n.Op() == nil || seen[n] {
			continue
		}
		s, err := newStep(n)
		if err != nil {
			return err
		}
		t.steps = append(t.steps, s)
	}
	return nil
}

// splitUnchanged moves the nodes that do not depend on the given variables to a list of their own.
func (t *nodeList) splitUnchanged(variables []*variable) *nodeList {
	changes := map[*G.Node]bool{}
	for _, v := range variables {
		changes[v.node] = true
	}
	unchanged, steps := &nodeList{values: t.values}, t.steps
	t.steps = nil
	for _, s := range steps {
		if slices.ContainsFunc(s.in, func(n *G.Node) bool { return changes[n] }) {
			changes[s.node] = true
			t.steps = append(t.steps, s)
		} else {
			unchanged.steps = append(unchanged.steps, s)
		}
	}
	return unchanged
}

// run computes every node.
func (t *nodeList) run() error {
	for _, s := range t.steps {
		if err := t.compute(s); err != nil {
			return fmt.Errorf("gorgonia: node %s: %w", s.node.Name(), err)
		}
	}
	for i, n := range t.results {
		if err := op.CopyValue(t.hosts[i], t.valueOf(n)); err != nil {
			return fmt.Errorf("gorgonia: node %s of shape %v: %w", n.Name(), n.Shape(), err)
		}
	}
	return nil
}

// valueOf is a node's value: computed, bound, or constant.
func (t *nodeList) valueOf(n *G.Node) G.Value {
	if v, ok := t.values[n]; ok {
		return v
	}
	return n.Value()
}

// compute runs one operation. Some of Gorgonia's panic instead of failing.
func (t *nodeList) compute(s step) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	var in []G.Value
	for _, x := range s.in {
		in = append(in, t.valueOf(x))
	}
	t.values[s.node], err = s.op.Do(in...)
	return err
}
