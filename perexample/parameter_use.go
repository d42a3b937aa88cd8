package perexample

import (
	"fmt"

	"github.com/dptrain/dptrain/internal/device/op"
	G "gorgonia.org/gorgonia"
)

// parameterUse is one use of a parameter, with the elements of the parameter that the
// form's gradient belongs to.
type parameterUse struct {
	op.Use
	at elementMap
}

// noRuleError names a node that has no rule, or that uses a parameter in a way that has
// no rule.
type noRuleError struct {
	node  *G.Node
	param *G.Node
}

func (e *noRuleError) Error() string {
	if e.param == nil {
		return fmt.Sprintf("%s has no per-example rule", describe(e.node))
	}
	return fmt.Sprintf("%s uses parameter %s in a way that has no per-example rule", describe(e.node), e.param.Name())
}

// findUses finds every way in which the loss depends on a parameter. The graph is
// differentiated: a node without a derivative affects no gradient. Plain is false if the
// examples use the parameter through a function that does more than move its elements.
func (r *layoutAnalysis) findUses(p *G.Node, signal *signalWeighting) (found []parameterUse, plain bool, err error) {
	pending := []parameterView{{node: p}}
	for len(pending) > 0 {
		v := pending[0]
		pending = pending[1:]
		for _, n := range distinctNodes(r.users[v.node]) {
			if n.Deriv() == nil {
				continue
			}
			if r.layouts[n].kind == layoutInvariant {
				next, ok := v.through(n)
				if !ok {
					return nil, false, nil // derivedWeights finds them
				}
				pending = append(pending, next)
				continue
			}
			us, err := r.usesByNode(n, v, signal)
			if err != nil {
				return nil, true, err
			}
			if us == nil {
				return nil, true, &noRuleError{n, p}
			}
			found = append(found, us...)
		}
	}
	return found, true, nil
}

