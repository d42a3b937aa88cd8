package perexample

import (
	"github.com/dptrain/dptrain/internal/op"
	G "gorgonia.org/gorgonia"
)

// parameterView is a parameter seen through reshapes, transposes, slices, repeats and
// concatenations: element i of node is element at[i] of the parameter, or none
// of it where at[i] is negative. A nil at is the parameter itself, element for
// element.
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

// through gives the view that a node is of its operand, or false where the node
// does more than move elements.
func (v parameterView) through(n *G.Node) (parameterView, bool) {
	switch s := op.Canonical(n).(type) {
	case op.Reshape:
		return parameterView{n, v.at}, true
	case op.Permute, op.Repeat, op.Slice, op.Concat:
		return parameterView{n, v.moveElements(s, n)}, true
	}
	return parameterView{}, false
}

// moveElements sends the view's places through an operation that only moves elements,
// by letting it move them: as numbers, they are exact in float64.
func (v parameterView) moveElements(s op.Spec, n *G.Node) []int32 {
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

// channelPattern finds the pattern of a parameter that is added to, or multiplied
// with, a batch laid out as l: the same block for every example, in which each of
// len(at) elements is repeated inner times, over and over.
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

// elementMap says which elements of a parameter a use reaches: a nil at means that it
// reaches all, each once and in order.
type elementMap []int32

// toMap makes the map from places to a parameter of size elements; nil where they
// are the parameter itself.
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

// coverDisjointly reports whether no element of the parameter is reached twice, and every
// place reaches one: then squared norms of the places add up to the parameter's.
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
