package perexample

import (
	"github.com/dptrain/dptrain/internal/device/op"
	G "gorgonia.org/gorgonia"
)

// derivedWeight is a node computed from parameters and constants only, such as a
// standardized weight, with the examples' uses of it.
type derivedWeight struct {
	node *G.Node
	uses []parameterUse
}

// derivedWeights finds every use of a parameter and the node through which the examples
// use it: the parameter itself, or a function of it. Each use belongs to one node. A
// record's gradient of the parameter is then the sum of the nodes' gradients, each
// multiplied by its function's transposed Jacobian.
func (r *layoutAnalysis) derivedWeights(p *G.Node, signal *signalWeighting) ([]derivedWeight, error) {
	var found []derivedWeight
	pending, known := G.Nodes{p}, map[*G.Node]bool{p: true}
	for len(pending) > 0 {
		m := derivedWeight{node: pending[0]}
		pending = pending[1:]
		// A node that is repeated for every example is a view of the node before it.
		for views := []parameterView{{node: m.node}}; len(views) > 0; views = views[1:] {
			for _, n := range distinctNodes(r.users[views[0].node]) {
				_, resized := r.resizedAxis(n)
				switch {
				case n.Deriv() == nil || known[n]:
				case r.layouts[n].kind != layoutInvariant:
					us, err := r.usesByNode(n, views[0], signal)
					if err != nil {
						return nil, err
					}
					if !r.coverNode(us, m.node) {
						return nil, &noRuleError{n, p}
					}
					m.uses = append(m.uses, us...)
				case resized:
					next, ok := views[0].through(n)
					if !ok {
						return nil, &noRuleError{n, p}
					}
					views = append(views, next)
				case views[0].node != m.node:
					return nil, &noRuleError{n, p}
				default:
					known[n] = true
					pending = append(pending, n)
				}
			}
		}
		if m.uses != nil {
			found = append(found, m)
		}
	}
	return found, nil
}

// coverNode reports whether there are uses and each use covers all elements of a node, in
// order.
func (r *layoutAnalysis) coverNode(us []parameterUse, n *G.Node) bool {
	for _, u := range us {
		if u.at.toMap(n.Shape().TotalSize()) != nil {
			return false
		}
	}
	return len(us) > 0
}

// minRecordsPerPart is how many records' gradients are built together at least, so that
// every thread has work.
const minRecordsPerPart = 4

// addDerived adds a parameter that the examples use through functions of it. Let J be the
// Jacobian of a function. It is the same for all records, and a record's gradient of the
// parameter is Jᵀ times its gradient of the function's value. The value's gradients are
// built and multiplied by Jᵀ row by row. The clipped sum adds the same rows whose norms
// are taken. Applying Jᵀ to a sum of clipped gradients would be cheaper. But if Jᵀ
// removes most of a gradient, as standardization removes the mean, the roundings of the
// two ways differ by more than a bound on the norm allows.
//
// If the gradients are larger than the rows that they are computed from, they are not
// kept but built again for the sum. Only as many records are taken together as those rows
// have room for, and at least minRecordsPerPart.
func (p *PrivateNetwork) addDerived(r *layoutAnalysis, v *Parameter, weights []derivedWeight) error {
	largest, rows := v.Node.Shape().TotalSize(), 0
	var vjps []*vjp
	for i := range weights {
		m := &weights[i]
		size := m.node.Shape().TotalSize()
		largest = max(largest, size)
		var err error
		if m.uses, err = p.stackUses(m.uses, size); err != nil {
			return err
		}
		for _, u := range m.uses {
			for _, x := range formInputs(u.Use) {
				rows += x.Shape().TotalSize() / p.Records
			}
			v.addKind(kindName(u.Form))
		}
		pullback, err := r.newVJP(v.Node, m.node)
		if err != nil {
			return err
		}
		vjps = append(vjps, pullback)
	}
	if largest <= rows {
		v.Method = "kept, pulled back"
		gradients, err := p.derivedGradients(weights, vjps, recordRange{count: p.Records})
		if err != nil {
			return err
		}
		return v.useRecordGradients(gradients)
	}
	v.Method = "in parts, pulled back"
	return p.addDerivedInParts(v, weights, vjps, max(minRecordsPerPart, p.Records*rows/largest))
}

// addDerivedInParts builds and sums the gradients of step records at a time.
func (p *PrivateNetwork) addDerivedInParts(v *Parameter, weights []derivedWeight, vjps []*vjp, step int) (err error) {
	var squared G.Nodes
	for from := 0; from < p.Records; from += step {
		s := recordRange{from: from, count: min(step, p.Records-from)}
		gradients, err := p.derivedGradients(weights, vjps, s)
		if err != nil {
			return err
		}
		square, err := op.Apply(op.RowSquares{}, gradients)
		if err != nil {
			return err
		}
		squared = append(squared, square)
		s.rebuild = true
		if gradients, err = p.derivedGradients(weights, vjps, s); err != nil {
			return err
		}
		factors, err := p.sliceRecords(v.ClipFactors, s)
		if err != nil {
			return err
		}
		part, err := op.Apply(op.WeightedRows{}, gradients, factors)
		if err != nil {
			return err
		}
		if v.ClippedSum, err = addTo(v.ClippedSum, part); err != nil {
			return err
		}
	}
	v.SquaredNorms, err = op.Apply(op.Concat{}, squared...)
	return err
}

// recordRange is a range of records of a microbatch. With rebuild set, what is computed
// for them gets nodes of its own, so that a device computes it a second time.
type recordRange struct {
	from, count int
	rebuild     bool
}

// derivedGradients are the parameter's gradients of the records in a range, [count,
// size].
func (p *PrivateNetwork) derivedGradients(weights []derivedWeight, vjps []*vjp, s recordRange) (sum *G.Node, err error) {
	for i, m := range weights {
		gradients, err := p.valueGradients(m, s)
		if err != nil {
			return nil, err
		}
		if gradients, err = vjps[i].applyToRows(gradients, s); err != nil {
			return nil, err
		}
		if sum, err = addTo(sum, gradients); err != nil {
			return nil, err
		}
	}
	return sum, nil
}

// valueGradients are a derived weight's gradients of the records in a range.
func (p *PrivateNetwork) valueGradients(m derivedWeight, s recordRange) (sum *G.Node, err error) {
	for _, u := range m.uses {
		in := formInputs(u.Use)
		for i, x := range in {
			if in[i], err = p.sliceRecords(x, s); err != nil {
				return nil, err
			}
		}
		one, err := op.Apply(op.RecordGradients{Form: u.Form, Records: s.count}, in...)
		if err != nil {
			return nil, err
		}
		if sum, err = addTo(sum, one); err != nil {
			return nil, err
		}
	}
	return sum, nil
}

// addTo adds x to a sum; a nil sum is zero.
func addTo(sum, x *G.Node) (*G.Node, error) {
	if sum == nil {
		return x, nil
	}
	return op.Apply(op.Add{}, sum, x)
}

// sliceRecords is the part of a node for a range of records. The node has one block per
// record.
func (p *PrivateNetwork) sliceRecords(x *G.Node, s recordRange) (*G.Node, error) {
	if s.count == p.Records && !s.rebuild {
		return x, nil
	}
	to := []int{p.Records, x.Shape().TotalSize() / p.Records}
	if s.rebuild { // a different shape makes a different node
		to = append(to, 1)
	}
	x, err := reshape(x, to...)
	if err != nil {
		return nil, err
	}
	return op.Apply(op.Slice{From: s.from, Count: s.count, Step: 1}, x)
}