// distinctNodes drops repeated nodes. A node that uses an operand twice appears twice
// among its users.
func distinctNodes(ns G.Nodes) G.Nodes {
	var out G.Nodes
	seen := map[*G.Node]bool{}
	for _, n := range ns {
		if !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	return out
}

// usesByNode describes how node n, a batch, uses the view v. It returns nil if that has
// no rule.
func (r *layoutAnalysis) usesByNode(n *G.Node, v parameterView, signal *signalWeighting) ([]parameterUse, error) {
	var found []parameterUse
	for i, x := range op.Operands(n) {
		if x != v.node || !differentiated(n, i) {
			continue
		}
		u := parameterUse{at: v.at}
		var err error
		switch s := op.Canonical(n).(type) {
		case op.Parametric:
			u.Use, err = r.parametricUse(n, s, i, signal)
		case op.MatMul:
			u.Use, err = r.productUse(n, s, i, signal)
		case op.MatVec:
			u.Use, err = r.productUse(n, op.MatMul{TransA: s.Trans}, i, signal)
		case op.Add:
			u, err = r.broadcastUse(n, "+", i, v, signal)
		case op.Binary:
			u, err = r.broadcastUse(n, s.Kind, i, v, signal)
		}
		if err != nil || u.Form == nil {
			return nil, err
		}
		found = append(found, u)
	}
	return found, nil
}

// differentiated reports whether a gradient flows into operand i of a node.
func differentiated(n *G.Node, i int) bool {
	d, ok := n.Op().(G.SDOp)
	return ok && d.DiffWRT(len(op.Operands(n)))[i]
}

// parametricUse asks an operation of package op how it uses its operand i. The operand is
// shared by all rows; layoutAnalysis has checked that the others are batches.
func (r *layoutAnalysis) parametricUse(n *G.Node, s op.Parametric, i int, signal *signalWeighting) (op.Use, error) {
	delta, err := signal.signalOf(n, r.layouts[n])
	if err != nil {
		return op.Use{}, err
	}
	return s.Use(i, op.Operands(n), n, delta)
}

// productUse describes a matrix product of which operand i is the parameter. A vector
// counts as a column.
func (r *layoutAnalysis) productUse(n *G.Node, s op.MatMul, i int, signal *signalWeighting) (op.Use, error) {
	in := op.Operands(n)
	w, other := in[i].Shape(), in[1-i]
	p, d := w[0], 1
	if w.Dims() == 2 {
		d = w[1]
	}
	// The examples are the rows of the other operand if it is the left factor, else the
	// columns of the other operand and of the result.
	columns := i == 1 && s.TransA || i == 0 && !s.TransB
	rows, err := r.exampleRows(other, r.layouts[other], columns)
	if err != nil {
		return op.Use{}, err
	}
	delta, err := r.exampleRows(n.Deriv(), r.layouts[n], i == 0)
	if err != nil {
		return op.Use{}, err
	}
	if delta, err = signal.weight(delta); err != nil {
		return op.Use{}, err
	}
	// W maps the rows to delta if it is a right factor, or a transposed left factor.
	// Otherwise its gradient is the transposed product.
	form := op.Product{In: p, Out: d}
	if i == 1 && !s.TransB || i == 0 && s.TransA {
		return op.Use{Form: form, A: rows, Delta: delta}, nil
	}
	return op.Use{Form: form, A: delta, Delta: rows}, nil
}

// exampleRows returns the rows of a matrix, or its columns as rows, with the rows of each
// example together.
func (r *layoutAnalysis) exampleRows(x *G.Node, l layout, columns bool) (*G.Node, error) {
	if columns {
		first := x.Shape()[0]
		var err error
		if x, err = op.Apply(op.Permute{Order: op.AxesOf(1, 0)}, x); err != nil {
			return nil, err
		}
		l.outer, l.inner = l.outer/first, l.inner*first
	}
	return batchMajor(x, l, r.net.Batch)
}

// broadcastUse describes a sum, difference, product or quotient of a batch and a
// parameter.
func (r *layoutAnalysis) broadcastUse(n *G.Node, sign string, i int, v parameterView, signal *signalWeighting) (parameterUse, error) {
	l := r.layouts[n]
	other := op.Operands(n)[1-i]
	at, inner, ok := v.channelPattern(l, r.net.Batch)
	if !ok {
		return parameterUse{}, nil
	}
	u := parameterUse{at: at}
	switch {
	case sign == "+", sign == "-":
		u.Form = op.Shift{Channels: len(at), Inner: inner}
	case sign == "*", sign == "/" && i == 1:
		u.Form = op.Scale{Channels: len(at), Inner: inner}
	default:
		return parameterUse{}, nil
	}
	var err error
	if u.Delta, err = signal.signalOf(n, l); err != nil {
		return parameterUse{}, err
	}
	switch {
	case sign == "*":
		u.A, err = batchMajor(other, r.layouts[other], r.net.Batch)
	case sign == "/": // the derivative of x/w is −(x/w)/w
		if u.A, err = op.Apply(op.Binary{Kind: "/"}, n, v.node); err != nil {
			return parameterUse{}, err
		}
		if u.A, err = op.Apply(op.Unary{Kind: "neg"}, u.A); err != nil {
			return parameterUse{}, err
		}
		u.A, err = batchMajor(u.A, l, r.net.Batch)
	case sign == "-" && i == 1:
		u.Delta, err = op.Apply(op.Unary{Kind: "neg"}, u.Delta)
	}
	return u, err
}

// signalWeighting returns backpropagated signals with the elements of each example
// together. If records have several examples, it multiplies them by the example's weight
// within its record.
type signalWeighting struct {
	batch   int
	weights *G.Node // nil if every record is one example
}

func (s *signalWeighting) signalOf(n *G.Node, l layout) (*G.Node, error) {
	delta, err := batchMajor(n.Deriv(), l, s.batch)
	if err != nil {
		return nil, err
	}
	return s.weight(delta)
}

func (s *signalWeighting) weight(delta *G.Node) (*G.Node, error) {
	if s.weights == nil {
		return delta, nil
	}
	return op.Apply(op.ScaleRows{}, delta, s.weights)
}

func reshape(x *G.Node, to ...int) (*G.Node, error) {
	return op.Apply(op.Reshape{To: op.AxesOf(to...)}, x)
}

// batchMajor brings the elements of each example together: [outer, batch, inner] becomes
// [batch, outer, inner].
func batchMajor(x *G.Node, l layout, batch int) (*G.Node, error) {
	if l.outer == 1 {
		return x, nil
	}
	x, err := reshape(x, l.outer, batch, l.inner)
	if err != nil {
		return nil, err
	}
	return op.Apply(op.Permute{Order: op.AxesOf(1, 0, 2)}, x)
}
