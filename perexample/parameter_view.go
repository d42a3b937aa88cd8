package perexample

import (
	"github.com/dptrain/dptrain/internal/device/op"
	G "gorgonia.org/gorgonia"
)

// parameterView is a parameter seen through reshapes, transposes, slices, repeats and
// concatenations. Element i of node is element at[i] of the parameter; a negative at[i]
// is no element of it. A nil at is the identity.
type parameterView struct {
	node *G.Node
	at   []int32
}

func (v parameterView) index(i int) int32 {
	if v.at == nil {
		return int32(i)
	}
	return v.at[i]
}

// through is the view that a node has of its operand. It is false if the node does more
// than move elements.
func (v parameterView) through(n *G.Node) (parameterView, bool) {
	switch s := op.Canonical(n).(type) {
	case op.Reshape:
		return parameterView{n, v.at}, true
	case op.Permute, op.Repeat, op.Slice, op.Concat:
		return parameterView{n, v.moveElements(s, n)}, true
	}
	return parameterView{}, false
}

// moveElements maps the view's elements through an operation that only moves elements:
// the operation runs on the element numbers, which are exact in float64.
func (v parameterView) moveElements(s op.Operation, n *G.Node) []int32 {
	in := op.CanonicalOperands(n)
	values := make([][]float64, len(in))
	for i, x := range in {
		values[i] = make([]float64, x.Shape().TotalSize())
		for j := range values[i] {
			if x == v.node {
				values[i][j] = float64(v.index(j))
			} else {
				values[i][j] = -1
			}
		}
	}
	out := make([]float64, n.Shape().TotalSize())
	s.Do(out, values, op.ShapesOf(in))
	at := make([]int32, len(out))
	for i, x := range out {
		at[i] = int32(x)
	}
	return at
}

// channelPattern finds the pattern of a parameter that is added to, or multiplied with, a
// batch of layout l. The pattern is a block, the same for every example, which repeats
// each of len(at) elements inner times, over and over.
func (v parameterView) channelPattern(l layout, batch int) (at []int32, inner int, ok bool) {
	block := l.outer * l.inner
	if v.node.Shape().TotalSize() == 1 {
		return []int32{v.index(0)}, block, true
	}
	one := make([]int32, 0, block)
	for o := range l.outer {
		from := o * batch * l.inner
		for i := range batch * l.inner {
			if v.index(from+i) != v.index(from+i%l.inner) {
				return nil, 0, false
			}
		}
		for i := range l.inner {
			one = append(one, v.index(from+i))
		}
	}
	for inner < block && one[inner] == one[0] {
		inner++
	}
	for i := 0; i < block; i += inner {
		if i > 0 && one[i] == one[0] {
			break
		}
		at = append(at, one[i])
	}
	if block%(inner*len(at)) != 0 {
		return one, 1, true
	}
	for i, a := range one {
		if a != at[i/inner%len(at)] {
			return one, 1, true
		}
	}
	return at, inner, true
}

// elementMap lists the elements of a parameter that a use covers. A nil map covers all
// elements, each once and in order.
type elementMap []int32

// toMap is the map to a parameter of size elements; nil if it is the identity.
func (at elementMap) toMap(size int) *op.Map {
	same := at == nil || len(at) == size
	for i, a := range at {
		same = same && a == int32(i)
	}
	if same {
		return nil
	}
	return op.NewMap(at)
}

// coverDisjointly reports whether no element of the parameter is covered twice and every
// entry is an element. Then the squared norms of the uses add up to the parameter's.
func coverDisjointly(all []elementMap, size int) bool {
	if len(all) == 1 && all[0] == nil {
		return true
	}
	seen := make([]bool, size)
	for _, at := range all {
		for _, a := range at {
			if a < 0 || seen[a] {
				return false
			}
			seen[a] = true
		}
		if at == nil {
			return false
		}
	}
	return true
}
