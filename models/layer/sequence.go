package layer

import (
	"fmt"
	"slices"

	"github.com/dptrain/dptrain/internal/op"
	G "gorgonia.org/gorgonia"
)

// sequence checks that x is [batch, time, features].
func (n *Net) sequence(what string, x *G.Node) bool {
	if n.ready(what, x) && x.Dims() != 3 {
		n.fail(fmt.Errorf("%s: input of shape %v: [batch, time, features] is needed", what, x.Shape()))
	}
	return n.err == nil
}

// Lookup gives a row of a table [vocabulary, dim] for each index, as Embedding
// does; the table is a parameter that may serve elsewhere too.
func (n *Net) Lookup(table, ids *G.Node) *G.Node {
	if !n.ready("lookup", table, ids) {
		return nil
	}
	return n.apply("lookup", op.Embed{}, table, ids)
}

// Scores multiplies x [batch, …, dim] with every row of a table [vocabulary, dim]:
// logits [batch, …, vocabulary] of a head that shares its weight with an
// embedding (Press & Wolf 2017).
func (n *Net) Scores(x, table *G.Node) *G.Node {
	const what = "scores"
	if !n.ready(what, table) || !n.features(what, x) {
		return nil
	}
	rows, back := n.rows(what, x)
	return back(n.apply(what, op.MatMul{TransB: true}, rows, table))
}

// rows lays the vectors of x [batch, …, features] out as a matrix, and gives the
// way back for a matrix of as many rows.
func (n *Net) rows(what string, x *G.Node) (matrix *G.Node, back func(y *G.Node) *G.Node) {
	shape := x.Shape().Clone()
	last := len(shape) - 1
	if last == 1 {
		return x, func(y *G.Node) *G.Node { return y }
	}
	return n.reshape(what, x, shape.TotalSize()/shape[last], shape[last]), func(y *G.Node) *G.Node {
		if y == nil {
			return nil
		}
		shape[last] = y.Shape()[1]
		return n.reshape(what, y, shape...)
	}
}

// MeanOverTime averages x [batch, time, features] over its steps, padding among
// them: [batch, features].
func (n *Net) MeanOverTime(x *G.Node) *G.Node {
	const what = "mean over time"
	if !n.sequence(what, x) {
		return nil
	}
	return n.mean(what, x)
}

// MeanWithoutPadding averages x [batch, time, features] over an example's own steps, those
// whose number in padding [batch, time], such as the indices that Embedding reads, is not
// below zero: [batch, features]. It is zeros where an example is padding alone, and to the
// bit MeanOverTime where nothing is padded.
func (n *Net) MeanWithoutPadding(x, padding *G.Node) *G.Node {
	const what = "mean without padding"
	if !n.sequence(what, x) || !n.ready(what, padding) {
		return nil
	}
	s, p := x.Shape(), padding.Shape()
	if !slices.Equal(p, s[:2]) {
		return n.fail(fmt.Errorf("%s: padding of shape %v and input of shape %v: a number for each step is needed", what, p, s))
	}
	return n.mean(what, n.apply(what, op.ScaleRows{}, x, n.ownSteps(what, padding)))
}

// ownSteps weighs the steps of padding [batch, time] so that each example's weights add up to
// all its steps: of T steps, k of which are an example's own, these have T/k and padding 0.
func (n *Net) ownSteps(what string, padding *G.Node) *G.Node {
	own := n.apply(what, op.Binary{Kind: ">="}, padding, G.NewConstant(float32(0)))
	root := n.apply(what, op.Normalize{Chunk: padding.Shape()[1], Eps: 1e-30}, own) // their mean square is 1
	return n.apply(what, op.ScaleRows{}, root, root)
}

// Positions adds name.weight [time, width], a learnt vector for each position, to
// x [batch, time, width].
func (n *Net) Positions(x *G.Node, name string) *G.Node {
	if !n.sequence(name, x) {
		return nil
	}
	s := x.Shape()
	w := n.Param(name+".weight", Normal(0.02), s[1], s[2])
	return n.apply(name, op.ChannelShift{Channels: s[1] * s[2], Inner: 1}, x, w)
}
