package perexample

import (
	"fmt"

	"github.com/dptrain/dptrain/internal/op"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// kind says what a node of the forward pass holds.
type kind uint8

const (
	free    kind = iota // depends on no input: parameters, constants
	batch               // a block for each example
	total               // a sum over the examples
	unknown             // comes from an operation that has no rule
)

// layout says where a node keeps each example: in memory a batch tensor is
// [outer, batch, inner], so that reshaping it changes nothing here.
type layout struct {
	kind         kind
	outer, inner int
	sized        bool // free: its numbers depend on how many examples there are
	param        bool // free: computed from a parameter
}

// inRows reports whether axis 0 of a shape cuts between examples, so that an
// operation on independent rows keeps them apart.
func (l layout) inRows(shape tensor.Shape) bool {
	return l.kind == batch && l.outer == 1 && shape.Dims() > 0 && l.inner%(shape.TotalSize()/shape[0]) == 0
}

// axis finds the axis that holds the examples: its size is before·batch·within.
func (l layout) axis(shape tensor.Shape, batch int) (axis, before, within int, ok bool) {
	pre := 1
	for a, size := range shape {
		post := shape.TotalSize() / (pre * size)
		// outer·batch·inner is pre·size·post: a quotient that leaves a rest misses size.
		if before, within = l.outer/pre, l.inner/post; before*batch*within == size {
			return a, before, within, true
		}
		pre *= size
	}
	return 0, 0, 0, false
}

// reading is a network's forward pass with the layout of each node. Its
// microbatch has at least two examples: with one, an axis of length one cannot
// be told from the axis of examples.
type reading struct {
	*twins
	layouts   map[*G.Node]layout
	constants constants
	unknown   *G.Node // the first node whose operation has no rule, if any
}

// read follows every example through the graph. It refuses what mixes examples;
// an operation that it does not know is noted, not refused: a microbatch of one
// record is still right for it. The other build is followed too: what is cut into a
// fixed number of parts may fall between examples for one of the sizes alone.
func read(net, other *Network) (*reading, error) {
	r, err := follow(net, other)
	if err != nil {
		return nil, err
	}
	back, err := follow(other, net)
	if err != nil {
		return nil, err
	}
	if r.unknown == nil {
		r.unknown = back.of[back.unknown]
	}
	return r, nil
}

func follow(net, other *Network) (*reading, error) {
	if err := refuse(net); err != nil { // before what such an operation is given: Gorgonia makes some of that itself
		return nil, err
	}
	t, err := pair(net, other)
	if err != nil {
		return nil, err
	}
	r := &reading{twins: t, layouts: map[*G.Node]layout{}, constants: constants{}}
	for _, in := range net.Inputs {
		r.layouts[in] = layout{kind: batch, outer: 1, inner: in.Shape().TotalSize() / net.Batch}
	}
	if net.MaskSeed != nil {
		r.layouts[net.MaskSeed] = layout{kind: batch, outer: 1, inner: op.MaskSeedWidth}
	}
	for _, p := range net.Params {
		r.layouts[p] = layout{param: true}
	}
	for _, n := range t.order {
		if _, done := r.layouts[n]; done {
			continue
		}
		l, err := r.layout(n)
		if err != nil {
			return nil, err
		}
		if l.kind == batch && !r.fits(n, l) {
			l = r.unruled(n)
		}
		r.layouts[n] = l
	}
	return r, r.ends()
}

// ends checks what the network hands out: its loss, answers and losses.
func (r *reading) ends() error {
	loss := r.layouts[r.net.Loss].kind
	if loss != total && loss != unknown {
		return fmt.Errorf("loss %s is no sum over the examples: end the graph in gorgonia.Sum of the examples' losses", r.net.Loss.Name())
	}
	for _, n := range []*G.Node{r.net.Output, r.net.Losses} {
		if n == nil {
			continue
		}
		if l := r.layouts[n]; l.kind != unknown && !l.inRows(n.Shape()) {
			return fmt.Errorf("%s is listed as Output or Losses and has shape %v: axis 0 must be the microbatch of %d examples", describe(n), n.Shape(), r.net.Batch)
		}
	}
	if n := r.net.Losses; n != nil && n.Shape().TotalSize() != r.net.Batch {
		return fmt.Errorf("%s is listed as Losses and has shape %v: one number is needed for each of %d examples", describe(n), n.Shape(), r.net.Batch)
	}
	return nil
}

// fits holds a layout against both builds.
func (r *reading) fits(n *G.Node, l layout) bool {
	one := l.outer * l.inner
	return one*r.net.Batch == n.Shape().TotalSize() && one*r.other.Batch == r.of[n].Shape().TotalSize()
}

// unruled notes an operation that has no rule.
func (r *reading) unruled(n *G.Node) layout {
	if r.unknown == nil {
		r.unknown = n
	}
	return layout{kind: unknown}
}

func (r *reading) layout(n *G.Node) (layout, error) {
	switch {
	case isConstant(n):
		return r.constant(n)
	case n.Op() == nil:
		return layout{}, fmt.Errorf("node %s has no value: list it in Inputs or Params, or bind a constant to it", n.Name())
	case op.OpKind(n) == "sizeOp":
		a, known := op.AxisLength(n)
		b, _ := op.AxisLength(r.of[n])
		return layout{sized: !known || a != b}, nil
	}
	in := op.CanonicalOperands(n)
	all := layout{}
	count := map[kind]int{}
	for _, x := range in {
		l := r.layouts[x]
		count[l.kind]++
		all.sized = all.sized || l.sized
		all.param = all.param || l.param
	}
	switch {
	case count[unknown] > 0:
		return layout{kind: unknown}, nil
	case len(in) == 0:
		return r.unruled(n), nil
	case count[free] == len(in):
		return r.ofFree(n, all)
	case all.sized:
		return layout{}, fmt.Errorf("%s scales by the size of the batch: the loss must be the sum of the examples' losses (gorgonia.Sum, not Mean); the engine divides by the expected size of the lot", describe(n))
	case count[total] > 0:
		return r.afterTotal(n, in, count[batch], all.param)
	}
	return r.ofBatch(n, in)
}

// constant compares a constant between the builds.
func (r *reading) constant(n *G.Node) (layout, error) {
	if _, yes := r.resized(n); yes {
		return r.ofFree(n, layout{})
	}
	a, b := numbers(n), numbers(r.of[n])
	switch {
	case a == nil:
		return layout{}, fmt.Errorf("constant %s holds %v: networks are trained in float32", called(n), n.Dtype())
	case equal(a, b):
		return layout{}, nil
	case len(a) == 1:
		return layout{sized: true}, nil
	}
	return layout{}, fmt.Errorf("constant %s has other values for %d examples than for %d: they must not depend on the size of the batch, nor be drawn anew in the builder", called(n), r.net.Batch, r.other.Batch)
}

// ofFree gives the layout of a node that no example has a say in. One made of
// constants, with a row for each example, is a batch; its rows must be alike, or
// an answer would depend on an example's place in the microbatch.
func (r *reading) ofFree(n *G.Node, all layout) (layout, error) {
	axis, yes := r.resized(n)
	if !yes || all.param {
		return layout{param: all.param, sized: all.sized}, nil
	}
	a, b := r.constants.of(n), r.constants.of(r.of[n])
	if axis < 0 || a == nil || b == nil {
		return r.unruled(n), nil
	}
	l := layout{kind: batch}
	l.outer, l.inner = op.OuterInner(n.Shape(), axis)
	l.inner *= n.Shape()[axis] / r.net.Batch
	if !r.fits(n, l) {
		return r.unruled(n), nil
	}
	at := func(x []float64, batch, o, example, i int) []float64 {
		from := (o*batch+example)*l.inner + i
		return x[from : from+1]
	}
	for o := range l.outer {
		for i := range l.inner {
			first := at(a, r.net.Batch, o, 0, i)
			for e := range r.net.Batch {
				if !equal(first, at(a, r.net.Batch, o, e, i)) {
					return layout{}, fmt.Errorf("constant %s differs from example to example: make it an input", called(n))
				}
			}
			if !equal(first, at(b, r.other.Batch, o, 0, i)) {
				return layout{}, fmt.Errorf("constant %s depends on the size of the batch: an example's loss must be the same in any microbatch", called(n))
			}
		}
	}
	return l, nil
}

// afterTotal allows only what keeps the loss a fixed multiple of a sum over the
// examples.
func (r *reading) afterTotal(n *G.Node, in G.Nodes, batches int, param bool) (layout, error) {
	if batches > 0 {
		return layout{}, mixes(n, "it combines a sum over the examples with single examples")
	}
	if param {
		return layout{}, fmt.Errorf("%s adds to the loss a term that no example owns: leave it out; weight decay belongs to the optimiser (adamw)", describe(n))
	}
	sum := layout{kind: total}
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
			s.Kind == "*" && (second == free || r.layouts[in[0]].kind == free),
			s.Kind == "/" && second == free:
			return sum, nil
		}
	}
	return layout{}, mixes(n, "it is no fixed multiple of a sum over the examples")
}
