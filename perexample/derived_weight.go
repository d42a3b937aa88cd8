package perexample

import (
	"github.com/dptrain/dptrain/internal/op"
	G "gorgonia.org/gorgonia"
)

// derivedWeight is a node computed from parameters and constants alone, such as a
// standardised weight, with the uses that the examples make of it.
type derivedWeight struct {
	node *G.Node
	uses []parameterUse
}

// derivedWeights finds every use of a parameter by the node in which the examples meet
// it: the parameter itself, or a function of it. Each use belongs to one node, so
// that a record's gradient of the parameter is the sum of what the nodes' gradients
// give, each pulled back through its function.
func (r *layoutAnalysis) derivedWeights(p *G.Node, signal *signalWeighting) ([]derivedWeight, error) {
	var found []derivedWeight
	pending, known := G.Nodes{p}, map[*G.Node]bool{p: true}
	for len(pending) > 0 {
		m := derivedWeight{node: pending[0]}
		pending = pending[1:]
		// A node that is repeated for every example is a view of the one before it.
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

// coverNode reports whether there are uses and each is of all of a node's elements, in
// their order.
func (r *layoutAnalysis) coverNode(us []parameterUse, n *G.Node) bool {
	for _, u := range us {
		if u.at.toMap(n.Shape().TotalSize()) != nil {
			return false
		}
	}
	return len(us) > 0
}

// minRecordsPerPart is how many records' gradients are at least built side by side, so that
// every thread has work.
const minRecordsPerPart = 4

// addDerived handles a parameter that the examples meet in functions of it. With J the
// function's derivative, which is the same for all records, a record's gradient is
// Jᵀ applied to that of the function's value, so the latter is built and pulled
// back, row by row. What is summed are the very rows whose norms were found: Jᵀ of
// a sum of clipped gradients would be cheaper, but where Jᵀ takes most of a gradient
// away, as standardising does of its mean, the roundings of the two ways differ by
// more than a bound on the norm can promise.
//
// Where the gradients are larger than the rows that they come from, no more records
// are taken together than those rows have room for (together, at least), and the
// gradients are built anew for the sum instead of being kept.
func (p *PrivateNetwork) addDerived(r *layoutAnalysis, v *Parameter, ms []derivedWeight) error {
	largest, rows := v.Node.Shape().TotalSize(), 0
	var ways []*vjp
	for i := range ms {
		m := &ms[i]
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
		way, err := r.newVJP(v.Node, m.node)
		if err != nil {
			return err
		}
		ways = append(ways, way)
	}
	if largest <= rows {
		v.Method = "kept, pulled back"
		gradients, err := p.derivedGradients(ms, ways, recordRange{count: p.Records})
		if err != nil {
			return err
		}
		return v.useRecordGradients(gradients)
	}
	v.Method = "in parts, pulled back"
	return p.addDerivedInParts(v, ms, ways, max(minRecordsPerPart, p.Records*rows/largest))
}

// addDerivedInParts builds and sums the gradients of so many records at a time.
func (p *PrivateNetwork) addDerivedInParts(v *Parameter, ms []derivedWeight, ways []*vjp, step int) (err error) {
	var squared G.Nodes
	for from := 0; from < p.Records; from += step {
		s := recordRange{from: from, count: min(step, p.Records-from)}
		gradients, err := p.derivedGradients(ms, ways, s)
		if err != nil {
			return err
		}
		square, err := op.Apply(op.RowSquares{}, gradients)
		if err != nil {
			return err
		}
		squared = append(squared, square)
		s.rebuild = true
		if gradients, err = p.derivedGradients(ms, ways, s); err != nil {
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

// recordRange is some neighbouring records of a microbatch. With again set, what is built
// for them is built by nodes of its own, as a device runs it a second time.
type recordRange struct {
	from, count int
	rebuild     bool
}

// derivedGradients are the share's records' gradients of the parameter, [count, size].
func (p *PrivateNetwork) derivedGradients(ms []derivedWeight, ways []*vjp, s recordRange) (sum *G.Node, err error) {
	for i, m := range ms {
		met, err := p.valueGradients(m, s)
		if err != nil {
			return nil, err
		}
		if met, err = ways[i].applyToRows(met, s); err != nil {
			return nil, err
		}
		if sum, err = addTo(sum, met); err != nil {
			return nil, err
		}
	}
	return sum, nil
}

// valueGradients are the share's records' gradients of a node that the examples meet.
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

// addTo adds to a sum, which is nil at first.
func addTo(sum, x *G.Node) (*G.Node, error) {
	if sum == nil {
		return x, nil
	}
	return op.Apply(op.Add{}, sum, x)
}

// sliceRecords gives the share's records' part of a node that holds a block a record.
func (p *PrivateNetwork) sliceRecords(x *G.Node, s recordRange) (*G.Node, error) {
	if s.count == p.Records && !s.rebuild {
		return x, nil
	}
	to := []int{p.Records, x.Shape().TotalSize() / p.Records}
	if s.rebuild { // another shape makes another node
		to = append(to, 1)
	}
	x, err := reshape(x, to...)
	if err != nil {
		return nil, err
	}
	return op.Apply(op.Slice{From: s.from, Count: s.count, Step: 1}, x)
}
