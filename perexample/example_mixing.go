package perexample

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/dptrain/dptrain/internal/device/op"
	G "gorgonia.org/gorgonia"
)

// exampleTracer finds which examples an element depends on, where no rule gives a layout.
// It evaluates the reference of an operation twice, with other values for one example. A
// difference proves a dependence. No difference proves nothing, so that only an operation
// that certainly mixes examples is refused.
//
// A recurrence whose batch is not on axis 0 needs this: it has no rule and could be computed one
// record at a time. But its sequence would then be the batch of one record, with a single
// step: not the network that was written.
type exampleTracer struct {
	*layoutAnalysis
	random *rand.Rand
	known  map[*G.Node][]exampleSet // nil: not known
}

// exampleSet is the set of the examples that an element depends on; bit e is example e.
type exampleSet uint8

const bothExamples exampleSet = 3

// checkMixing refuses operations that read axis 0 as the batch, have no layout, and
// certainly mix examples. The network is built for two examples.
func (r *layoutAnalysis) checkMixing() error {
	t := &exampleTracer{r, rand.New(rand.NewPCG(1, 2)), map[*G.Node][]exampleSet{}}
	for _, n := range r.order {
		if r.layouts[n].kind != layoutUnknown {
			continue
		}
		sets := t.trace(n)
		if !slices.Contains(sets, bothExamples) {
			t.known[n] = sets
			continue
		}
		// An operation of another kind may be a sum over the examples: its set stays unknown.
		if layer := layerAt(n); layer != nil {
			return mixesExamples(layer, "its axis 0 is not the batch; move the batch there with gorgonia.Transpose: [batch, time, features] (batch_first), [batch, channels, height, width]")
		}
	}
	return nil
}

// layerAt returns the operation at n that reads axis 0 as the batch: n itself or, if n is
// the product of a convolution, the windows; nil if there is none.
func layerAt(n *G.Node) *G.Node {
	switch op.Canonical(n).(type) {
	case op.Binary, op.Add, op.Unary:
		return nil
	case op.Rowwise:
		return n
	case op.MatMul:
		for _, x := range op.Operands(n) {
			for _, ok := op.Canonical(x).(op.Reshape); ok; _, ok = op.Canonical(x).(op.Reshape) {
				x = op.Operands(x)[0]
			}
			if _, ok := op.Canonical(x).(op.Im2Col); ok {
				return x
			}
		}
	}
	return nil
}

// trace returns the examples that each element of n depends on, given those of its
// operands; nil if it cannot.
func (t *exampleTracer) trace(n *G.Node) []exampleSet {
	s := op.Canonical(n)
	if s == nil {
		return nil
	}
	in := op.CanonicalOperands(n)
	sets := make([][]exampleSet, len(in))
	for i, x := range in {
		if sets[i] = t.setsOf(x); sets[i] == nil {
			return nil
		}
	}
	if rows := setsOfRows(n, s, sets); rows != nil {
		return rows
	}
	shapes, size := op.ShapesOf(in), n.Shape().TotalSize()
	out := make([]exampleSet, size)
	for _, asIndices := range []bool{false, true} {
		values := make([][]float64, len(in))
		for i, x := range in {
			values[i] = t.valuesFor(x, sets[i], asIndices)
		}
		before := make([]float64, size)
		s.Do(before, values, shapes)
		for example := range 2 {
			others, after := make([][]float64, len(in)), make([]float64, size)
			for i, x := range values {
				others[i] = slices.Clone(x)
				for j, set := range sets[i] {
					if set>>example&1 == 1 {
						others[i][j] = t.otherValue(others[i][j], asIndices)
					}
				}
			}
			s.Do(after, others, shapes)
			for i, v := range after {
				if math.Float64bits(v) != math.Float64bits(before[i]) {
					out[i] |= 1 << example
				}
			}
		}
	}
	return out
}

// setsOfRows returns the sets of an operation on independent rows, if no row has elements
// of both examples; otherwise nil. It saves the evaluation of large layers.
func setsOfRows(n *G.Node, s op.Operation, sets [][]exampleSet) []exampleSet {
	o, ok := s.(op.Rowwise)
	if !ok || n.Dims() == 0 {
		return nil
	}
	in, rows := op.CanonicalOperands(n), make([]exampleSet, n.Shape()[0])
	for i, isRow := range o.Rows(len(in)) {
		if isRow && (in[i].Dims() == 0 || in[i].Shape()[0] != len(rows)) {
			return nil
		}
		for j, set := range sets[i] {
			switch {
			case isRow:
				rows[j*len(rows)/len(sets[i])] |= set
			case set != 0:
				return nil
			}
		}
	}
	if slices.Contains(rows, bothExamples) {
		return nil
	}
	out := make([]exampleSet, n.Shape().TotalSize())
	for j := range out {
		out[j] = rows[j*len(rows)/len(out)]
	}
	return out
}

// isFixed reports whether a node is computed from constants only.
func (t *exampleTracer) isFixed(x *G.Node) bool {
	for _, n := range op.Ancestors(x) {
		if !isConstant(n) && n.Op() == nil || slices.Contains(t.net.Params, n) {
			return false
		}
	}
	return true
}

// valuesFor returns the values of a constant. It draws those of any other node: the layers
// before it compute others for other parameters. They are in the domain of logarithms and
// roots or, where they depend on an example and asIndices is set, indices or labels.
func (t *exampleTracer) valuesFor(x *G.Node, sets []exampleSet, asIndices bool) []float64 {
	if t.isFixed(x) {
		if values := t.constants.values(x); values != nil {
			return values
		}
	}
	values := make([]float64, len(sets))
	for i, set := range sets {
		if values[i] = 0.5 + t.random.Float64(); set != 0 && asIndices {
			values[i] = float64(t.random.IntN(2))
		}
	}
	return values
}

func (t *exampleTracer) otherValue(v float64, asIndex bool) float64 {
	if asIndex {
		return 1 - v
	}
	return 0.5 + t.random.Float64()
}

// setsOf returns the examples that each element of an operand depends on; nil if they are
// not known.
func (t *exampleTracer) setsOf(x *G.Node) []exampleSet {
	l := t.layouts[x]
	switch l.kind {
	case layoutUnknown:
		return t.known[x]
	case layoutTotal:
		return nil
	}
	sets := make([]exampleSet, x.Shape().TotalSize())
	if l.kind == layoutBatch && !t.isFixed(x) {
		for i := range sets {
			sets[i] = 1 << (i / l.inner % t.net.Batch)
		}
	}
	return sets
}
