package perexample

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/internal/device/op"
	G "gorgonia.org/gorgonia"
)

// buildPair pairs the nodes of two builds of one network, for microbatches of different
// size. A number that differs between them depends on the size of the microbatch. An axis
// that differs contains the examples.
type buildPair struct {
	net, other  *Network
	counterpart map[*G.Node]*G.Node
	order       G.Nodes // of net, operands before their users
	users       map[*G.Node]G.Nodes
}

// newBuildPair visits both builds in parallel. It refuses builders that make different
// networks for different numbers of examples.
func newBuildPair(net, other *Network) (*buildPair, error) {
	t := &buildPair{net: net, other: other, counterpart: map[*G.Node]*G.Node{}, users: map[*G.Node]G.Nodes{}}
	same := []struct {
		what string
		a, b G.Nodes
	}{
		{"input", net.Inputs, other.Inputs},
		{"parameter", net.Params, other.Params},
		{"mask seed", G.Nodes{net.MaskSeed}, G.Nodes{other.MaskSeed}},
		{"output", G.Nodes{net.Output}, G.Nodes{other.Output}},
		{"observed node", net.observed(), other.observed()},
		{"losses", G.Nodes{net.Losses}, G.Nodes{other.Losses}},
		{"loss", G.Nodes{net.Loss}, G.Nodes{other.Loss}},
	}
	for _, s := range same {
		if len(s.a) != len(s.b) {
			return nil, t.mismatch("%d %ss and %d", len(s.a), s.what, len(s.b))
		}
		for i, n := range s.a {
			m := s.b[i]
			if (n == nil) != (m == nil) {
				return nil, t.mismatch("%s is set for one of them only", s.what)
			}
			if n == nil {
				continue
			}
			if s.what == "parameter" && (n.Name() != m.Name() || !n.Shape().Eq(m.Shape())) {
				return nil, t.mismatch("parameter %d is %s of shape %v for one and %s of shape %v for the other", i, n.Name(), n.Shape(), m.Name(), m.Shape())
			}
			if err := t.visit(n, m); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

func (t *buildPair) mismatch(format string, args ...any) error {
	return fmt.Errorf("the builder makes different networks for %d and %d examples: %s", t.net.Batch, t.other.Batch, fmt.Sprintf(format, args...))
}

func (t *buildPair) visit(n, m *G.Node) error {
	if known, done := t.counterpart[n]; done {
		switch {
		case known == m:
			return nil
		case isConstant(n) && isConstant(m) && equalBits(valuesOf(known), valuesOf(m)):
			return nil
		}
		return t.mismatch("%s corresponds to two nodes of the other", describe(n))
	}
	t.counterpart[n] = m
	a, b := op.Operands(n), op.Operands(m)
	if len(a) != len(b) || opSignature(n) != opSignature(m) {
		return t.mismatch("%s is %s in the other", describe(n), describe(m))
	}
	for i, x := range a {
		if err := t.visit(x, b[i]); err != nil {
			return err
		}
		t.users[x] = append(t.users[x], n)
	}
	t.order = append(t.order, n)
	return nil
}

// opSignature describes a node's operation, without attributes that may depend on the
// number of examples.
func opSignature(n *G.Node) string {
	s := op.Canonical(n)
	switch s.(type) {
	case nil, op.Reshape, op.Repeat, op.Slice:
		return op.OpKind(n) + fmt.Sprintf("%T", s)
	}
	return s.String()
}

// isConstant reports whether a node is a fixed number or tensor.
func isConstant(n *G.Node) bool {
	return len(op.Operands(n)) == 0 && n.Value() != nil
}

// resizedAxis reports whether a node's shape depends on the number of examples, and along
// which axis. Axis −1 means several axes.
func (t *buildPair) resizedAxis(n *G.Node) (axis int, yes bool) {
	a, b := n.Shape(), t.counterpart[n].Shape()
	if len(a) != len(b) {
		return -1, true
	}
	for i := range a {
		if a[i] != b[i] {
			if yes {
				return -1, true
			}
			axis, yes = i, true
		}
	}
	return axis, yes
}

// constantFolder computes nodes that depend on constants only.
type constantFolder map[*G.Node][]float64

// values returns a node's numbers, or nil if they cannot be computed.
func (c constantFolder) values(n *G.Node) []float64 {
	if v, done := c[n]; done {
		return v
	}
	c[n] = c.fold(n)
	return c[n]
}

func (c constantFolder) fold(n *G.Node) []float64 {
	if isConstant(n) {
		return valuesOf(n)
	}
	if op.OpKind(n) == "sizeOp" {
		if size, ok := op.AxisLength(n); ok {
			return []float64{float64(size)}
		}
		return nil
	}
	s := op.Canonical(n)
	if s == nil {
		return nil
	}
	in := op.CanonicalOperands(n)
	values := make([][]float64, len(in))
	for i, x := range in {
		if values[i] = c.values(x); values[i] == nil {
			return nil
		}
	}
	out := make([]float64, n.Shape().TotalSize())
	s.Do(out, values, op.ShapesOf(in))
	return out
}

// valuesOf copies a node's value.
func valuesOf(n *G.Node) []float64 {
	switch v := n.Value().Data().(type) {
	case float32:
		return []float64{float64(v)}
	case []float32:
		out := make([]float64, len(v))
		for i, x := range v {
			out[i] = float64(x)
		}
		return out
	}
	return nil
}

// equalBits compares numbers by their bits, so that a NaN equals itself.
func equalBits(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i, x := range a {
		if math.Float64bits(x) != math.Float64bits(b[i]) {
			return false
		}
	}
	return true
}
