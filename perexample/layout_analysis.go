package perexample

import (
	"fmt"

	"github.com/dptrain/dptrain/internal/device/op"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// layoutKind is what a node of the forward pass contains.
type layoutKind uint8

const (
	layoutInvariant layoutKind = iota // depends on no input: parameters and constants
	layoutBatch                       // a block for each example
	layoutTotal                       // a sum over the examples
	layoutUnknown                     // computed by an operation without a rule
)

// layout describes where a node keeps each example. In memory, a batch tensor is [outer,
// batch, inner], so a reshape does not change its layout.
type layout struct {
	kind               layoutKind
	outer, inner       int
	dependsOnBatchSize bool // invariant: the numbers depend on how many examples there are
	fromParameter      bool // invariant: computed from a parameter
}

// isRowMajorBatch reports whether rows along axis 0 of a shape never contain parts of two
// examples. An operation on independent rows then keeps the examples apart.
func (l layout) isRowMajorBatch(shape tensor.Shape) bool {
	return l.kind == layoutBatch && l.outer == 1 && shape.Dims() > 0 && l.inner%(shape.TotalSize()/shape[0]) == 0
}

// batchAxis finds the axis that contains the examples. The size of the axis is
// before·batch·within.
func (l layout) batchAxis(shape tensor.Shape, batch int) (axis, before, within int, ok bool) {
	pre := 1
	for a, size := range shape {
		post := shape.TotalSize() / (pre * size)
		// outer·batch·inner is pre·size·post. A quotient with a remainder does not give
		// size.
		if before, within = l.outer/pre, l.inner/post; before*batch*within == size {
			return a, before, within, true
		}
		pre *= size
	}
	return 0, 0, 0, false
}

// layoutAnalysis is a network's forward pass with the layout of each node. The microbatch
// has at least two examples: with one, an axis of length one cannot be distinguished from the axis
// of examples.
type layoutAnalysis struct {
	*buildPair
	layouts   map[*G.Node]layout
	constants constantFolder
	unknown   *G.Node // the first node whose operation has no rule, or nil
}

// analyzeLayouts follows every example through the graph. It refuses operations that mix
// examples. It does not refuse an operation without a rule but records it, because a
// microbatch of one record is still correct. It also analyzes the other build: a cut into
// a fixed number of parts may fall between examples for one of the two sizes only.
func analyzeLayouts(net, other *Network) (*layoutAnalysis, error) {
	r, err := analyzeBuild(net, other)
	if err != nil {
		return nil, err
	}
	back, err := analyzeBuild(other, net)
	if err != nil {
		return nil, err
	}
	if r.unknown == nil {
		r.unknown = back.counterpart[back.unknown]
	}
	return r, nil
}

func analyzeBuild(net, other *Network) (*layoutAnalysis, error) {
	if err := checkOperations(net); err != nil { // before transfer sees the operands of such an operation, some of which Gorgonia creates
		return nil, err
	}
	t, err := newBuildPair(net, other)
	if err != nil {
		return nil, err
	}
	r := &layoutAnalysis{buildPair: t, layouts: map[*G.Node]layout{}, constants: constantFolder{}}
	for _, in := range net.Inputs {
		r.layouts[in] = layout{kind: layoutBatch, outer: 1, inner: in.Shape().TotalSize() / net.Batch}
	}
	if net.MaskSeed != nil {
		r.layouts[net.MaskSeed] = layout{kind: layoutBatch, outer: 1, inner: op.MaskSeedWidth}
	}
	for _, p := range net.Params {
		r.layouts[p] = layout{fromParameter: true}
	}
	for _, n := range t.order {
		if _, done := r.layouts[n]; done {
			continue
		}
		l, err := r.transfer(n)
		if err != nil {
			return nil, err
		}
		if l.kind == layoutBatch && !r.fitsBothBuilds(n, l) {
			l = r.markUnknown(n)
		}
		r.layouts[n] = l
	}
	return r, r.checkResults()
}

// checkResults checks the layouts of the network's loss, output and losses.
func (r *layoutAnalysis) checkResults() error {
	loss := r.layouts[r.net.Loss].kind
	if loss != layoutTotal && loss != layoutUnknown {
		return fmt.Errorf("loss %s is not a sum over the examples: end the graph in gorgonia.Sum of the examples' losses", r.net.Loss.Name())
	}
	for _, n := range append(r.net.observed(), r.net.Output, r.net.Losses) {
		if n == nil {
			continue
		}
		if l := r.layouts[n]; l.kind != layoutUnknown && !l.isRowMajorBatch(n.Shape()) {
			return fmt.Errorf("%s is listed as Output, Losses or Observed and has shape %v: axis 0 must be the microbatch of %d examples", describe(n), n.Shape(), r.net.Batch)
		}
	}
	if n := r.net.Losses; n != nil && n.Shape().TotalSize() != r.net.Batch {
		return fmt.Errorf("%s is listed as Losses and has shape %v: it must have one number for each of %d examples", describe(n), n.Shape(), r.net.Batch)
	}
	return nil
}

// fitsBothBuilds checks a layout against the sizes in both builds.
func (r *layoutAnalysis) fitsBothBuilds(n *G.Node, l layout) bool {
	one := l.outer * l.inner
	return one*r.net.Batch == n.Shape().TotalSize() && one*r.other.Batch == r.counterpart[n].Shape().TotalSize()
}

// markUnknown records an operation without a rule.
func (r *layoutAnalysis) markUnknown(n *G.Node) layout {
	if r.unknown == nil {
		r.unknown = n
	}
	return layout{kind: layoutUnknown}
}

func (r *layoutAnalysis) transfer(n *G.Node) (layout, error) {
	switch {
	case isConstant(n):
		return r.transferConstant(n)
	case n.Op() == nil:
		return layout{}, fmt.Errorf("node %s has no value: list it in Inputs or Params, or bind a constant to it", n.Name())
	case op.OpKind(n) == "sizeOp":
		a, known := op.AxisLength(n)
		b, _ := op.AxisLength(r.counterpart[n])
		return layout{dependsOnBatchSize: !known || a != b}, nil
	}
	in := op.CanonicalOperands(n)
	all := layout{}
	count := map[layoutKind]int{}
	for _, x := range in {
		l := r.layouts[x]
		count[l.kind]++
		all.dependsOnBatchSize = all.dependsOnBatchSize || l.dependsOnBatchSize
		all.fromParameter = all.fromParameter || l.fromParameter
	}
	switch {
	case count[layoutUnknown] > 0:
		return layout{kind: layoutUnknown}, nil
	case len(in) == 0:
		return r.markUnknown(n), nil
	case count[layoutInvariant] == len(in):
		return r.transferInvariant(n, all)
	case all.dependsOnBatchSize:
		return layout{}, fmt.Errorf("%s scales by the size of the batch: the loss must be the sum of the examples' losses (gorgonia.Sum, not Mean); the engine divides by the expected size of the lot", describe(n))
	case count[layoutTotal] > 0:
		return r.transferTotal(n, in, count[layoutBatch], all.fromParameter)
	}
	return r.transferBatch(n, in)
}

// transferConstant compares a constant between the builds.
func (r *layoutAnalysis) transferConstant(n *G.Node) (layout, error) {
	if _, yes := r.resizedAxis(n); yes {
		return r.transferInvariant(n, layout{})
	}
	if drawn, isDrawn := n.Value().(*InitialValue); isDrawn {
		if other, both := r.counterpart[n].Value().(*InitialValue); both && drawn.equals(other) {
			return layout{}, nil
		}
	}
	a, b := valuesOf(n), valuesOf(r.counterpart[n])
	switch {
	case a == nil:
		return layout{}, fmt.Errorf("constant %s has type %v: networks are trained in float32", constantName(n), n.Dtype())
	case equalBits(a, b):
		return layout{}, nil
	case len(a) == 1:
		return layout{dependsOnBatchSize: true}, nil
	}
	return layout{}, fmt.Errorf("constant %s has other values for %d examples than for %d: they must not depend on the size of the batch, and the builder must not draw random ones", constantName(n), r.net.Batch, r.other.Batch)
}

// transferInvariant is the layout of a node that depends on no example. A node computed
// from constants that has a row for each example is a batch. Its rows must be equal:
// otherwise an output would depend on the example's position in the microbatch.
func (r *layoutAnalysis) transferInvariant(n *G.Node, all layout) (layout, error) {
	axis, yes := r.resizedAxis(n)
	if !yes || all.fromParameter {
		return layout{fromParameter: all.fromParameter, dependsOnBatchSize: all.dependsOnBatchSize}, nil
	}
	a, b := r.constants.values(n), r.constants.values(r.counterpart[n])
	if axis < 0 || a == nil || b == nil {
		return r.markUnknown(n), nil
	}
	l := layout{kind: layoutBatch}
	l.outer, l.inner = op.OuterInner(n.Shape(), axis)
	l.inner *= n.Shape()[axis] / r.net.Batch
	if !r.fitsBothBuilds(n, l) {
		return r.markUnknown(n), nil
	}
	at := func(x []float64, batch, o, example, i int) []float64 {
		from := (o*batch+example)*l.inner + i
		return x[from : from+1]
	}
	for o := range l.outer {
		for i := range l.inner {
			first := at(a, r.net.Batch, o, 0, i)
			for e := range r.net.Batch {
				if !equalBits(first, at(a, r.net.Batch, o, e, i)) {
					return layout{}, fmt.Errorf("constant %s differs from example to example: make it an input", constantName(n))
				}
			}
			if !equalBits(first, at(b, r.other.Batch, o, 0, i)) {
				return layout{}, fmt.Errorf("constant %s depends on the size of the batch: an example's loss must be the same in any microbatch", constantName(n))
			}
		}
	}
	return l, nil
}

// transferTotal accepts only operations that keep the loss a fixed multiple of a sum over
// the examples.
func (r *layoutAnalysis) transferTotal(n *G.Node, in G.Nodes, batches int, param bool) (layout, error) {
	if batches > 0 {
		return layout{}, mixesExamples(n, "it combines a sum over the examples with single examples")
	}
	if param {
		return layout{}, fmt.Errorf("%s adds a term to the loss that belongs to no example: leave it out, and set weight decay in the optimiser (adamw)", describe(n))
	}
	sum := layout{kind: layoutTotal}
	switch s := op.Canonical(n).(type) {
	case op.Reshape, op.SumAxes, op.Total, op.Add:
		return sum, nil
	case op.Unary:
		if s.Kind == "neg" {
			return sum, nil
		}
	case op.Binary:
		second := r.layouts[in[1]].kind
		switch {
		case s.Kind == "+", s.Kind == "-",
			s.Kind == "*" && (second == layoutInvariant || r.layouts[in[0]].kind == layoutInvariant),
			s.Kind == "/" && second == layoutInvariant:
			return sum, nil
		}
	}
	return layout{}, mixesExamples(n, "it is not a fixed multiple of a sum over the examples")
}
